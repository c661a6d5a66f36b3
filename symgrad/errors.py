"""Exception classes: the errors a user can meet, and the place in the user's code they point at.

Rules of ops raise these without a source; `build.apply` adds the user's line once. A broken
invariant of the compiler is an `assert` and not one of these classes.
"""

from __future__ import annotations

import sys
from dataclasses import field
from pathlib import Path
from types import FrameType

from symgrad.records import dataclass

_LONGEST = 80  # characters of a value in a message

_PACKAGE = str(Path(__file__).resolve().parent) + "/"
# Every op that is built asks about all frames between it and the user's.
_FILES_OF_OURS: set[str] = set()
# Of calls by users, whose `name` is the function called, the identity of their code, which stays:
# a code is hashed by all that it holds.
BOUNDARIES: set[int] = set()


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the user's code, `file:line in function`, and the name scopes open around it.

    `called` is the public function that the line calls, or that its method or operator stands for;
    empty without one, as for an index, a function of NumPy's or a method of an optimizer.
    """

    file: str
    line: int
    function: str
    scope: str = ""
    called: str = field(default="", compare=False)

    def __str__(self) -> str:
        place = f"{file_label(self.file)}:{self.line}"
        return place if self.function == "<module>" else f"{place} in {self.function}"


def file_label(file: str) -> str:
    """Return what a file is called in messages: "In[3]" for a cell of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    cell = None if shell is None else shell.compile.format_code_name(file)
    return Path(file).name if cell is None else str(cell[1])


