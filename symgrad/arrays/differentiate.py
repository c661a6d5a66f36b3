"""Differentiation as function transformations: `grad`, `value_and_grad`, `jac`, `hessian`.

Each makes a function of arrays into one of its derivatives.

The function is traced once for each signature of its arguments, differentiated there, compiled and
kept; asking for the derivative of the same function again gives what was kept. With tensors among
the arguments the result is graph, so derivatives of derivatives are taken like any others.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, overload

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.control import require_callables
from symgrad.frontend.nests import flatten, map_leaves, unflatten
from symgrad.frontend.sparse_tensor import SparseTensor
from symgrad.functional import Function
from symgrad.graph.foreign_arrays import as_numpy
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.sizes import Dim
from symgrad.passes.gradients.jacobian import Sparsity, hessian_of, jacobian
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.records import dataclass
from symgrad.suggestions import known_as

Func = Callable[..., Any]

_CACHE_SIZE = 128  # functions of which derivatives are kept


def grad(func: Func, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Func:
    """Return a function of the same arguments that gives the gradient of `func`.

    It is the gradient with respect to argument `argnums`, an array or a nest of arrays, and has
    its nest; with a sequence of numbers it is a tuple of these. Zeros stand where the result does
    not depend on an array. `func` must return one float element, else a call raises `ShapeError`
    or `DTypeError`; arguments to differentiate by must be floats. With `has_aux` it returns a pair
    of that and of a nest of anything that has numbers, and what comes back is (gradient, aux).

    >>> sg.grad(lambda w, x: sg.sum(sg.square(w * x)))(np.float32([1.0, 2.0]), 3.0)
    array([18., 36.], dtype=float32)
    """
    derive = _gradient_and_aux_of if has_aux else _gradient_of
    return _derivative("grad", func, argnums, derive)


def value_and_grad(func: Func, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Func:
    """Return a function that gives the pair of the value of `func` and of its gradient.

    Both are computed by one program. Arguments are those of `grad`; with `has_aux` the result is
    ((value, aux), gradient).

    >>> def loss(w):
    ...     error = w - 1.0
    ...     return sg.sum(error * error), {"largest": sg.max(error)}
    >>> (value, aux), gradient = sg.value_and_grad(loss, has_aux=True)(np.float32([2.0, 4.0]))
    >>> value, aux["largest"], gradient
    (array(10., dtype=float32), array(3., dtype=float32), array([2., 6.], dtype=float32))
    """
    derive = _value_aux_and_gradient_of if has_aux else _value_and_gradient_of
    return _derivative("value_and_grad", func, argnums, derive)


@known_as("jacrev", "jacfwd")
def jac(func: Func, argnums: int | Sequence[int] = 0) -> Func:
    """Return a function of the same arguments that gives the Jacobian of `func`.

    For a result of shape `s` and an argument of shape `t` it has shape `s + t`. With nests it is
    the nest of the results, and at each of their leaves that of the argument.

    >>> sg.jac(lambda x: sg.stack([x[0] * x[1], x[0] ** 2]))(np.float32([2.0, 3.0]))
    array([[3., 2.],
           [4., 0.]], dtype=float32)
    """
    return _derivative("jac", func, argnums, _jacobian_of)


@overload
def hessian(y: Tensor, x: Tensor, sparsity: Sparsity) -> SparseTensor: ...


@overload
def hessian(y: Tensor, x: Any, sparsity: Sparsity | None = None) -> Any: ...


@overload
def hessian(y: Func, x: None = None, *, argnums: int | Sequence[int] = 0) -> Func: ...


@overload
def hessian(y: Func, x: int | Sequence[int]) -> Func: ...


def hessian(
    y: Any,
    x: Any = None,
    sparsity: Sparsity | None = None,
    *,
    argnums: int | Sequence[int] = 0,
) -> Any:
    """Return the Hessian of a tensor `y` by `x`, or of a function a function that gives it.

    Of a tensor of shape `s` by an `x` of shape `t` it has shape `s + t + t`, and zeros where `y` is
    linear. By a nest it is that nest, at each leaf of it the nest again. With `sparsity="auto"` it
    is that of a scalar by one tensor, as a `SparseTensor` of shape `(x.size, x.size)`: all of it,
    not one triangle. What `jacobian` says of patterns holds.

    `hessian(f)`, or `hessian(f, argnums)`, is a function of the arguments of `f`, by those that
    `argnums` says. With nests it is the nest of the results, at each of their leaves that of the
    argument, and at each leaf of this that of the argument again: `h["w"]["b"]` is the derivative
    by `w` and then by `b`. Raises what `jac` raises, and of tensors what `jacobian` raises.

    >>> sg.hessian(lambda x: sg.sum(x**3))(np.ones(2))
    array([[6., 0.],
           [0., 6.]])
    """
    if not isinstance(y, Tensor):
        return _derivative("hessian", y, argnums if x is None else x, _hessian_of)
    if x is None:
        raise DTypeError(
            "hessian",
            f"y is {y!r} and x is missing",
            hint="hessian(y, x) is the form for tensors, hessian(f) that for functions",
            source=user_source(),
        )
    return hessian_of(y, x, sparsity)


@dataclass(frozen=True, slots=True)
class TracedCall:
    """One call while it is traced: what is differentiated, by which arguments, in whose name."""

    subject: str
    func: Func
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    argnums: tuple[int, ...]
    is_single: bool

    def by_argument(self, derive: Callable[[list[Tensor]], Sequence[Any]]) -> Any:
        """Return the nest of the arguments to differentiate by, of what `derive` gives for them."""
        chosen = tuple(self.args[number] for number in self.argnums)
        leaves, nest = flatten(chosen)
        derived = unflatten(nest, derive(leaves))
        return derived[0] if self.is_single else derived

    def result(self) -> Any:
        """Return the result of the function, with numbers and arrays in it as tensors."""
        for number in self.argnums:
            for leaf in flatten(self.args[number])[0]:
                require_float(self.subject, f"argument {number}", leaf)
        require_arguments(self.subject, self.func, self.args, self.kwargs)
        return map_leaves(as_tensor, self.func(*self.args, **self.kwargs))

    def scalar_and_aux(self) -> tuple[Tensor, Any]:
        """Return the result of the function, which must be one float and something besides."""
        result = self.result()
        if not isinstance(result, tuple | list) or len(result) != 2:
            kind = f"{len(result)} results" if isinstance(result, tuple | list) else f"{result!r}"
            raise DTypeError(
                self.subject,
                f"the function returns {kind}, with has_aux a pair (value, aux) is needed",
                source=user_source(),
            )
        value, aux = result
        return self.require_scalar(value), aux

    def scalar(self) -> Tensor:
        """Return the result of the function, which must be one float."""
        return self.require_scalar(self.result())

    def require_scalar(self, result: Any) -> Tensor:
        """Return `result`; raises unless it is one float."""
        if not isinstance(result, Tensor):
            kind = type(result).__name__
            raise DTypeError(
                self.subject,
                f"the function returns a {kind}, a scalar is needed",
                hint="has_aux takes a pair (value, aux), execute_with_gradients several results",
                source=user_source(),
            )
        require_float(self.subject, "the result", result)
        if not has_one_element(result):
            raise ShapeError(
                self.subject,
                f"the function returns {result.type}, a scalar is needed",
                hint="sum it, or take jac",
                source=user_source(),
            )
        return result


Derive = Callable[[TracedCall], Any]


def _gradients_of(call: TracedCall, y: Tensor) -> Any:
    return call.by_argument(lambda xs: gradients(y, xs, unconnected_gradients="zero"))


def _gradient_of(call: TracedCall) -> Any:
    return _gradients_of(call, call.scalar())


def _gradient_and_aux_of(call: TracedCall) -> Any:
    y, aux = call.scalar_and_aux()
    return _gradients_of(call, y), aux


def _value_and_gradient_of(call: TracedCall) -> Any:
    y = call.scalar()
    return y, _gradients_of(call, y)


def _value_aux_and_gradient_of(call: TracedCall) -> Any:
    y, aux = call.scalar_and_aux()
    return (y, aux), _gradients_of(call, y)


def _jacobian_of(call: TracedCall) -> Any:
    return map_leaves(lambda y: _jacobians(call, y), _floats(call))


def _hessian_of(call: TracedCall) -> Any:
    def second(y: Tensor) -> Any:
        return map_leaves(lambda first: _jacobians(call, first), _jacobians(call, y))

    return map_leaves(second, _floats(call))


def _floats(call: TracedCall) -> Any:
    """Return the results of the function, which must be floats."""
    ys = call.result()
    for y in flatten(ys)[0]:
        require_float(call.subject, "the result", y)
    return ys


def _jacobians(call: TracedCall, y: Tensor) -> Any:
    return call.by_argument(lambda xs: [jacobian(y, x) for x in xs])


def _derivative(subject: str, func: Func, argnums: int | Sequence[int], derive: Derive) -> Func:
    require_callables(subject, func=func)
    numbers = _positions(subject, argnums)
    options = (numbers, isinstance(argnums, int))
    return kept(_traced_derivative, subject, func, options, derive)


def _traced_derivative(
    subject: str, func: Func, options: tuple[tuple[int, ...], bool], derive: Derive
) -> Func:
    argnums, is_single = options

    @functools.wraps(func)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        return derive(TracedCall(subject, func, args, kwargs, argnums, is_single))

    compiled = Function(derivative)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return compiled(*_with_arrays(subject, args, argnums), **kwargs)

    return call


def kept(make: Callable[..., Func], *key: Any) -> Func:
    """Return `make(*key)`, which is kept for the next call with an equal key if that has a hash."""
    try:
        hash(key)
    except TypeError:
        return make(*key)
    return _made(make, *key)


@lru_cache(maxsize=_CACHE_SIZE)
def _made(make: Callable[..., Func], *key: Hashable) -> Func:
    return make(*key)


def _positions(subject: str, argnums: Any) -> tuple[int, ...]:
    given = argnums if isinstance(argnums, Sequence) else (argnums,)
    numbers = tuple(n for n in map(as_int, given) if n is not None)
    if len(numbers) < len(given):
        raise DTypeError(
            subject,
            f"argnums is {argnums!r}, neither an int nor a sequence of ints",
            source=user_source(),
        )
    return numbers


def _with_arrays(subject: str, args: tuple[Any, ...], argnums: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the arguments, with Python floats to differentiate by as arrays."""
    given = list(args)
    for number in argnums:
        if not -len(args) <= number < len(args):
            raise GraphError(
                subject,
                f"argnums has {number}, but {len(args)} arguments are given by position",
                source=user_source(),
            )
        if type(args[number]) is not np.ndarray:
            given[number] = map_leaves(with_array, args[number])
    return tuple(given)


