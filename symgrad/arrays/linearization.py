"""Linearization as function transformation, and its transposition: `linearize`, `jvp` and `vjp`.

`vjp` and `linearize` evaluate a function once and give, beside its results, a function that is
linear: what it needs of the evaluation is computed with the results and kept as residuals, so each
call costs the linear part alone. See `symgrad/passes/gradients/partial_evaluation.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.arrays.differentiate import kept, require_arguments, with_array
from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.frontend.control import require_callables
from symgrad.frontend.nests import (
    Nest,
    describe,
    flatten,
    flatten_as,
    leaf_names,
    map_leaves,
    register,
    unflatten,
)
from symgrad.functional import Function
from symgrad.graph.dtypes import as_dtype
from symgrad.graph.foreign_arrays import as_numpy
from symgrad.graph.graph import Graph
from symgrad.graph.nested import inline
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.conversion import identity
from symgrad.graph.ops.elementwise import filled_like, tangents_or_zeros
from symgrad.graph.types import TensorType
from symgrad.passes.gradients import forward_mode
from symgrad.passes.gradients.arguments import read_seed
from symgrad.passes.gradients.partial_evaluation import cut_out_linear
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.records import dataclass

Func = Callable[..., Any]


def vjp(func: Func, *xs: Any) -> tuple[Any, LinearFunction]:
    """Return `func(*xs)` and its vector-Jacobian product (VJP), a function `pull`.

    `pull(dys)` takes the nest of the results, with a gradient for each of their leaves, of its
    dtype and shape, or None for zeros; it returns a tuple with the nest of each x, the gradients of
    the sum of the results times `dys`. Zeros stand where nothing depends on an x, and for
    integers; a gradient of a result that is no float is ignored.

    Arrays come back for arrays: what `pull` needs is computed with ys, by one program, and kept as
    arrays, so it neither runs `func` again nor sees later values of variables. `sg.vmap(pull)`
    pulls many at once. Given tensors, both build graph, which may be differentiated in turn.

    Raises `DTypeError` for an x that is no array, and for a gradient of another dtype than its
    result; `GraphError` for a nest that does not fit, `ShapeError` for another shape.

    >>> ys, pull = sg.vjp(lambda a, b: a * b, np.float32([1.0, 2.0]), np.float32([3.0, 4.0]))
    >>> pull(np.ones_like(ys))
    (array([3., 4.], dtype=float32), array([1., 2.], dtype=float32))
    """
    return _linearized("vjp", _pull_of, func, xs)


def linearize(func: Func, *xs: Any) -> tuple[Any, LinearFunction]:
    """Return `func(*xs)` and its linearization, the Jacobian-vector product (JVP) `push`.

    `push(*tangents)` takes one tangent for each x, in its nest and of its dtypes and shapes, None
    for zeros, and returns how the results change to first order, in their nest. It computes no part
    of `func` again that it need not: it is `jvp` for many tangents at one place.

    Arrays and tensors are handled, and errors raised, as by `vjp`.

    >>> y, push = sg.linearize(lambda x: sg.sum(x**2), np.float32([1.0, 2.0]))
    >>> y, push(np.float32([1.0, 0.0])), push(np.float32([0.0, 1.0]))
    (array(5., dtype=float32), array(2., dtype=float32), array(4., dtype=float32))
    """
    return _linearized("linearize", _push_of, func, xs)


def jvp(ys: Any, xs: Any, tangents: Any) -> Any:
    """Return the Jacobian-vector product (JVP), of tensors or of a function.

    `jvp(ys, xs, tangents)` with tensors returns how `ys` change, to first order, along `tangents`:
    one for each x, of its dtype and shape, None for zeros. A result has the type of its y, and is
    zeros for one that does not depend on xs through floats and differentiable ops. Derivatives are
    total, as those of `gradients`. A list comes back for a tensor or a list of ys, and else their
    nest; `tangents` have the nest of `xs`.

    `jvp(f, primals, tangents)` with a function first returns the pair of `f(*primals)` and of its
    tangents, both in the nest of the results. Primals and tangents are tuples or lists with an
    entry for each argument. Arrays come back for arrays, and the function is traced once for each
    signature; tensors build graph.

    Raises `ValueError` for too few or too many tangents and for one of another shape than its x,
    `TypeError` for one of another dtype.

    >>> sg.jvp(sg.sin, (0.0,), (2.0,))
    (array(0., dtype=float32), array(2., dtype=float32))
    """
    if not callable(ys):
        return forward_mode.jvp(ys, xs, tangents)
    for label, value in (("primals", xs), ("tangents", tangents)):
        if not isinstance(value, tuple | list):
            raise DTypeError(
                "jvp",
                f"{label} is {value!r}, not a tuple or list with an entry for each argument",
                source=user_source(),
            )
    arguments = _read_arguments("jvp", xs)
    seats = _seats("jvp", "tangents", "primals", arguments)
    return kept(_traced_jvp, ys)(arguments, seats.read(tuple(tangents)))


def _traced_jvp(func: Func) -> Function:
    @functools.wraps(func)
    def pushed(primals: tuple[Any, ...], tangents: Sequence[Any]) -> Any:
        xs = flatten(primals)[0]
        given = _seats("jvp", "tangents", "primals", primals).checked(tangents, xs)
        ys, nest = _results("jvp", func, primals)
        return unflatten(nest, ys), unflatten(nest, forward_mode.jvp(ys, xs, given))

    return Function(pushed)


# ------------------------------------------------------------------------------- linear functions


@dataclass(frozen=True, slots=True)
class SeedSeats:
    """Where the seeds of a derivative go: the nest that they have, and what they belong to."""

    subject: str
    given: str
    like: str
    nest: Nest
    types: tuple[TensorType, ...]

    def read(self, values: Any) -> list[Any]:
        """Return the seeds in `values`: None for zeros and for integers, numbers as arrays."""
        try:
            seeds = flatten_as(self.nest, values)
        except ValueError as error:
            raise GraphError(
                self.subject,
                f"{self.given} are {describe(flatten(values)[1])}, "
                f"and {self.like} are {describe(self.nest)}",
                hint="None stands for zeros",
                source=user_source(),
            ) from error
        return list(map(_as_seed, seeds, self.types))

    def checked(self, seeds: Sequence[Any], likes: Sequence[Tensor]) -> list[Tensor | None]:
        """Return the seeds as tensors of the types of `likes`; raises where they are others."""
        tree = unflatten(self.nest, range(self.nest.num_leaves))
        names = zip(leaf_names(self.given, tree), leaf_names(self.like, tree), strict=True)
        return [
            None if seed is None else read_seed(f"{self.subject}: {given}", seed, label, like)
            for (given, label), seed, like in zip(names, seeds, likes, strict=True)
        ]


def _as_seed(value: Any, like: TensorType) -> Any:
    if value is None or not like.dtype.is_trainable:
        return None
    value = as_numpy("vjp", value)
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return value
    # A number of Python would be part of the signature.
    array = np.asarray(value)
    return array.astype(like.dtype.numpy) if array.dtype.kind in "if" else array


def _seats(subject: str, given: str, like: str, tree: Any) -> SeedSeats:
    """Return the seats for seeds like the leaves of `tree`, arrays or tensors."""
    leaves, nest = flatten(tree)
    types = (TensorType(as_dtype(leaf.dtype), leaf.shape) for leaf in leaves)
    return SeedSeats(subject, given, like, nest, tuple(types))


def _read_arguments(subject: str, xs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments with floats of Python as arrays; raises for what is no array."""
    arguments = tuple(map_leaves(with_array, x) for x in xs)
    for position, argument in enumerate(arguments):
        for name, leaf in zip(
            leaf_names(f"argument {position}", argument), flatten(argument)[0], strict=True
        ):
            if not isinstance(leaf, Tensor | np.ndarray | np.generic):
                raise DTypeError(
                    subject,
                    f"{name} is {leaf!r}, not an array",
                    hint="bind what is no array with functools.partial",
                    source=user_source(),
                )
    return arguments