def user_source(scope: str = "") -> Source | None:
    """Return the innermost frame that is not inside symgrad, in `scope`; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    boundary: FrameType | None = None
    while frame is not None:
        code = frame.f_code
        if code.co_filename not in _FILES_OF_OURS and not is_internal(frame):
            called = "" if boundary is None else str(boundary.f_locals["name"])
            return Source(code.co_filename, frame.f_lineno, code.co_name, scope, called)
        if id(code) in BOUNDARIES:
            boundary = frame
        frame = frame.f_back
    return None


def is_internal(frame: FrameType) -> bool:
    """Return whether a frame is inside symgrad."""
    return _is_file_of_ours(frame.f_code.co_filename) or _is_module_of_ours(frame)


def _is_file_of_ours(name: str) -> bool:
    if name.startswith(_PACKAGE):
        _FILES_OF_OURS.add(name)
    return name in _FILES_OF_OURS


def _is_module_of_ours(frame: FrameType) -> bool:
    # The methods that a dataclass is given come from no file; they have the globals of its module.
    # What decorates functions of ours calls them, as a cached property does.
    name = str(frame.f_globals.get("__name__"))
    return name.startswith("symgrad.") or name == "functools"


class SymgradError(Exception):
    """Base of every error symgrad raises for a user's mistake.

    The text has the form `subject: what is wrong, with the values`, then the user's line, then a
    hint where one is probably right.

    >>> try:
    ...     sg.zeros((2, 3)) + sg.zeros((2, 4))
    ... except sg.SymgradError as error:
    ...     print(error.subject, "|", error.problem)
    add | shapes do not broadcast: 3 in axis -1 of x: f32[2, 3], 4 in axis -1 of y: f32[2, 4]
    """

    def __init__(
        self, subject: str, problem: str, *, hint: str | None = None, source: Source | None = None
    ) -> None:
        super().__init__(subject, problem)
        self.subject = subject
        self.problem = problem
        self.hint = hint
        self.source = source

    def __str__(self) -> str:
        lines = [f"{self.subject}: {self.problem}"]
        if self.source is not None:
            lines.append(f"  --> {self.source}")
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


def shortened(value: object) -> str:
    """Return what a message shows of a value: one line, and not all of a long one."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def is_raised_below(error: BaseException) -> bool:
    """Return whether `error`, which is being handled, came out of a function of the user's.

    One that this frame called, through whatever frames of symgrad: the body of a loop, say.
    """
    trace = error.__traceback__
    while trace is not None:
        if not is_internal(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


class called:  # noqa: N801 - it reads as a statement
    """Have errors in a block name `op`, the function that the user called, and the user's line.

    It is for a function that is a composition of public ones, and takes no function of the user's.
    """

    __slots__ = ("op",)

    def __init__(self, op: str) -> None:
        self.op = op

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> None:
        if isinstance(error, SymgradError):
            error.subject = self.op
            error.source = error.source or user_source()


class PromotionWarning(UserWarning):
    """A float64 array that meets float32: it makes float64 of a graph, at twice the cost.

    Where it feeds an input of a step that is float32, it is rounded at every call instead. It is
    shown once for each line, as Python shows warnings; `SYMGRAD_WARN_FLOAT64=off` or a filter turns
    it off.

    >>> import numpy as np
    >>> import warnings
    >>> warnings.simplefilter("ignore", sg.PromotionWarning)
    >>> (sg.zeros(2) * np.ones(2)).dtype
    symgrad.float64
    """


class ShapeError(SymgradError, ValueError):
    """Shapes, axes or sizes that do not fit together: a `ValueError`.

    >>> try:
    ...     sg.zeros((2, 3)) @ sg.zeros((4, 2))
    ... except sg.ShapeError as error:
    ...     print(error.problem)
    inner sizes differ: 3 in a: f32[2, 3], 4 in b: f32[4, 2]
    """


class AxisError(ShapeError, IndexError):
    """An axis that a tensor does not have: a `ValueError` and an `IndexError`, as NumPy's is.

    >>> try:
    ...     sg.sum(sg.zeros((2, 3)), axis=2)
    ... except sg.AxisError as error:
    ...     print(error.problem)
    axis 2 is not an axis of a tensor of rank 2
    """


class DTypeError(SymgradError, TypeError):
    """A dtype, or a Python type, that the op does not take: a `TypeError`.

    >>> try:
    ...     sg.logical_not(sg.zeros(2))
    ... except sg.DTypeError as error:
    ...     print(error.problem)
    f32[2] is not bool
    """


class ArgumentError(SymgradError, TypeError):
    """Arguments that do not fit: unknown, left out, too many or given twice: a `TypeError`.

    >>> try:
    ...     sg.sum(sg.zeros(2), dim=0)
    ... except sg.ArgumentError as error:
    ...     print(error.hint)
    did you mean axis=?
    """


class UnknownNameError(SymgradError, AttributeError):
    """A name that a module, or an attribute that a tensor, does not have: an `AttributeError`.

    >>> try:
    ...     sg.reduce_sum
    ... except sg.UnknownNameError as error:
    ...     print(error.hint)
    did you mean sg.sum?
    """


class GraphError(SymgradError, ValueError):
    """A graph that is not well formed: a foreign region, a missing input, a repeated name.

    >>> x = sg.placeholder((2,), name="x")
    >>> try:
    ...     sg.compile([], x + 1)
    ... except sg.GraphError as error:
    ...     print(error.problem)
    <Tensor x: f32[2]> is needed and not among the inputs
    """


class IndexOutOfRangeError(SymgradError, IndexError):
    """An index that the running program found outside of its axis: an `IndexError`.

    >>> i = sg.placeholder((), "int64", name="i")
    >>> step = sg.compile([i], sg.constant([1.0, 2.0])[i])
    >>> try:
    ...     step(5)
    ... except sg.IndexOutOfRangeError as error:
    ...     print(error.problem)
    index 5 is out of range for axis 0 of size 2 of f32[2]
    """


class ForeignCallError(SymgradError, RuntimeError):
    """A function of C that a running program called, and that returned a status other than 0.

    It is a `RuntimeError`; no variable has been changed by the step.

    >>> import ctypes
    >>> refuse = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: 3)
    >>> x = sg.placeholder((), name="x")
    >>> step = sg.compile([x], sg.extern("refuse", [x], [((), "float32")], pointer=refuse))
    >>> try:
    ...     step(1.0)
    ... except sg.ForeignCallError as error:
    ...     print(error.problem)
    the function returned status 3
    """


class NotFiniteError(SymgradError, FloatingPointError):
    """A result that is nan or infinite, of a program that was compiled with `check_numerics`.

    It is a `FloatingPointError`; no variable has been changed by the step.

    >>> x = sg.placeholder((2,), name="x")
    >>> step = sg.compile([x], sg.log(x), check_numerics=True)
    >>> try:
    ...     step(np.float32([1.0, 0.0]))
    ... except sg.NotFiniteError as error:
    ...     print(error.problem)
    the output is not finite: log makes nan or inf of f32[2]
    """


class NoGradientError(SymgradError, LookupError):
    """A gradient that was asked for and does not exist, or was forbidden: a `LookupError`.

    >>> x = sg.placeholder((2,))
    >>> try:
    ...     sg.gradients(sg.prevent_gradient(x, "for evaluation"), x)
    ... except sg.NoGradientError as error:
    ...     print(error.problem)
    the gradient of f32[2] was disabled on purpose: for evaluation
    """


class TapeError(SymgradError, MemoryError):
    """A loop without a bound whose record grew past the memory there is.

    A bound (`maximum_iterations`) or checkpoints keep the record small.

    >>> issubclass(sg.TapeError, MemoryError)
    True
    """


class CompileError(SymgradError, RuntimeError):
    """A program that cannot be compiled as asked.

    >>> try:
    ...     sg.compile([], sg.ones(2), target="z80")
    ... except sg.CompileError as error:
    ...     print(error.problem)
    target 'z80' is none of native, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, aarch64
    """


class CheckpointError(SymgradError, ValueError):
    """A file of saved variables that is damaged, or does not fit the variables.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "w.safetensors"
    >>> _ = path.write_bytes(b"something else")
    >>> try:
    ...     sg.restore(path, [sg.variable(0.0, name="w")])
    ... except sg.CheckpointError as error:
    ...     print("not restored")
    not restored
    """


class LoadError(SymgradError, RuntimeError):
    """A library on disk that is missing, altered, or made for another machine or version.

    >>> try:
    ...     sg.load("no_such_library")
    ... except sg.LoadError as error:
    ...     print("not loaded")
    not loaded
    """