def with_array(leaf: Any) -> Any:
    """Return `leaf`, a Python float or an array of another library as NumPy's array.

    A number would be compiled in.
    """
    # Like a constant of the same number; np.float64, which is a float too, stays what it is.
    return np.asarray(leaf, np.float32) if type(leaf) is float else as_numpy("grad", leaf)


def require_arguments(
    subject: str, func: Func, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raise `DTypeError` if `func` does not take such arguments."""
    try:
        signature = inspect.signature(func)
    except ValueError:  # of some functions that are not written in Python
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(func, "__name__", "the function")
        raise DTypeError(subject, f"{name}: {error}", source=user_source()) from error


def require_float(subject: str, label: str, value: Any) -> None:
    """Raise `DTypeError` unless `value` is a tensor of floats."""
    if not isinstance(value, Tensor):
        raise DTypeError(
            subject, f"{label} is {value!r}, not an array of floats", source=user_source()
        )
    if not value.dtype.is_trainable:
        raise DTypeError(
            subject,
            f"{label} is {value.type}, which has no derivatives",
            hint="convert it with astype",
            source=user_source(),
        )


def has_one_element(tensor: Tensor) -> bool:
    """Return whether a tensor has one element; an unknown size is never taken to be 1."""
    size: Dim = tensor.type.size
    return isinstance(size, int) and size == 1