def _results(subject: str, func: Func, args: tuple[Any, ...]) -> tuple[list[Tensor], Nest]:
    """Return the results of `func` as tensors, and their nest."""
    require_arguments(subject, func, args, {})
    leaves, nest = flatten(func(*args))
    return [as_tensor(leaf) for leaf in leaves], nest


class LinearProgram:
    """A linear function of seeds: a graph from residuals and then seeds, and how it is called.

    It is called with one nest of seeds, or if `is_variadic` with one argument for each entry.
    """

    __slots__ = ("_graph", "_results", "is_variadic", "run", "seats")

    def __init__(self, graph: Graph, seats: SeedSeats, results: Nest, *, is_variadic: bool) -> None:
        self._graph = graph
        self._results = results
        self.seats = seats
        self.is_variadic = is_variadic
        self.run = Function(self._build)

    def _build(self, residuals: Sequence[Tensor], seeds: Sequence[Any]) -> Any:
        likes = self._graph.inputs[len(residuals) :]
        filled = tangents_or_zeros(likes, self.seats.checked(seeds, likes))
        return unflatten(self._results, inline(self._graph, [*residuals, *filled]))


class LinearFunction:
    """What `vjp` and `linearize` return: a linear function at one place. It is a nest as well.

    So it may be an argument or a result of a function that is traced.
    """

    # One that is kept for the next call keeps its arrays, and the next call has others.
    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_program", "_residuals")

    def __init__(self, program: LinearProgram, residuals: Sequence[Any]) -> None:
        self._program = program
        self._residuals = tuple(residuals)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        seats = self._program.seats
        return f"<linear function of {seats.given}, of {seats.subject}>"

    def __call__(self, *given: Any) -> Any:
        """Apply it to the seeds."""
        seats = self._program.seats
        if self._program.is_variadic:
            seeds = seats.read(given)
        elif len(given) == 1:
            seeds = seats.read(given[0])
        else:
            raise GraphError(
                seats.subject,
                f"{len(given)} arguments are given, and {seats.given} are one nest",
                source=user_source(),
            )
        return self._program.run(list(self._residuals), seeds)

    def take_apart(self) -> tuple[tuple[Any, ...], LinearProgram]:
        """Return the children of the nest that this is, and what it is beside them."""
        return self._residuals, self._program


