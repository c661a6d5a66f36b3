"""Manifest of an exported library: JSON beside it that says what is in it.

The text has one form only, and holds its own checksum and that of the library, so that no change
of either is taken for something else. Nothing of a library is executed before that is known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from symgrad.codegen.c_interface.abi import (
    ABI_VERSION,
    STATE_VERSION,
    Interface,
    Slot,
    StepInterface,
    pattern_symbols,
)
from symgrad.codegen.target import Target
from symgrad.errors import CompileError, LoadError, Source, user_source
from symgrad.frontend.nests import Nest, flatten, unflatten
from symgrad.frontend.sparse_tensor import SparseTensor, SparsityPattern
from symgrad.graph.aligned import ALIGNMENT
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.types import TensorType
from symgrad.records import dataclass
from symgrad.runtime.host import host_architecture, missing_features, required_features

FORMAT = 6
# What is read of a manifest before the library has said that it is its own.
_NEEDED = {
    "name": str, "architecture": str, "features": list, "targets": list, "functions": list,
    "handles": list, "library": dict,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failure:
    """What an op can fail for while a step runs: an index outside of `axis`.

    A call of a function of C has no `axis`: it fails by its status. Nor has a check of numbers,
    which fails if one of what is `checked` is not finite.
    """

    op: str
    axis: str | None
    source: Source | None
    checked: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """One line of text, without the index."""
        at = f" ({self.source})" if self.source is not None else ""
        if self.checked:
            return f"{self.op}: one of these is not finite: {', '.join(self.checked)}{at}"
        if self.axis is None:
            return f"{self.op}: the function returned a status other than 0{at}"
        return f"{self.op}: an index is out of range for {self.axis}{at}"


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What a manifest says of a step besides its interface; failures by the program's statuses.

    `is_brief` says that it takes little time for certain.
    """

    name: str
    input_nest: Nest
    output_nest: Nest
    failures: Mapping[int, Failure]
    is_brief: bool


def describe_library(
    interface: Interface, steps: Sequence[StepRecord], targets: Sequence[Target]
) -> dict[str, Any]:
    """Return all that a manifest says but of the file, which is made when this is known."""
    return {
        "format": FORMAT,
        "abi": ABI_VERSION,
        "state": STATE_VERSION,
        "name": interface.name,
        "architecture": targets[0].architecture,
        "targets": [t.name for t in targets],
        "features": required_features(targets[0]),
        "instance": {"bytes": interface.size, "alignment": ALIGNMENT},
        "state_bytes": interface.state_bytes,
        "functions": [_foreign(function) for function in interface.functions],
        "handles": [_handle(handle.symbol, interface.ranks) for handle in interface.handles],
        "variables": [_typed(v.name, v.type) for v in interface.variables],
        "steps": [
            {
                "name": planned.name,
                "inputs": [_slot(s) for s in planned.inputs],
                "outputs": [_slot(s) for s in planned.outputs],
                "input_nest": _nest_to_json(record.input_nest),
                "output_nest": _nest_to_json(record.output_nest, _patterns(interface, planned)),
                "is_brief": record.is_brief,
                "failures": [
                    {"status": planned.status_base + status, **_failure_to_json(failure)}
                    for status, failure in record.failures.items()
                ],
            }
            for planned, record in zip(interface.steps, steps, strict=True)
        ],
    }


def make_manifest(description: dict[str, Any], library: Path) -> dict[str, Any]:
    """Return the manifest of `library`, which has been linked and is what `description` says."""
    image = library.read_bytes()
    stated = {"bytes": len(image), "sha256": hashlib.sha256(image).hexdigest()}
    return {**description, "library": stated}


