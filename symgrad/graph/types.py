"""Tensor types and the values an attribute of a node may have."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from symgrad.errors import DTypeError, ShapeError
from symgrad.graph import dtypes
from symgrad.graph.aligned import aligned_copy, aligned_zeros
from symgrad.graph.dtypes import DType
from symgrad.graph.foreign_functions import ForeignFunction, ProcessGroup
from symgrad.graph.identity import Immutable
from symgrad.graph.sizes import Dim, Size
from symgrad.graph.whole_copies import copy_whole
from symgrad.records import dataclass

Array = npt.NDArray[Any]
Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """A dtype and a shape; prints as `f32[32, n]`."""

    dtype: DType
    shape: Shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every size is known."""
        return all(isinstance(n, int) for n in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape as ints; only for a static type."""
        ints: Any = self.shape  # not a cast, which is a call
        for dim in ints:
            if not isinstance(dim, int):
                static(dim)
        return tuple(ints)  # itself

    @property
    def count(self) -> int:
        """The number of elements; only for a static type."""
        return math.prod(self.static_shape)

    @property
    def size(self) -> Dim:
        """The number of elements, an unknown size where a dim is one."""
        total: Dim = 1
        for n in self.shape:
            total = total * n
        return total

    @property
    def nbytes(self) -> int:
        """The bytes of memory an array of this static type takes."""
        return math.prod(self.static_shape) * self.dtype.itemsize

    def with_shape(self, shape: Shape) -> TensorType:
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.short}[{', '.join(map(str, self.shape))}]"


def static(dim: Dim) -> int:
    """Return `dim`, which must be known by now."""
    assert isinstance(dim, int), f"size {dim} is not known here"
    return dim


# The number of slices of a stack whose loop has no bound. Such a stack is a tape that grows while
# the loop runs; only loops read it, slice by slice, and no op is ever applied to it as a whole.
# It is a prime, which no size that anybody chose is.
UNBOUNDED = (1 << 40) - 87


def is_unbounded(type_: TensorType) -> bool:
    """Return whether a tensor of this type is a stack without a bound."""
    return bool(type_.shape) and type_.shape[0] == UNBOUNDED


# Sizes, counts, offsets and strides are int64 in native code and in NumPy.
INT64_MAX = 2**63 - 1
_MOST_NODES = 1 << 20  # that one call makes by a count of the user's


def require_int64_count(op: str, tensor: object, shape: Shape, itemsize: int = 1) -> None:
    """Raise `ShapeError` if an int64 does not count the elements, or the bytes, of a tensor.

    And `DTypeError` for what is no size, such as a bool.

    Of `shape` those sizes count that are known. An axis of size 0 makes no other axis fit: strides
    are products of the others, as in NumPy. Of a stack without a bound one slice counts, since it
    is never in memory as a whole.
    """
    product = 1
    for n in shape[1:] if shape and shape[0] == UNBOUNDED else shape:
        if type(n) is int:
            product *= n or 1
        elif isinstance(n, int | np.integer) and not isinstance(n, bool):
            product *= int(n) or 1  # of a class of its own, as of an enum, or NumPy's
        elif not isinstance(n, Size):
            # True is equal to 1: a type with it would be the one of all that have a 1.
            raise DTypeError(op, f"{n!r} is no size")
    if product * itemsize <= INT64_MAX:
        return  # what would be wrong takes longer to say than all that is checked
    problem = f"the sizes of {tensor} multiply to {product}"
    if product <= INT64_MAX:
        problem = f"{tensor} takes {product * itemsize} bytes"
    raise ShapeError(op, f"{problem}, an int64 counts to {INT64_MAX}")


def require_node_count(op: str, count: int, what: str) -> None:
    """Raise `ShapeError` if `count`, by which one call makes nodes, is past all use.

    A million takes seconds; nothing but memory would end what is asked for 2**63 parts.
    """
    if count > _MOST_NODES:
        raise ShapeError(op, f"{count} {what} are as many nodes; one call makes {_MOST_NODES}")


class ArrayLiteral:
    """The value of a constant: a read-only array that is hashed and compared by its bits."""

    __slots__ = ("_digest", "array", "type")

    def __init__(self, array: Array) -> None:
        copy = np.array(array, order="C")
        copy.setflags(write=False)
        self.array = copy
        self.type = TensorType(dtypes.as_dtype(copy.dtype), copy.shape)
        self._digest: bytes | None = None

    @property
    def digest(self) -> bytes:
        """A hash of dtype, shape and bits; computed when first asked for."""
        if self._digest is None:
            head = f"{self.array.dtype.name}{self.array.shape}".encode()
            self._digest = hashlib.blake2b(head + self.array.tobytes(), digest_size=16).digest()
        return self._digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayLiteral) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self._digest or self.digest)  # each table of constants asks for it

    def __repr__(self) -> str:
        return f"Literal({self.type})"


class State:
    """The storage of a variable: one array for the life of the variable, written in place.

    Compiled programs hold the address of `array`, so it is never replaced. Their steps may run in
    other threads: `read_states` and `write_states` are how its elements are read and written. That
    of a generator of random numbers is marked: users do not handle it as a variable of theirs.
    """

    __slots__ = (
        *("_part", "_reals", "_whole", "array", "is_of_generator", "name", "sharding"),
        *("trainable", "type"),
    )

    def __init__(self, array: Array, *, name: str, trainable: bool) -> None:
        type_ = TensorType(dtypes.as_dtype(array.dtype), array.shape)
        self._begin(aligned_copy(array), type_, name, trainable)

    def _begin(self, array: Array, type_: TensorType, name: str, trainable: bool) -> None:
        self.array, self.type = array, type_
        self.name, self.trainable = name, trainable
        self.is_of_generator = False
        self.sharding: Sharding | None = None  # of what this is the part of one rank
        self._reals: State | None = None
        self._whole: State | None = None
        self._part: State | None = None

    @classmethod
    def zeros(cls, type_: TensorType, *, name: str, trainable: bool) -> State:
        """Return a state of zeros, whose pages the system makes when they are touched."""
        state, zeros = cls.__new__(cls), aligned_zeros(type_.static_shape, type_.dtype.numpy)
        state._begin(zeros, type_, name, trainable)
        return state

    @property
    def reals(self) -> State:
        """The memory of a complex state as reals, with a trailing axis of two parts."""
        if self._reals is None:
            part = self.type.dtype.real
            view = State(np.zeros((), part.numpy), name=self.name, trainable=self.trainable)
            view.array = as_reals(self.array)
            view.type = TensorType(part, (*self.type.shape, 2))
            view._whole = self
            self._reals = view
        return self._reals

    @property
    def part(self) -> State:
        """The memory of a state that is cut along an axis, whose own type is that of the whole."""
        if self._part is None:
            view = State(np.zeros((), self.array.dtype), name=self.name, trainable=self.trainable)
            view.array = self.array
            view.type = self.type.with_shape(self.array.shape)
            view.sharding = self.sharding
            self._part = view
        return self._part

    @property
    def whole(self) -> State:
        """The state that this one shows the memory of: the complex one of reals, else itself."""
        return self if self._whole is None else self._whole

    def __repr__(self) -> str:
        return f"State({self.name}: {self.type})"


@dataclass(frozen=True, slots=True, eq=False)
class Sharding:
    """How values of the shape of `owner` are cut in equal parts, of which each rank has one.

    The elements lie in row-major order, filled up with zeros; the part of this rank is a vector.
    With an `axis` it is a block along that instead, the graph is built of the whole, and `calls`
    are what brings parts together (`symgrad/passes/placement/`).
    """

    group: ProcessGroup
    owner: State
    is_reproducible: bool = False  # in bits, whatever the number of ranks
    axis: int | None = None
    calls: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole."""
        return self.owner.type.static_shape

    @property
    def part_length(self) -> int:
        """How many elements a part has, of which the last may be zeros behind the end."""
        return -(-math.prod(self.shape) // self.group.size)

    def part_of(self, whole: Array) -> Array:
        """Return the part of this rank."""
        if self.axis is not None:
            return np.split(whole, self.group.size, self.axis)[self.group.rank]
        start = self.group.rank * self.part_length
        piece = whole.reshape(-1)[start : start + self.part_length]
        return np.concatenate([piece, np.zeros(self.part_length - piece.size, whole.dtype)])

    def whole_of(self, part: Array) -> Array:
        """Return on rank 0 the whole, and elsewhere the part; all ranks give theirs."""
        parts = self.group.collect(part)
        if parts is None:
            return part
        if self.axis is not None:
            return np.concatenate(parts, self.axis)
        return np.concatenate(parts)[: math.prod(self.shape)].reshape(self.shape)


def read_states(states: Sequence[State]) -> list[Array]:
    """Return copies of the values of `states`, all as they were at one moment between steps."""
    copies = [np.empty_like(state.array) for state in states]
    copy_whole(copies, [state.array for state in states])
    return copies


def write_states(states: Sequence[State], values: Sequence[Array]) -> None:
    """Set `states` to `values`, all at one moment between steps.

    Values broadcast and are converted as NumPy does it for an assignment.
    """
    targets = [state.array for state in states]
    copy_whole(targets, [_as_stored(v, t) for v, t in zip(values, targets, strict=True)])


def _as_stored(value: Array, target: Array) -> Array:
    """Return the value as `target` will hold it; itself, if that is so already."""
    if value.shape == target.shape and value.dtype == target.dtype and value.flags.c_contiguous:
        return value
    stored = np.empty_like(target)
    stored[...] = value
    return stored


def as_reals(array: Array) -> Array:
    """Return a view of the memory of a C-ordered complex array as reals, a trailing axis of two."""
    part = dtypes.as_dtype(array.dtype).real.numpy
    return array.reshape(-1).view(part).reshape((*array.shape, 2))


class PythonFunction:
    """A function of Python as an attribute: it has no text, and is equal to itself only."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call

    def __repr__(self) -> str:
        return f"PythonFunction({self.name})"


class NestedGraph(Immutable):
    """What an attribute that is a graph is: the program of a branch or of the body of a loop."""

    __slots__ = ()


Attr = (
    None
    | bool
    | int
    | float
    | str
    | DType
    | Size
    | ArrayLiteral
    | State
    | PythonFunction
    | ForeignFunction
    | NestedGraph
    | tuple["Attr", ...]
)


def attr_key(attr: Attr) -> Hashable:
    """Return a key that equal attributes share, and no others.

    To Python True, 1 and 1.0 are equal, and so are 0.0 and -0.0.
    """
    if isinstance(attr, tuple):
        return tuple([attr_key(part) for part in attr])
    return type(attr), repr(attr) if isinstance(attr, float) else attr
