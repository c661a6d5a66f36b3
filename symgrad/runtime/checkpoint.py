"""Checkpoints: the values of variables in a safetensors file, and back.

A save replaces the file in one step, so that whatever interrupts it leaves the old file or the new
one. A restore reads and checks every entry before it sets the first variable. What a file is made
of is the business of the safetensors library; this module adds a checksum for each entry, which
the format leaves room for, since it has none of its own.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, TensorSpec, safe_open, serialize_file

from symgrad.errors import CheckpointError, DTypeError, GraphError, user_source
from symgrad.graph.ops.leaf import Variable
from symgrad.graph.types import Array, State

# The one key of a file's metadata: the library writes several in an order that differs by run.
_CHECKSUMS = "crc32"
_LISTED = 4  # names in a message

PathLike = str | os.PathLike[str]


def save(path: PathLike, variables: Any) -> None:
    """Write the values of `variables` to `path` as safetensors, all of them or nothing.

    `variables` is a variable, an iterable of what is allowed here, or a mapping from names to it,
    such as the `state` of an optimizer: `save(path, [w, b, optimizer.state])`. In a mapping an
    entry is called like its key, with a slash between the keys of nested ones; elsewhere like its
    variable. The metadata key `crc32` holds JSON that maps names to the CRC-32 of their bytes in
    hexadecimal. Equal values make equal files.

    The file is written in a new folder beside it, brought to the disk, and renamed. A process that
    is killed meanwhile leaves `path` as it was, and the folder `.name.*.partial`, which nothing
    reads and anyone may delete. Raises `GraphError` if two variables have one name, `DTypeError`
    for what is no variable, `OSError` if the file cannot be written.
    """
    states = _by_name("save", variables)
    specs = {name: _spec(state.array) for name, state in states.items()}
    checksums = {name: _checksum(state.array) for name, state in states.items()}
    _replace(Path(path), specs, {_CHECKSUMS: json.dumps(checksums, sort_keys=True)})


def restore(path: PathLike, variables: Any, *, ignore_extra: bool = False) -> None:
    """Set `variables`, named as in `save`, to the values in the file `path`.

    Every one must have an entry of its shape and dtype, and every entry a variable; with
    `ignore_extra` entries without one are passed over. Raises `CheckpointError`, with all variables
    as they were, for a missing, extra, misshapen or damaged entry or a file that is no
    safetensors; `OSError` if there is no such file. Files of other programs, which have no
    checksums, are read as well.
    """
    states = _by_name("restore", variables)
    try:
        arrays = _read_all(os.fspath(path), states, ignore_extra)
    except SafetensorError as error:
        problem = f"{os.fspath(path)} is damaged or no safetensors file: {error}"
        raise CheckpointError("restore", problem, source=user_source()) from error
    for state, array in zip(states.values(), arrays, strict=True):
        state.array[...] = array


def _by_name(op: str, variables: Any) -> dict[str, State]:
    """Return the storage of each variable under the name of its entry."""
    states: dict[str, State] = {}
    for name, variable in _named(op, variables, ""):
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
        for number, value in enumerate(variables):
            yield from _named(op, value, f"{prefix}/{number}" if prefix else "")
    else:
        raise DTypeError(op, f"{variables!r} is no variable", source=user_source())


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


def _checksum(array: Array) -> str:
    # Through uint8, since the buffers of bfloat16 have no format that Python knows.
    data: memoryview = array.reshape(-1).view("uint8").data
    return f"{zlib.crc32(data):08x}"


# ---------------------------------------------------------------------------------- reading


def _read_all(path: str, states: Mapping[str, State], ignore_extra: bool) -> list[Array]:
    """Return a value for each of `states`, everything checked."""
    if Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    # Read, not mapped: a file that shrinks meanwhile is an error then, and not a signal.
    with safe_open(path, framework="np", backend="pread") as entries:
        _check_names(path, set(states), set(entries.keys()), ignore_extra)
        checksums = _checksums(path, entries.metadata() or {})
        return [_read(path, entries, checksums, name, state) for name, state in states.items()]


def _checksums(path: str, metadata: Mapping[str, str]) -> Mapping[str, str] | None:
    """Return the checksum of each entry; None in a file that has none."""
    if _CHECKSUMS not in metadata:
        return None
    try:
        checksums = json.loads(metadata[_CHECKSUMS])
    except ValueError:
        checksums = None
    if not isinstance(checksums, dict):
        problem = f"{path} is damaged: its checksums are no table"
        raise CheckpointError("restore", problem, source=user_source())
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
        raise CheckpointError("restore", problem, source=user_source())


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"


def _read(
    path: str, entries: Any, checksums: Mapping[str, str] | None, name: str, state: State
) -> Array:
    """Return the value of the entry `name`, of which everything has been checked."""
    array: Array = entries.get_tensor(name)
    wanted = state.array
    if (array.shape, array.dtype) != (wanted.shape, wanted.dtype):
        raise CheckpointError(
            "restore",
            f"{path}: {name} is {_type(array)}, the variable is {_type(wanted)}",
            source=user_source(),
        )
    if checksums is not None and checksums.get(name) != _checksum(array):
        problem = f"{path}: {name} is damaged: its bytes do not have the checksum written with them"
        raise CheckpointError("restore", problem, source=user_source())
    return array


def _type(array: Array) -> str:
    return f"{array.dtype.name}{list(array.shape)}"