register(LinearFunction, LinearFunction.take_apart, LinearFunction)

Linearize = Callable[[tuple[Any, ...], Any], LinearFunction]


def _linearized(
    subject: str, linearize_at: Linearize, func: Func, xs: Sequence[Any]
) -> tuple[Any, LinearFunction]:
    require_callables(subject, func=func)
    arguments = _read_arguments(subject, xs)
    results, linear = kept(_traced_linearization, subject, linearize_at, func)(*arguments)
    return results, linear


def _traced_linearization(subject: str, linearize_at: Linearize, func: Func) -> Function:
    @functools.wraps(func)
    def linearized(*args: Any) -> tuple[Any, LinearFunction]:
        ys, nest = _results(subject, func, args)
        results = unflatten(nest, ys)
        return results, linearize_at(args, results)

    return Function(linearized)


def _pull_of(args: tuple[Any, ...], results: Any) -> LinearFunction:
    """Return the gradients of `args` as a function of those of `results`."""
    ys, (xs, nest) = flatten(results)[0], flatten(args)
    seeds = _open_seeds(ys)
    floats = [(y, seed) for y, seed in zip(ys, seeds, strict=True) if y.dtype.is_trainable]
    grads = gradients(
        [y for y, _ in floats],
        xs,
        grad_ys=[seed for _, seed in floats],
        unconnected_gradients="zero",
    )
    residuals, graph = cut_out_linear(grads, seeds)
    seats = _seats("vjp", "dys", "ys", results)
    return LinearFunction(LinearProgram(graph, seats, nest, is_variadic=False), residuals)


def _push_of(args: tuple[Any, ...], results: Any) -> LinearFunction:
    """Return the tangents of `results` as a function of those of `args`."""
    xs, (ys, nest) = flatten(args)[0], flatten(results)
    seeds = _open_seeds(xs)
    tangents = [seed if x.dtype.is_trainable else None for x, seed in zip(xs, seeds, strict=True)]
    residuals, graph = cut_out_linear(forward_mode.jvp(ys, xs, tangents), seeds)
    seats = _seats("linearize", "tangents", "xs", args)
    return LinearFunction(LinearProgram(graph, seats, nest, is_variadic=True), residuals)


def _open_seeds(likes: Sequence[Tensor]) -> list[Tensor]:
    """Return what stands for seeds: nodes of their own, which no rule takes to be zeros."""
    return [identity(filled_like(t, 0)) for t in likes]
