"""Methods of arrays: which public op each method of a tensor is, under NumPy's names.

The ops are looked up by name, as those of operators are (`operators.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

from symgrad.graph.dtypes import DTypeLike

Result = TypeVar("Result")


class ArrayMethods(Generic[Result]):
    """What makes `x.sum()` build graph; `Tensor` has it, and is what the methods give."""

    __slots__ = ()

    @property
    @abstractmethod
    def ndim(self) -> int: ...

    @abstractmethod
    def _call(self, op: str, *args: Any, **attrs: Any) -> Result: ...

    @property
    def T(self) -> Result:  # noqa: N802 - the Array API's name
        return self._call("matrix_transpose" if self.ndim == 2 else "reverse_axes")

    @property
    def mT(self) -> Result:  # noqa: N802 - the Array API's name
        return self._call("matrix_transpose")

    def sum(self, axis: Any = None, **options: Any) -> Result:
        return self._call("sum", axis, **options)

    def prod(self, axis: Any = None, **options: Any) -> Result:
        return self._call("prod", axis, **options)

    def max(self, axis: Any = None, **options: Any) -> Result:
        return self._call("max", axis, **options)

    def min(self, axis: Any = None, **options: Any) -> Result:
        return self._call("min", axis, **options)

    def mean(self, axis: Any = None, **options: Any) -> Result:
        return self._call("mean", axis, **options)

    def any(self, axis: Any = None, **options: Any) -> Result:
        return self._call("any", axis, **options)

    def all(self, axis: Any = None, **options: Any) -> Result:
        return self._call("all", axis, **options)

    def argmax(self, axis: int | None = None, **options: Any) -> Result:
        return self._call("argmax", axis, **options)

    def argmin(self, axis: int | None = None, **options: Any) -> Result:
        return self._call("argmin", axis, **options)

    def reshape(self, *shape: Any) -> Result:
        """Reshape to `shape`, given as one tuple or as separate sizes."""
        one = len(shape) == 1 and isinstance(shape[0], tuple | list)
        return self._call("reshape", tuple(shape[0]) if one else shape)

    def flatten(self) -> Result:
        return self._call("reshape", (-1,))

    def transpose(self, *axes: Any) -> Result:
        """Permute the axes; without arguments, reverse them."""
        if not axes or axes[0] is None:
            return self._call("reverse_axes")
        return self._call("permute_dims", axes[0] if isinstance(axes[0], tuple | list) else axes)

    def squeeze(self, axis: Any = None) -> Result:
        return self._call("squeeze", axis)

    def astype(self, dtype: DTypeLike) -> Result:
        return self._call("astype", dtype)

    def clip(self, min: Any = None, max: Any = None) -> Result:
        return self._call("clip", min, max)

    def round(self) -> Result:
        return self._call("round")

    def dot(self, other: Any) -> Result:
        return self._call("dot", other)

    def take(self, indices: Any, axis: int | None = None) -> Result:
        return self._call("take", indices, axis=axis)

    def var(self, axis: Any = None, **options: Any) -> Result:
        return self._call("var", axis, **options)

    def std(self, axis: Any = None, **options: Any) -> Result:
        return self._call("std", axis, **options)

    def cumsum(self, axis: int | None = None, **options: Any) -> Result:
        return self._call("cumsum", axis, **options)

    def cumprod(self, axis: int | None = None, **options: Any) -> Result:
        return self._call("cumprod", axis, **options)

    def ravel(self) -> Result:
        return self._call("ravel")

    def swapaxes(self, axis1: int, axis2: int) -> Result:
        return self._call("swapaxes", axis1, axis2)

    def repeat(self, repeats: Any, axis: int | None = None) -> Result:
        return self._call("repeat", repeats, axis=axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Result:
        """Take a diagonal, of the first two axes if none are named, as NumPy's method does."""
        return self._call("diagonal", offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Result:
        """Sum a diagonal, of the first two axes if none are named, as NumPy's method does."""
        return self._call("trace", offset=offset, axis1=axis1, axis2=axis2)

    def conj(self) -> Result:
        return self._call("conj")

    def copy(self) -> Result:
        """Return a tensor equal to this one that is a node of its own."""
        return self._call("identity")
