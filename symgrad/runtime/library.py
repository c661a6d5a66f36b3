"""Dynamic loading of exported libraries: steps over variables of their own, called in Python.

The library is machine code from a file, so everything about it is checked before the system's
loader sees it; `aot_manifest.py` does that.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from symgrad.codegen.c_interface.abi import ASKED_OFFSET, FAILURE_OFFSET, OK
from symgrad.errors import DTypeError, GraphError, LoadError, ShapeError, user_source
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.foreign_calls import symbol_in_process
from symgrad.graph.foreign_functions import is_symbol
from symgrad.graph.given_arrays import given_array, out_of_range
from symgrad.graph.types import Array, TensorType
from symgrad.graph.whole_copies import at_one_moment, copy_whole
from symgrad.records import replace
from symgrad.runtime.aot_manifest import digest_of, read_image, read_manifest, refuse
from symgrad.runtime.entry import LockUse, Running
from symgrad.runtime.interrupts import interrupts
from symgrad.runtime.library_groups import find_groups, handle_values
from symgrad.runtime.loaded_step import LoadedStep, reorder_arguments, tensor_from_json

_Record = Mapping[str, Any]


def load(path: str | os.PathLike[str], *, comm: Any = None) -> Library:
    """Load the library that was exported to `path`, with or without the suffix `.so`.

    Its variables are an instance of their own, with the values they had when it was exported.
    A library whose steps call MPI is given the communicator that they call it on (`comm`), with as
    many ranks as when it was exported; one for several communicators a dict by their names.

    Raises `LoadError` for a library or a manifest that is missing, altered, truncated, or made for
    another machine or version, for one that calls a function of C which the process does not
    have, and for a communicator that is missing or has other ranks; nothing of it has run then.

    >>> import pathlib, tempfile
    >>> x, path = sg.placeholder((2,), name="x"), pathlib.Path(tempfile.mkdtemp()) / "twice"
    >>> _ = sg.compile([x], 2 * x).export(path)
    >>> sg.load(path)(np.float32([1.0, 2.0]))
    array([2., 4.], dtype=float32)
    """
    stem = Path(path)
    if not stem.name:
        raise LoadError("load", f"{path!s} names no library", source=user_source())
    stem = stem.with_suffix("") if stem.suffix == ".so" else stem
    manifest_path = stem.with_name(f"{stem.name}.json")
    library_path = stem.with_name(f"{stem.name}.so")
    manifest = read_manifest(manifest_path)
    handles = manifest["handles"]
    values = handle_values(handles, find_groups(library_path, handles, comm))
    _require_functions(library_path, manifest)
    functions = _open(library_path, read_image(library_path, manifest))
    _require_own(manifest_path, manifest, functions)
    library = Library(manifest, functions)
    if values:
        library._connect(values)
    return library


def _require_functions(path: Path, manifest: _Record) -> None:
    """Raise `LoadError` unless the process has the functions of C that a library calls."""
    for record in manifest["functions"]:
        if not isinstance(record, dict) or not is_symbol(record.get("name")):
            raise refuse(path, "the manifest names functions that are none")
        if symbol_in_process(record["name"]) is None:
            library = record.get("library") or "its library"
            raise LoadError(
                f"load {path.name}",
                f"it calls {record['name']}, and there is no such symbol in the process",
                hint=f"load {library} before, with ctypes.CDLL(path, ctypes.RTLD_GLOBAL)",
                source=user_source(),
            )


def _require_own(path: Path, manifest: _Record, functions: ctypes.PyDLL) -> None:
    """Raise `LoadError` unless the library says that the manifest is the one it was made with."""
    try:
        written_with = getattr(functions, f"{manifest['name']}_manifest")
    except (AttributeError, ValueError) as error:
        raise refuse(path, "the library has not the name that the manifest says") from error
    written_with.restype = ctypes.c_char_p
    if written_with() != digest_of(manifest).encode():
        raise refuse(path, "the manifest is not the one that the library was written with")


def _open(path: Path, image: bytes) -> ctypes.PyDLL:
    """Give `image` to the system's loader.

    It gets a file of its own, that is gone when this returns: what runs is what was checked, a
    file that is written over later takes nothing away, and a library that was exported again
    under its old name is not taken for the one that is loaded already.
    """
    handle, name = tempfile.mkstemp(prefix=f"{path.stem}-", suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(image)
        return ctypes.PyDLL(name)  # its functions keep the global lock, but for steps
    except OSError as error:
        raise refuse(path, f"the system's loader refuses the library: {error}") from error
    finally:
        Path(name).unlink()


class Library:
    """Exported steps and the variables they share.

    A library of one step is called like it; `library["name"]` is the step of that name.
    `variables` maps names to copies of the values, and takes new ones. Threads may use one library;
    what they do with it happens one after another, as all steps of a process do.

    >>> import pathlib, tempfile
    >>> w, x = sg.variable(1.0, name="w"), sg.placeholder((), name="x")
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "net"
    >>> _ = sg.compile([x], w * x, [(w, w + x)]).export(path)
    >>> library = sg.load(path)
    >>> library(2.0), library.variables["w"]
    (array(2., dtype=float32), array(3., dtype=float32))
    """

    def __init__(self, manifest: _Record, functions: ctypes.PyDLL) -> None:
        self.name = str(manifest["name"])
        self._functions = functions
        self._memory = aligned_empty((int(manifest["instance"]["bytes"]),), np.dtype(np.uint8))
        self._instance = ctypes.c_void_p(self._memory.ctypes.data)
        self._state_bytes = int(manifest["state_bytes"])
        self._check(self._function("init")(self._instance))
        self._interrupts = interrupts()
        makes_calls = bool(manifest["functions"])
        asked = self._interrupts.asked(makes_calls=makes_calls)
        self._memory[ASKED_OFFSET : ASKED_OFFSET + 8].view(np.int64)[:] = asked
        # Not at the end of the interpreter, where a thread may still run a step.
        weakref.finalize(
            self, _release, self._function("release", None), self._memory
        ).atexit = False
        self.steps = self._load_steps(
            manifest["steps"], makes_calls=makes_calls, has_groups=bool(manifest["handles"])
        )
        self.variables: MutableMapping[str, Array] = _Variables(self, manifest["variables"])

    def _load_steps(
        self, records: Sequence[_Record], *, makes_calls: bool, has_groups: bool
    ) -> Mapping[str, LoadedStep]:
        names = [str(record["name"]) for record in records]
        runs = {name: ctypes.cast(self._function(f"{name}_run"), ctypes.c_void_p) for name in names}
        code = reorder_arguments({name: run.value or 0 for name, run in runs.items()})
        instance, owner = self._memory.ctypes.data, (self, code)
        failed = self._memory[FAILURE_OFFSET : FAILURE_OFFSET + 8].view(np.int64)
        # Steps run on the memory of one instance, of which one runs at a time.
        brief = Running(LockUse.BRIEF, failed)
        long = replace(brief, lock_use=LockUse.LONG)
        return {
            name: LoadedStep(
                record,
                code.address(name),
                instance,
                brief if record["is_brief"] or has_groups else long,
                owner,
                makes_calls=makes_calls,
                read_symbol=self._constants,
            )
            for name, record in zip(names, records, strict=True)
        }

    def __repr__(self) -> str:
        return f"<Library {self.name}: {', '.join(self.steps)}>"

    def __getitem__(self, step: str) -> LoadedStep:
        return self.steps[step]

    def __call__(self, *arrays: Any, out: Any = None, **by_name: Any) -> Any:
        """Run the only step. Raises `GraphError` if there are several."""
        if len(self.steps) != 1:
            raise GraphError(
                self.name,
                f"one of {len(self.steps)} steps has to be chosen: {', '.join(self.steps)}",
                source=user_source(),
            )
        (step,) = self.steps.values()
        return step(*arrays, out=out, **by_name)

    def save(self) -> bytes:
        """Return all variables as bytes, which every build of the same steps restores.

        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "net"
        >>> w = sg.variable(1.0, name="w")
        >>> _ = sg.compile([], w, [(w, w + 1)]).export(path)
        >>> library = sg.load(path)
        >>> state = library.save()
        >>> library(), library(), library.restore(state), library()
        (array(1., dtype=float32), array(2., dtype=float32), None, array(1., dtype=float32))
        """
        state = np.zeros(self._state_bytes, np.uint8)
        place = ctypes.c_void_p(state.ctypes.data)
        self._check_between_steps("save", place, ctypes.c_size_t(state.size))
        return state.tobytes()

    def restore(self, state: bytes) -> None:
        """Set all variables to what `save` returned.

        Raises `LoadError`, with nothing changed, for bytes that are no state of these variables.

        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "net"
        >>> w = sg.variable(1.0, name="w")
        >>> _ = sg.compile([], w, [(w, w + 1)]).export(path)
        >>> try:
        ...     sg.load(path).restore(b"no state")
        ... except sg.LoadError:
        ...     print("nothing changed")
        nothing changed
        """
        size = ctypes.c_size_t(len(state))
        self._check_between_steps("restore", ctypes.c_char_p(state), size)

    # ------------------------------------------------------------------- used by its parts

    def _function(self, name: str, result: Any = ctypes.c_int32) -> Any:
        """Return the function of the library that C calls by its name and `name`."""
        found = getattr(self._functions, f"{self.name}_{name}")
        found.restype = result
        return found

    def _constants(self, name: str, dtype: str, count: int) -> NDArray[Any]:
        """Return a copy of the integers that the library has under a name, not to be written to."""
        kind = ctypes.c_char * (count * np.dtype(dtype).itemsize)
        return np.frombuffer(kind.in_dll(self._functions, name).raw, dtype)

    def _connect(self, values: Sequence[int]) -> None:
        """Give the instance the handles of MPI that its steps pass."""
        table = np.array(values, np.int64)
        place = ctypes.c_void_p(table.ctypes.data)
        self._check(self._function("connect")(self._instance, place, len(values)))

    def _view(self, number: int, type_: TensorType) -> Array:
        """Return the memory of a variable as an array of its type."""
        place = self._function("address", ctypes.c_void_p)(self._instance, number)
        assert place, f"there is no variable {number}"
        start = place - self._memory.ctypes.data
        memory = self._memory[start : start + type_.nbytes]
        return memory.view(type_.dtype.numpy).reshape(type_.static_shape)

    def _check_between_steps(self, name: str, *arguments: Any) -> None:
        call = self._function(name), self._instance, *arguments
        self._check(*at_one_moment([call]))

    def _check(self, status: int) -> None:
        if status != OK:
            message = self._function("message", ctypes.c_char_p)(status)
            raise LoadError(self.name, message.decode(), source=user_source())


def _release(release: Callable[..., Any], memory: Array) -> None:
    release(ctypes.c_void_p(memory.ctypes.data))


class _Variables(MutableMapping[str, Array]):
    """The variables of a library by name: copies come out, values go in."""

    def __init__(self, library: Library, records: Sequence[_Record]) -> None:
        self._views = {
            str(record["name"]): library._view(number, tensor_from_json(record).type)
            for number, record in enumerate(records)
        }
        self._library = library

    def __getitem__(self, name: str) -> Array:
        view = self._views[name]
        copy = np.empty_like(view)
        copy_whole([copy], [view])
        return copy

    def __setitem__(self, name: str, value: Any) -> None:
        view, array = self._views[name], given_array(f"variable {name}", value, ShapeError)
        if array.shape != view.shape:
            raise ShapeError(
                f"variable {name}",
                f"shape {array.shape} was assigned to a variable of shape {view.shape}",
                source=user_source(),
            )
        if not np.can_cast(array.dtype, view.dtype, casting="same_kind"):
            raise DTypeError(
                f"variable {name}",
                f"{array.dtype.name} was assigned to a variable of {view.dtype.name}",
                source=user_source(),
            )
        if (problem := out_of_range(array, view.dtype)) is not None:
            raise DTypeError(f"variable {name}", problem, source=user_source())
        copy_whole([view], [np.ascontiguousarray(array, view.dtype)])

    def __delitem__(self, name: str) -> NoReturn:
        raise GraphError(
            self._library.name, f"variable {name} cannot be deleted", source=user_source()
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)
