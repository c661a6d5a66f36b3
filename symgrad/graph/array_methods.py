"""Methods of arrays: which public op each method of a tensor is, under NumPy's names.

The ops are looked up by name, as those of operators are (`operators.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from symgrad.call_errors import methods_refuse_arguments
from symgrad.graph.dtypes import DTypeLike
from symgrad.suggestions import unknown_attribute

Result = TypeVar("Result")

# What arrays of other libraries have and tensors have not: what is used instead.
_INSTEAD = {
    "assign": "sg.inplace_update",
    "backward": "sg.gradients",
    "bfloat16": ".astype",
    "bool": ".astype",
    "cpu": "sg.run",
    "detach": "sg.stop_gradient",
    "dim": ".ndim",
    "double": ".astype",
    "eval": "sg.run",
    "expand": "sg.broadcast_to",
    "float": ".astype",
    "gather": "sg.take_along_axis",
    "get_shape": ".shape",
    "grad": "sg.gradients",
    "half": ".astype",
    "int": ".astype",
    "item": "sg.run",
    "long": ".astype",
    "matmul": "the operator @",
    "mm": "the operator @",
    "numel": ".size",
    "numpy": "sg.run",
    "permute": ".transpose",
    "requires_grad": "sg.stop_gradient",
    "t": ".T",
    "to": ".astype",
    "tolist": "sg.run",
    "type_as": ".astype",
    "unsqueeze": "sg.expand_dims",
    "value": "sg.run",
    "view": ".reshape",
}


@methods_refuse_arguments
class ArrayMethods(Generic[Result]):
    """What makes `x.sum()` build graph; `Tensor` has it, and is what the methods give."""

    __slots__ = ()

    @property
    @abstractmethod
    def ndim(self) -> int:
        """The number of axes."""

    @abstractmethod
    def _call(self, op: str, *args: Any, **attrs: Any) -> Result: ...

    if not TYPE_CHECKING:  # which would take every attribute to be there

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # what Python and its tools look for, and mostly do not find
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            raise unknown_attribute(type(self).__name__, name, dir(type(self)), _INSTEAD)

    @property
    def T(self) -> Result:  # noqa: N802 - the Array API's name
        """The transpose: of a matrix, and of any other tensor with all axes reversed."""
        return self._call("matrix_transpose" if self.ndim == 2 else "reverse_axes")

    @property
    def mT(self) -> Result:  # noqa: N802 - the Array API's name
        """The tensor with its last two axes exchanged."""
        return self._call("matrix_transpose")

    def sum(self, axis: Any = None, **options: Any) -> Result:
        """Sum over `axis`, as `sg.sum`.

        >>> sg.run(sg.constant([[1.0, 2.0], [3.0, 4.0]]).sum(axis=0))
        array([4., 6.], dtype=float32)
        """
        return self._call("sum", axis, **options)

    def prod(self, axis: Any = None, **options: Any) -> Result:
        """Multiply over `axis`, as `sg.prod`.

        >>> sg.run(sg.constant([1.0, 2.0, 3.0]).prod())
        array(6., dtype=float32)
        """
        return self._call("prod", axis, **options)

    def max(self, axis: Any = None, **options: Any) -> Result:
        """Take the greatest element along `axis`, as `sg.max`.

        >>> sg.run(sg.constant([1.0, 3.0, 2.0]).max())
        array(3., dtype=float32)
        """
        return self._call("max", axis, **options)

    def min(self, axis: Any = None, **options: Any) -> Result:
        """Take the least element along `axis`, as `sg.min`.

        >>> sg.run(sg.constant([1.0, 3.0, 2.0]).min())
        array(1., dtype=float32)
        """
        return self._call("min", axis, **options)

    def mean(self, axis: Any = None, **options: Any) -> Result:
        """Average over `axis`, as `sg.mean`.

        >>> sg.run(sg.constant([[1.0, 2.0], [3.0, 4.0]]).mean(axis=1, keepdims=True))
        array([[1.5],
               [3.5]], dtype=float32)
        """
        return self._call("mean", axis, **options)

    def any(self, axis: Any = None, **options: Any) -> Result:
        """Compute whether an element along `axis` is true, as `sg.any`.

        >>> sg.run((sg.constant([1.0, 3.0]) > 2).any())
        array(True)
        """
        return self._call("any", axis, **options)

    def all(self, axis: Any = None, **options: Any) -> Result:
        """Compute whether every element along `axis` is true, as `sg.all`.

        >>> sg.run((sg.constant([1.0, 3.0]) > 2).all())
        array(False)
        """
        return self._call("all", axis, **options)

    def argmax(self, axis: int | None = None, **options: Any) -> Result:
        """Return the position of the greatest element along `axis`, as `sg.argmax`.

        >>> sg.run(sg.constant([1.0, 3.0, 2.0]).argmax())
        array(1)
        """
        return self._call("argmax", axis, **options)

    def argmin(self, axis: int | None = None, **options: Any) -> Result:
        """Return the position of the least element along `axis`, as `sg.argmin`.

        >>> sg.run(sg.constant([1.0, 3.0, 2.0]).argmin())
        array(0)
        """
        return self._call("argmin", axis, **options)

    def reshape(self, *shape: Any) -> Result:
        """Reshape to `shape`, given as one tuple or as separate sizes.

        >>> sg.run(sg.arange(6).reshape(2, -1))
        array([[0, 1, 2],
               [3, 4, 5]])
        """
        one = len(shape) == 1 and isinstance(shape[0], tuple | list)
        return self._call("reshape", tuple(shape[0]) if one else shape)

    def flatten(self) -> Result:
        """Return the elements in row-major order, along one axis.

        >>> sg.zeros((2, 3)).flatten().shape
        (6,)
        """
        return self._call("reshape", (-1,))

    def transpose(self, *axes: Any) -> Result:
        """Permute the axes; without arguments, reverse them.

        >>> sg.zeros((2, 3, 4)).transpose(0, 2, 1).shape
        (2, 4, 3)
        """
        if not axes or axes[0] is None:
            return self._call("reverse_axes")
        return self._call("permute_dims", axes[0] if isinstance(axes[0], tuple | list) else axes)

    def squeeze(self, axis: Any = None) -> Result:
        """Remove axes of size 1, as `sg.squeeze`.

        >>> sg.zeros((1, 3, 1)).squeeze().shape
        (3,)
        """
        return self._call("squeeze", axis)

    def astype(self, dtype: DTypeLike) -> Result:
        """Convert to `dtype`, as `sg.astype`.

        >>> sg.constant([1, 2]).astype("float64").dtype
        symgrad.float64
        """
        return self._call("astype", dtype)

    def clip(self, min: Any = None, max: Any = None) -> Result:
        """Limit to `min` below and `max` above, as `sg.clip`.

        >>> sg.run(sg.constant([-2.0, 0.5, 2.0]).clip(0, 1))
        array([0. , 0.5, 1. ], dtype=float32)
        """
        return self._call("clip", min, max)

    def round(self) -> Result:
        """Compute the nearest integers, the even one of two, as `sg.round`.

        >>> sg.run(sg.constant([0.5, 1.5]).round())
        array([0., 2.], dtype=float32)
        """
        return self._call("round")

    def dot(self, other: Any) -> Result:
        """Multiply as NumPy's `dot`, as `sg.dot`.

        >>> sg.run(sg.constant([1.0, 2.0]).dot([3.0, 4.0]))
        array(11., dtype=float32)
        """
        return self._call("dot", other)

    def take(self, indices: Any, axis: int | None = None) -> Result:
        """Take the elements at `indices` along `axis`, as `sg.take`.

        >>> sg.run(sg.constant([10, 20, 30]).take([2, 0]))
        array([30, 10], dtype=int32)
        """
        return self._call("take", indices, axis=axis)

    def var(self, axis: Any = None, **options: Any) -> Result:
        """Compute the variance over `axis`, as `sg.var`.

        >>> sg.run(sg.constant([1.0, 3.0]).var())
        array(1., dtype=float32)
        """
        return self._call("var", axis, **options)

    def std(self, axis: Any = None, **options: Any) -> Result:
        """Compute the standard deviation over `axis`, as `sg.std`.

        >>> sg.run(sg.constant([1.0, 3.0]).std())
        array(1., dtype=float32)
        """
        return self._call("std", axis, **options)

    def cumsum(self, axis: int | None = None, **options: Any) -> Result:
        """Sum the elements up to each along `axis`, flattened for None, as `sg.cumsum`.

        >>> sg.run(sg.constant([1.0, 2.0, 3.0]).cumsum())
        array([1., 3., 6.], dtype=float32)
        """
        return self._call("cumsum", axis, **options)

    def cumprod(self, axis: int | None = None, **options: Any) -> Result:
        """Multiply the elements up to each along `axis`, flattened for None, as `sg.cumprod`.

        >>> sg.run(sg.constant([1.0, 2.0, 3.0]).cumprod())
        array([1., 2., 6.], dtype=float32)
        """
        return self._call("cumprod", axis, **options)

    def ravel(self) -> Result:
        """Return the elements in row-major order, along one axis, as `flatten`.

        >>> sg.zeros((2, 3)).ravel().shape
        (6,)
        """
        return self._call("ravel")

    def swapaxes(self, axis1: int, axis2: int) -> Result:
        """Exchange two axes.

        >>> sg.zeros((2, 3, 4)).swapaxes(0, 2).shape
        (4, 3, 2)
        """
        return self._call("swapaxes", axis1, axis2)

    def repeat(self, repeats: Any, axis: int | None = None) -> Result:
        """Repeat each element along `axis`, flattened for None, as `sg.repeat`.

        >>> sg.run(sg.constant([1, 2]).repeat(2))
        array([1, 1, 2, 2], dtype=int32)
        """
        return self._call("repeat", repeats, axis=axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Result:
        """Take a diagonal, of the first two axes if none are named, as NumPy's method does.

        >>> sg.run(sg.constant([[1, 2], [3, 4]]).diagonal())
        array([1, 4], dtype=int32)
        """
        return self._call("diagonal", offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Result:
        """Sum a diagonal, of the first two axes if none are named, as NumPy's method does.

        >>> sg.run(sg.constant([[1, 2], [3, 4]]).trace())
        array(5)
        """
        return self._call("trace", offset=offset, axis1=axis1, axis2=axis2)

    def conj(self) -> Result:
        """Return the complex conjugate, as `sg.conj`.

        >>> sg.run(sg.constant([1.0, 2.0]).conj())
        array([1., 2.], dtype=float32)
        """
        return self._call("conj")

    def copy(self) -> Result:
        """Return a tensor equal to this one that is a node of its own.

        >>> x = sg.constant([1.0, 2.0])
        >>> x.copy() is x
        False
        """
        return self._call("identity")
