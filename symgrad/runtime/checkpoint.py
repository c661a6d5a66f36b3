"""Checkpoints: the values of variables in a safetensors file, and back.

A save replaces the file in one step, so that whatever interrupts it leaves the old file or the new
one. What it writes is a copy of all variables, made between two steps of whatever thread. A restore
reads and checks every entry before it sets the first variable. What a file is made of is
for the safetensors library; this module adds a checksum for each entry, which the format
leaves room for, since it has none of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, TensorSpec, safe_open, serialize_file

from symgrad.errors import CheckpointError, DTypeError, GraphError, user_source
from symgrad.graph.dtypes import BY_SHORT
from symgrad.graph.leaf import Variable
from symgrad.graph.types import Array, State, as_reals, read_states, write_states
from symgrad.runtime.shared_state import gathered, whole_type, written_by_one
from symgrad.suggestions import known_as

# The one key of a file's metadata: the library writes several in an order that differs by run.
_CHECKSUMS = "crc32"
_LISTED = 4  # names in a message
_SURROGATE = re.compile("[\ud800-\udfff]")
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)

PathLike = str | os.PathLike[str]


@known_as("save_weights", "save_checkpoint")
def save(path: PathLike, variables: Any) -> None:
    """Write the values of `variables` to `path` as safetensors, all of them or nothing.

    `variables` is a variable, an iterable of what is allowed here, or a mapping from names to it,
    such as the `state` of an optimizer: `save(path, [w, b, optimizer.state])`. In a mapping an
    entry is called like its key, with a slash between the keys of nested ones; elsewhere like its
    variable. What is a mapping or a list in a list has its place before its names if otherwise two
    would be equal, and in a mapping in any case: of `[{"w": v}, {"w": u}]` they are `0/w` and
    `1/w`. The metadata key `crc32` holds JSON that maps names to the CRC-32 of their bytes in
    hexadecimal. A complex value is written as reals with a trailing axis of two, since the format
    does not have complex128, and its dtype stands after its CRC-32. Equal values make equal files.
    The values are those of one moment between steps: other threads may run steps meanwhile.
    Where ranks share the slots of an optimizer (`shard_state`), all of them call it: rank 0 writes
    whole values, as one process would have them, and the others wait until it has.

    The file is written in a new folder beside it, brought to the disk, and renamed. A process that
    is killed meanwhile leaves `path` as it was, and the folder `.name.*.partial`, which nothing
    reads and anyone may delete. Raises `GraphError` if two variables have one name, `DTypeError`
    for what is no variable, `CheckpointError` for a name that the format does not allow and for a
    `path` that is there and is no file, such as a pipe; `OSError` if the file cannot be written.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.safetensors"
    >>> sg.save(path, {"layer": {"w": sg.variable([1.0, 2.0]), "b": sg.variable(0.0)}})
    >>> path.exists()
    True
    """
    with suppress(FileNotFoundError):
        _require_file("save", os.fspath(path))
    states = named_states("save", variables)
    values = read_whole(states)
    with written_by_one(states) as is_writer:
        if is_writer:
            write_values(Path(path), values)


def read_whole(states: Mapping[str, State]) -> dict[str, Array]:
    """Return copies of values, all of one moment, of which rank 0 has those that are shared."""
    return gathered(states, dict(zip(states, read_states(list(states.values())), strict=True)))


def write_values(path: Path, values: Mapping[str, Array]) -> None:
    """Write `values` to `path`, all of them or nothing."""
    specs = {name: _spec(_written(array)) for name, array in values.items()}
    checksums = {name: _checksum(array) for name, array in values.items()}
    _replace(path, specs, {_CHECKSUMS: json.dumps(checksums, sort_keys=True)})


@known_as("load_state_dict", "load_weights", "restore_checkpoint")
def restore(path: PathLike, variables: Any, *, ignore_extra: bool = False) -> None:
    """Set `variables`, named as in `save`, to the values in the file `path`.

    Every one must have an entry of its shape and dtype, and every entry a variable; with
    `ignore_extra` entries without one are passed over. All are set at one moment between steps.
    Raises `CheckpointError`, with all variables as they were, for a missing, extra, misshapen or
    damaged entry, for a file that is no safetensors, and for a folder, a pipe or a device;
    `OSError` if there is no such file. Files of other programs, which have no checksums, are read
    as well. Of what ranks share each takes its part, on any number of ranks.

    >>> import pathlib, tempfile
    >>> path, w = pathlib.Path(tempfile.mkdtemp()) / "w.safetensors", sg.variable(2.0, name="w")
    >>> sg.save(path, w)
    >>> w.value = 0.0
    >>> sg.restore(path, w)
    >>> w.value
    array(2., dtype=float32)
    """
    states = named_states("restore", variables)
    try:
        arrays = _read_all(os.fspath(path), states, ignore_extra)
    except SafetensorError as error:
        problem = f"{os.fspath(path)} is damaged or no safetensors file: {error}"
        raise CheckpointError("restore", problem, source=user_source()) from error
    write_states(list(states.values()), arrays)


def named_states(op: str, variables: Any) -> dict[str, State]:
    """Return the storage of each variable under the name of its entry."""
    states: dict[str, State] = {}
    for name, variable in _named(op, _as_lists(variables), ""):
        if name == "__metadata__" or _SURROGATE.search(name):
            problem = "the format uses it" if name.isascii() else "it is no text in UTF-8"
            raise _refuse(op, f"no entry can have the name {name!r}: {problem}")
        if states.setdefault(name, variable.state) is not variable.state:
            raise GraphError(
                op,
                f"two variables are called {name!r}",
                hint="hand them over in a mapping from names to variables",
                source=user_source(),
            )
    return states


def _named(op: str, variables: Any, prefix: str) -> Iterator[tuple[str, Variable]]:
    """Return the variables in `variables`, with the keys that lead to them or their own names."""
    if isinstance(variables, Variable):
        yield prefix or variables.state.name, variables
    elif isinstance(variables, Mapping):
        for key, value in variables.items():
            yield from _named(op, value, f"{prefix}/{key}" if prefix else str(key))
    elif isinstance(variables, Iterable) and not isinstance(variables, str | bytes):
        nests = [item for item in variables if not isinstance(item, Variable)]
        is_numbered = bool(prefix) or _meet(_named(op, nest, "") for nest in nests)
        for number, item in enumerate(variables):
            place = f"{prefix}/{number}".lstrip("/")
            has_place = is_numbered and (prefix or not isinstance(item, Variable))
            yield from _named(op, item, place if has_place else "")
    else:
        raise DTypeError(op, f"{variables!r} is no variable", source=user_source())


def _as_lists(nest: Any) -> Any:
    """Return a nest that can be walked through more than once: lists for its iterables."""
    if isinstance(nest, Mapping):
        return {key: _as_lists(value) for key, value in nest.items()}
    if isinstance(nest, Variable | str | bytes) or not isinstance(nest, Iterable):
        return nest
    return [_as_lists(value) for value in nest]


def _meet(nests: Iterable[Iterable[tuple[str, Variable]]]) -> bool:
    """Return whether two variables of the nests have one name."""
    owners: dict[str, State] = {}
    named = itertools.chain.from_iterable(nests)
    return any(owners.setdefault(n, v.state) is not v.state for n, v in named)


# ---------------------------------------------------------------------------------- writing


def _replace(target: Path, specs: dict[str, TensorSpec], metadata: dict[str, str]) -> None:
    """Write a file and make it `target`, at once or not at all."""
    with tempfile.TemporaryDirectory(".partial", f".{target.name}.", target.parent) as folder:
        written, plain = Path(folder, "written"), Path(folder, "plain")
        try:
            serialize_file(specs, written, metadata=metadata)
        except SafetensorError as error:
            raise OSError(f"{target}: {error}") from error
        plain.touch()  # The library's file is its owner's alone. This one is like other new files.
        shutil.copymode(target if target.exists() else plain, written)
        _bring_to_disk(written)
        written.replace(target)
        _bring_to_disk(target.parent)  # the new name, too, must outlive a power cut


def _bring_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _spec(array: Array) -> TensorSpec:
    return TensorSpec(
        dtype=array.dtype.name,
        shape=array.shape,
        data_ptr=array.ctypes.data,
        data_len=array.nbytes,
    )


def _written(array: Array) -> Array:
    """Return what is written of a value: the reals in the memory of a complex one."""
    return as_reals(array) if np.iscomplexobj(array) else array


def _checksum(array: Array) -> str:
    # Through uint8, since the buffers of bfloat16 have no format that Python knows.
    data: memoryview = array.reshape(-1).view("uint8").data
    return f"{zlib.crc32(data):08x}{_mark(array.dtype.name)}"


def _mark(dtype: str) -> str:
    """Return what tells an entry of reals that is a complex value from one that is not."""
    return f" {dtype}" if dtype.startswith("complex") else ""


# ---------------------------------------------------------------------------------- reading


def _read_all(path: str, states: Mapping[str, State], ignore_extra: bool) -> list[Array]:
    """Return a value for each of `states`, everything checked."""
    _require_file("restore", path)
    # Read, not mapped: a file that shrinks meanwhile is an error then, and not a signal.
    with safe_open(path, framework="np", backend="pread") as entries:
        _check_names(path, set(states), set(entries.keys()), ignore_extra)
        checksums = _checksums(path, entries.metadata() or {})
        return [_read(path, entries, checksums, name, state) for name, state in states.items()]


def _require_file(op: str, path: str) -> None:
    """Raise unless there is a file at `path` that ends: to open a pipe is to wait for a writer."""
    try:
        path.encode()
        mode = Path(path).stat().st_mode
    except ValueError as error:
        raise _refuse(op, f"{path!r} is the name of no file: {error}") from error
    if not stat.S_ISREG(mode):
        kind = next((word for is_kind, word in _KINDS if is_kind(mode)), "no file")
        raise _refuse(op, f"{path} is {kind}")


def _refuse(op: str, problem: str) -> CheckpointError:
    return CheckpointError(op, problem, source=user_source())


def _checksums(path: str, metadata: Mapping[str, str]) -> Mapping[str, str] | None:
    """Return the checksum of each entry; None in a file that has none."""
    if _CHECKSUMS not in metadata:
        return None
    try:
        checksums = json.loads(metadata[_CHECKSUMS])
    except (ValueError, RecursionError):  # brackets may nest as deep as the file is long
        checksums = None
    if not isinstance(checksums, dict):
        raise _refuse("restore", f"{path} is damaged: its checksums are no table")
    return checksums


def _check_names(path: str, wanted: set[str], found: set[str], ignore_extra: bool) -> None:
    missing, extra = sorted(wanted - found), sorted(found - wanted)
    problems = []
    if missing:
        problems.append(f"has no entry for {_listed(missing)}")
    if extra and not ignore_extra:
        problems.append(f"has entries that no variable asks for: {_listed(extra)}")
    if problems:
        problem = f"{path} {' and '.join(problems)}"
        # Where entries are missing as well, the file is likely to be another program's.
        hint = None if missing else "restore(path, variables, ignore_extra=True) passes over them"
        raise CheckpointError("restore", problem, hint=hint, source=user_source())


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"


def _read(
    path: str, entries: Any, checksums: Mapping[str, str] | None, name: str, state: State
) -> Array:
    """Return the value of the entry `name`, of which everything has been checked."""
    # Asked for first: the library has dtypes and shapes that no array has.
    entry = entries.get_slice(name)
    wanted = whole_type(state)
    known = BY_SHORT.get(entry.get_dtype().lower())
    dtype, shape = entry.get_dtype() if known is None else known.name, list(entry.get_shape())
    _, _, mark = ("" if checksums is None else str(checksums.get(name))).partition(" ")
    is_pair = mark != "" or (wanted.dtype.is_complex and checksums is None)
    if is_pair and known is not None and shape[-1:] == [2]:
        dtype, shape = known.complex.name, shape[:-1]
    if (dtype, shape) != (wanted.dtype.name, list(wanted.static_shape)):
        variable = f"{wanted.dtype.name}{list(wanted.static_shape)}"
        raise _refuse("restore", f"{path}: {name} is {dtype}{shape}, the variable is {variable}")
    array: Array = entries.get_tensor(name)
    if wanted.dtype.is_complex:
        array = array.reshape(-1).view(wanted.dtype.numpy).reshape(wanted.static_shape)
    if checksums is not None and checksums.get(name) != _checksum(array):
        problem = f"{path}: {name} is damaged: its bytes do not have the checksum written with them"
        raise _refuse("restore", problem)
    return array if state.sharding is None else state.sharding.part_of(array)
