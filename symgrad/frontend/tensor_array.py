"""TensorArray: a list of tensors of one shape, written and read slot by slot.

It is functional, so writing gives a new one, and dense: one tensor whose axis 0 counts the slots.
Gradients are therefore those of the ops it is made of. In a loop whose next value of the array is
the old one with some slots written, they are written in place, and the cost is that of the slots.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from symgrad.call_errors import methods_refuse_arguments
from symgrad.errors import DTypeError, GraphError, IndexOutOfRangeError, ShapeError, user_source
from symgrad.frontend.control import with_dtype
from symgrad.frontend.creation import zeros
from symgrad.frontend.growth import GrowingArray, grown, looks_for_counters
from symgrad.frontend.nests import register
from symgrad.graph.dtypes import DType, DTypeLike, as_dtype
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import made_by_numpy
from symgrad.graph.ops.conversion import identity
from symgrad.graph.ops.gathering import set_rows
from symgrad.graph.ops.indexing import index_tensor, take
from symgrad.graph.ops.marks import match_shape
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.ranges import is_empty, range_of
from symgrad.graph.sizes import Dim, Size
from symgrad.graph.types import ArrayLiteral, Shape


@methods_refuse_arguments
class TensorArray(GrowingArray):
    """`size` slots for tensors of `element_shape`; 0 where nothing was written.

    It may be a loop variable, part of a scan's carry and what a branch returns. An index counts
    from the end if it is negative, and one out of range is an `IndexOutOfRangeError`, now or when
    the program runs. With `dynamic_size`, writing behind the last slot while the graph is built
    makes more of them; in the graph, the size never changes. At an index whose values are known
    from the counters of loops, it makes as many as the loops can write at most.

    >>> array = sg.TensorArray(3, (2,)).write(0, [1.0, 2.0]).write(-1, [5.0, 6.0])
    >>> sg.run(array.stack())
    array([[1., 2.],
           [0., 0.],
           [5., 6.]], dtype=float32)
    """

    __slots__ = ("_rows",)

    def __init__(
        self,
        size: Any,
        element_shape: Sequence[Dim | None],
        dtype: DTypeLike = "float32",
        dynamic_size: bool = False,
    ) -> None:
        if isinstance(size, Tensor):
            _refuse_unknown("TensorArray", f"size is {size.type}")
        rows = size if isinstance(size, Size) else as_int(size)
        if rows is None:
            raise DTypeError("TensorArray", f"size {size!r} is no size", source=user_source())
        if any(n is None for n in element_shape):
            raise ShapeError(
                "TensorArray", f"element_shape {element_shape} is not known", source=user_source()
            )
        if isinstance(rows, int) and rows < 0:
            raise ShapeError("TensorArray", f"size {rows} is negative", source=user_source())
        self._rows = zeros((rows, *element_shape), as_dtype(dtype))
        self.dynamic_size = dynamic_size

    def __repr__(self) -> str:
        return f"<TensorArray {self._rows.type}>"

    @property
    def size(self) -> Dim:
        """The number of slots."""
        return self._rows.shape[0]

    @property
    def element_shape(self) -> Shape:
        """The shape of what is in a slot."""
        return self._rows.shape[1:]

    @property
    def dtype(self) -> DType:
        """The dtype of what is in a slot."""
        return self._rows.dtype

    # ----------------------------------------------------------------------------- slots

    def write(self, index: Any, value: Any) -> TensorArray:
        """Return the array with `value` in a slot; what was there before gets no gradient.

        >>> sg.run(sg.TensorArray(2, ()).write(1, 7.0).stack())
        array([0., 7.], dtype=float32)
        """
        return self._written("write", index, value, ())

    def scatter(self, indices: Any, value: Any) -> TensorArray:
        """Return the array with slices of `value` in the slots `indices`; the last one stays.

        >>> sg.run(sg.TensorArray(3, ()).scatter([2, 0], [7.0, 8.0]).stack())
        array([8., 0., 7.], dtype=float32)
        """
        count = _length("scatter", indices)
        return self._written("scatter", indices, value, (count,))

    def _written(self, method: str, index: Any, value: Any, places: Shape) -> TensorArray:
        subject = f"TensorArray.{method}"
        if self.dynamic_size and isinstance(index, Tensor) and not self._is_written(subject, index):
            return self
        rows = self._grown_for(subject, index)._rows
        position = index_tensor(subject, index, rows.shape[0], 0)
        if position.ndim != len(places):
            problem = f"index {position.type} is not of {len(places)} axes"
            raise ShapeError(subject, problem, source=user_source())
        element = self._element(subject, value, (*places, *self.element_shape))
        return self._with(set_rows(rows, element, [position], 0))

    def read(self, index: Any) -> Tensor:
        """Return what is in a slot.

        >>> sg.run(sg.TensorArray(2, ()).write(1, 7.0).read(-1))
        array(7., dtype=float32)
        """
        return self._taken("read", index, 0)

    def gather(self, indices: Any) -> Tensor:
        """Return what is in the slots `indices`, stacked.

        >>> sg.run(sg.TensorArray(2, ()).write(1, 7.0).gather([1, 1, 0]))
        array([7., 7., 0.], dtype=float32)
        """
        return self._taken("gather", indices, 1)

    def _taken(self, method: str, index: Any, ndim: int) -> Tensor:
        subject = f"TensorArray.{method}"
        places = index if isinstance(index, Tensor) else made_by_numpy(index)
        if places.ndim != ndim:
            given = places.type if isinstance(places, Tensor) else repr(index)
            raise ShapeError(subject, f"index {given} is not of {ndim} axes", source=user_source())
        return take(self._rows, index, axis=0)

    # ------------------------------------------------------------------------- all at once

    def stack(self) -> Tensor:
        """Return all slots as one tensor, of shape (size, *element_shape).

        >>> sg.TensorArray(3, (2,)).stack().shape
        (3, 2)
        """
        # A tensor of its own: what else is made of the slots is not made of it.
        return identity(self._rows)

    def unstack(self, value: Any) -> TensorArray:
        """Return the array with the slices of `value` along axis 0 in its first slots.

        >>> sg.run(sg.TensorArray(3, ()).unstack([1.0, 2.0]).stack())
        array([1., 2., 0.], dtype=float32)
        """
        subject = "TensorArray.unstack"
        tensor = with_dtype(value, self.dtype)
        count = _length(subject, tensor)
        rows = self._rows
        if isinstance(count, int) and isinstance(self.size, int):
            rows = self._grown(subject, count)._rows
        tensor = self._element(subject, tensor, (count, *self.element_shape))
        if count == rows.shape[0]:
            return self._with(tensor)
        if not isinstance(count, int) or not isinstance(rows.shape[0], int):
            return self._with(match_shape(tensor, rows.shape))
        rest = narrow(rows, 0, count, rows.shape[0] - count)
        return self._with(concat([tensor, rest], axis=0))

    def concat(self) -> Tensor:
        """Return the slots joined along the first axis of what is in them.

        >>> sg.TensorArray(3, (2,)).concat().shape
        (6,)
        """
        length = self._first_axis("TensorArray.concat")
        return reshape(self._rows, (self.size * length, *self.element_shape[1:]))

    def split(self, value: Any, lengths: Any) -> TensorArray:
        """Return the array with pieces of `value` along axis 0 in its first slots.

        All `lengths` are the first size of what is in a slot. They are numbers, an array or a
        tensor whose value is known when the graph is built.

        >>> sg.run(sg.TensorArray(2, (2,)).split([1.0, 2.0, 3.0, 4.0], [2, 2]).stack())
        array([[1., 2.],
               [3., 4.]], dtype=float32)
        """
        subject = "TensorArray.split"
        length = self._first_axis(subject)
        wanted = _lengths(subject, lengths)
        if any(n != length for n in wanted):
            raise ShapeError(
                subject, f"lengths are {wanted}, and slots hold {length} each", source=user_source()
            )
        tensor = with_dtype(value, self.dtype)
        shape = (len(wanted) * length, *self.element_shape[1:])
        tensor = self._element(subject, tensor, shape)
        return self.unstack(reshape(tensor, (len(wanted), *self.element_shape)))

    def _first_axis(self, subject: str) -> Dim:
        if not self.element_shape:
            raise ShapeError(subject, f"{self!r} has slots without axes", source=user_source())
        return self.element_shape[0]

    # ------------------------------------------------------------------------------- sizes

    def _with(self, rows: Tensor) -> TensorArray:
        return _of_rows(self.dynamic_size, rows)

    def _element(self, subject: str, value: Any, shape: Shape) -> Tensor:
        """Return `value` as a tensor of `shape` and of the dtype of the slots."""
        tensor = with_dtype(value, self.dtype)
        if tensor.dtype != self.dtype:
            raise DTypeError(
                subject, f"value is {tensor.type}, and slots are {self.dtype.name}",
                hint="use astype", source=user_source(),
            )  # fmt: skip
        pairs = zip(tensor.shape, shape, strict=False)
        is_other = any(m != n for m, n in pairs if isinstance(m, int) and isinstance(n, int))
        if tensor.ndim != len(shape) or is_other:
            raise ShapeError(
                subject, f"value is {tensor.type}, and its shape must be {list(shape)}",
                source=user_source(),
            )  # fmt: skip
        return match_shape(tensor, shape)

    def _is_written(self, subject: str, index: Tensor) -> bool:
        """Return whether anything is written at `index`; raise if that could be anywhere."""
        known = range_of(index)
        if known is None and not looks_for_counters():
            _refuse_unknown(subject, f"index is {index.type}, and the size depends on it")
        return known is not None and not is_empty(known)

    def _grown_for(self, subject: str, index: Any) -> TensorArray:
        """Return the array with at least the slots that `index` names."""
        if not self.dynamic_size:
            return self
        known = range_of(index) if isinstance(index, Tensor) else None
        # As objects: no integer dtype has both -1 and what is beyond an int64.
        last = int(np.max(np.asarray(index, object), initial=-1)) if known is None else known[1]
        return self._grown(subject, last + 1)

    def _grown(self, subject: str, size: int) -> TensorArray:
        """Return the array with at least `size` slots."""
        present = self.size
        if isinstance(present, int) and size <= present:
            return self
        if not self.dynamic_size:
            raise IndexOutOfRangeError(
                subject, f"there are {present} slots, and {size} are needed", source=user_source()
            )
        if not isinstance(present, int):
            _refuse_unknown(subject, f"the array has {present} slots")
        return self._with(grown(self._rows, size))


def _refuse_unknown(subject: str, problem: str) -> NoReturn:
    raise GraphError(
        subject,
        f"{problem}: only the run could tell how many slots there are",
        hint="give a size that is large enough: TensorArray(size, element_shape)",
        source=user_source(),
    )


def _length(subject: str, value: Any) -> Dim:
    shape = value.shape if isinstance(value, Tensor) else made_by_numpy(value).shape
    if not shape:
        raise ShapeError(subject, f"{value!r} has no axis 0", source=user_source())
    return shape[0]


def _lengths(subject: str, lengths: Any) -> list[Dim]:
    """Return the lengths of pieces, given as a vector or one by one."""
    if isinstance(lengths, Tensor) and lengths.ndim == 1:
        value = lengths.node.attrs.get("value")
        if isinstance(value, ArrayLiteral):
            return _lengths(subject, value.array)
        known, count = range_of(lengths), lengths.shape[0]
        if known is None or known[0] != known[1] or not isinstance(count, int):
            _refuse_unknown(subject, f"lengths are {lengths.type}")
        return [known[0]] * count
    if isinstance(lengths, Tensor | int | float) or not np.iterable(lengths):
        given = lengths.type if isinstance(lengths, Tensor) else repr(lengths)
        raise ShapeError(subject, f"lengths {given} are not of 1 axes", source=user_source())
    return [_length_of_piece(subject, n) for n in lengths]


def _length_of_piece(subject: str, length: Any) -> Dim:
    if isinstance(length, Tensor) and not length.ndim:
        return _lengths(subject, reshape(length, (1,)))[0]
    if isinstance(length, Size):
        return length
    try:
        return operator.index(length)
    except TypeError as error:
        problem = f"length {length!r} is not an integer"
        raise DTypeError(subject, problem, source=user_source()) from error


def _of_rows(dynamic_size: bool, rows: Tensor) -> TensorArray:
    made = TensorArray.__new__(TensorArray)
    made.dynamic_size, made._rows = dynamic_size, rows
    return made


def _put_together(dynamic_size: bool, leaves: tuple[Any]) -> Any:
    """Return the array of a leaf; where a program has run, the leaf is what comes back."""
    (rows,) = leaves
    return _of_rows(dynamic_size, rows) if isinstance(rows, Tensor) else rows


# In a nest, an array is a node whose one leaf is the dense tensor.
register(TensorArray, lambda array: ((array._rows,), array.dynamic_size), _put_together)