def digest_of(manifest: Mapping[str, Any]) -> str:
    """Return a checksum of what a manifest says but of the file, '' if it says nothing.

    The library itself has it. A manifest tells how large the arrays are that the library reads and
    writes; anyone can write another with a checksum that is right.
    """
    described = {key: value for key, value in manifest.items() if key != "library"}
    text = json.dumps(described, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest() if described else ""


def _foreign(function: ForeignFunction) -> dict[str, Any]:
    return {"name": function.name, "library": function.library}


def _handle(symbol: ForeignFunction, ranks: Mapping[str, int]) -> dict[str, Any]:
    """Return how the value of a handle is found: of a name, a group, or a rank in a group."""
    if symbol.group is not None:
        own = {"rank": ranks[symbol.name]} if symbol.name in ranks else {}
        return {"name": symbol.name, "ranks": symbol.group.size, **own}
    if symbol.chosen is None:
        return {"name": symbol.name}
    group = symbol.chosen.group
    chosen = list(symbol.chosen.ranks)
    return {"name": symbol.name, "group": group.lineage[-1], "ranks": group.size, "chosen": chosen}


def _slot(slot: Slot) -> dict[str, Any]:
    return _typed(slot.name, slot.type)


def _typed(name: str, type_: TensorType) -> dict[str, Any]:
    return {"name": name, "dtype": type_.dtype.name, "shape": list(type_.static_shape)}


def _failure_to_json(failure: Failure) -> dict[str, Any]:
    source = failure.source
    # Messages show no folder, so an export does not depend on where it was made.
    at = None if source is None else [Path(source.file).name, source.line, source.function]
    return {"op": failure.op, "axis": failure.axis, "source": at, "checked": [*failure.checked]}


def failure_from_json(record: dict[str, Any]) -> Failure:
    """Return what a manifest says of a failure."""
    at = record["source"]
    source = None if at is None else Source(*at)
    return Failure(record["op"], record["axis"], source, tuple(record["checked"]))


# -------------------------------------------------------------------------------------- nests


# The symbol of an array of integers in a library, its dtype, how many there are -> the array.
ReadSymbol = Callable[[str, str, int], NDArray[Any]]
_Records = Mapping[int, dict[str, Any]]


def _patterns(interface: Interface, step: StepInterface) -> _Records:
    """Return what is said of the pattern of each output that has one: where the library has it."""
    records = {}
    for number, slot in enumerate(step.outputs):
        if slot.pattern is not None:
            indptr, indices = pattern_symbols(interface.name, step.name, slot)
            dtype, count = slot.pattern.indptr.dtype.name, len(slot.pattern.indices)
            records[number] = {
                "shape": list(slot.pattern.shape), "non_zeros": count, "dtype": dtype,
                "indptr": indptr, "indices": indices,
            }  # fmt: skip
    return records


def _nest_to_json(nest: Nest, patterns: _Records = MappingProxyType({})) -> Any:
    return _tree_to_json(unflatten(nest, range(nest.num_leaves)), patterns)


def _tree_to_json(tree: Any, patterns: _Records) -> Any:
    """Return a tree of leaf numbers as JSON can say it: a leaf is a number, a dict has pairs."""
    if tree is None or type(tree) is int:
        return tree
    if type(tree) is dict and all(isinstance(key, str) for key in tree):
        return {"dict": [[key, _tree_to_json(value, patterns)] for key, value in tree.items()]}
    for kind, word in ((list, "list"), (tuple, "tuple")):
        if type(tree) is kind:
            return {word: [_tree_to_json(child, patterns) for child in tree]}
    if isinstance(tree, SparseTensor) and tree.values in patterns:
        return {"csr": {"values": tree.values, **patterns[tree.values]}}
    raise CompileError(
        "export",
        f"a nest of {type(tree).__name__} cannot be written to a manifest",
        hint="lists, tuples, dicts with strings as keys and sparse results can",
        source=user_source(),
    )


def nest_from_json(record: Any, read: ReadSymbol | None = None) -> Nest:
    """Return the nest that a manifest states; `read` gives what the library has of patterns."""
    return flatten(_tree_from_json(record, read))[1]


def _tree_from_json(record: Any, read: ReadSymbol | None) -> Any:
    if record is None or isinstance(record, int):
        return record
    ((word, children),) = record.items()
    if word == "csr":
        return _sparse_from_json(children, read)
    if word == "dict":
        return {key: _tree_from_json(child, read) for key, child in children}
    return {"list": list, "tuple": tuple}[word](_tree_from_json(child, read) for child in children)


def _sparse_from_json(record: Mapping[str, Any], read: ReadSymbol | None) -> SparseTensor:
    assert read is not None, "only results of a library have patterns"
    rows, columns = record["shape"]
    arrays = (
        read(record["indptr"], record["dtype"], rows + 1),
        read(record["indices"], record["dtype"], record["non_zeros"]),
    )
    return SparseTensor(SparsityPattern((rows, columns), *arrays), record["values"])


# --------------------------------------------------------------------------------------- text


def print_manifest(manifest: dict[str, Any]) -> str:
    """Return the text of the file: the manifest and its checksum, in the one form there is."""
    body = json.dumps(manifest, indent=1, ensure_ascii=True)
    checksum = hashlib.sha256(body.encode()).hexdigest()
    return f'{{"sha256": "{checksum}", "manifest":\n{body}}}\n'


def read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest at `path` and check that this process can run its library.

    Raises `LoadError` for a file that is missing or altered, for another version of the format or
    of the interface, and for a library for another machine.
    """
    manifest = _parse_manifest(path)
    if not all(isinstance(manifest.get(key), kind) for key, kind in _NEEDED.items()):
        raise refuse(path, "the manifest says too little")
    for what, expected in (("format", FORMAT), ("abi", ABI_VERSION), ("state", STATE_VERSION)):
        if manifest.get(what) != expected:
            raise refuse(path, f"version {manifest.get(what)} of {what}, {expected} is needed")
    _check_machine(path, manifest)
    return manifest


def _parse_manifest(path: Path) -> dict[str, Any]:
    given = _read_bytes(path, "manifest")
    try:
        manifest = json.loads(given)["manifest"]
        is_whole = print_manifest(manifest).encode() == given
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise refuse(path, "the manifest is altered or truncated") from error
    if not is_whole:
        raise refuse(path, "the manifest is altered")
    return manifest if isinstance(manifest, dict) else {}


def _read_bytes(path: Path, what: str) -> bytes:
    try:
        if path.exists() and not path.is_file():  # to read a pipe is to wait for a writer
            raise refuse(path, f"the {what} is no file")
        return path.read_bytes()
    except OSError as error:
        raise refuse(path, f"the {what} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise refuse(path, f"the {what} cannot be read: {error}") from error


def _check_machine(path: Path, manifest: dict[str, Any]) -> None:
    architecture = host_architecture()
    if manifest["architecture"] != architecture:
        raise refuse(path, f"made for {manifest['architecture']}, this machine is {architecture}")
    missing = missing_features([*map(str, manifest["features"])])
    if missing:
        made_for = ", ".join(map(str, manifest["targets"]))
        raise refuse(path, f"made for {made_for}, this CPU lacks {', '.join(missing)}")


def read_image(path: Path, manifest: dict[str, Any]) -> bytes:
    """Return the bytes of the library at `path`; raises `LoadError` unless they are those made."""
    image = _read_bytes(path, "library")
    stated = manifest["library"]
    if len(image) != stated.get("bytes"):
        raise refuse(path, f"{len(image)} bytes, {stated.get('bytes')} were written")
    if hashlib.sha256(image).hexdigest() != stated.get("sha256"):
        raise refuse(path, "the library is altered: its checksum differs")
    return image


def refuse(path: Path, problem: str) -> LoadError:
    """Return the error for a library that cannot be loaded."""
    return LoadError(f"load {path.name}", problem, source=user_source())
