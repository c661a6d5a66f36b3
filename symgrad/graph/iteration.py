"""Loops as users write them: `while_loop`, `fori_loop`, `scan` and `map`.

This reads arguments and traces the functions; the op they all become is in
`symgrad/graph/ops/control.py`. What a loop needs beside the loop variables of the user, such as a
counter, is a loop variable behind them, so that the numbers in messages are those of the user.
"""

from __future__ import annotations

from typing import Any

from symgrad.errors import CompileError, GraphError, user_source
from symgrad.graph import dtypes
from symgrad.graph.control import (
    Function,
    require_bool,
    require_callables,
    scalar_tensor,
)
from symgrad.graph.nests import flatten, unflatten
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, constant
from symgrad.graph.ops.arithmetic import add, subtract
from symgrad.graph.ops.comparison import less, logical_and
from symgrad.graph.ops.conversion import stop_gradient


def while_loop(
    cond: Function,
    body: Function,
    loop_vars: Any,
    shape_invariants: Any = None,
    maximum_iterations: Any = None,
    back_prop: bool = True,
    checkpoint: Any = None,
    name: str | None = None,
) -> Any:
    """Return the loop variables after `body` was applied to them for as long as `cond` holds.

    `loop_vars` is a list or tuple, whose entries are the arguments of both functions, or a single
    other nest. `body` returns new ones of the same nest, dtypes and shapes, and the result is a
    nest like `loop_vars`. A loop that is to be differentiated needs `maximum_iterations` as an
    int. Without `back_prop` the results are constants to a gradient.
    """
    require_callables("while_loop", cond=cond, body=body)
    if checkpoint is not None:
        raise CompileError(
            "while_loop", f"checkpoint is {checkpoint!r} and must be None", source=user_source()
        )
    arguments, nest = _as_arguments(loop_vars)
    initial = [as_tensor(leaf) for leaf in flatten(arguments)[0]]
    if not initial:
        raise GraphError("while_loop", "there are no loop variables", source=user_source())
    _check_invariants(shape_invariants, loop_vars, initial)
    bound, capacity = _read_bound(maximum_iterations)
    count = len(initial)

    def condition(*params: Tensor) -> Tensor:
        test = scalar_tensor("while_loop", "cond", cond(*unflatten(nest, params[:count])))
        require_bool("while_loop", "cond", test)
        return test if bound is None else logical_and(test, less(params[count], bound))

    def step(*params: Tensor) -> list[Tensor]:
        result = body(*unflatten(nest, params[:count]))
        following = _following("while_loop", _as_arguments(result)[0], nest, initial)
        return following if bound is None else [*following, _next(params[count])]

    hidden = [] if bound is None else [constant(0, dtypes.int64)]
    node = _iterate(condition, step, [*initial, *hidden], capacity, name)
    results = node.outputs[1 : 1 + count]
    if not back_prop:
        results = tuple(stop_gradient(t) if t.dtype.is_trainable else t for t in results)
    return unflatten(flatten(loop_vars)[1], results)


def _as_arguments(values: Any) -> tuple[tuple[Any, ...], Nest]:
    """Return `values`, or its entries if it is a list or tuple, as arguments, and their nest."""
    arguments = tuple(values) if isinstance(values, list | tuple) else (values,)
    return arguments, flatten(arguments)[1]


def _check_invariants(invariants: Any, loop_vars: Any, initial: Sequence[Tensor]) -> None:
    """Raise unless each invariant is a shape that its loop variable has; None leaves a size open."""
    if invariants is None:
        return
    nest = flatten(loop_vars)[1]
    try:
        shapes = flatten_as(nest, invariants)
    except ValueError as error:
        raise GraphError(
            "while_loop",
            f"shape_invariants do not have the nest {nest} of the loop variables: {error}",
            source=user_source(),
        ) from error
    for position, (shape, tensor) in enumerate(zip(shapes, initial, strict=True)):
        if shape is None:
            continue
        known = [(m, n) for m, n in zip(shape, tensor.shape, strict=False) if m is not None]
        is_other = any(m != n for m, n in known if isinstance(n, int))
        if len(shape) != tensor.ndim or is_other:
            raise ShapeError(
                "while_loop",
                f"loop variable {position} is {tensor.type}, its shape invariant {tuple(shape)}",
                source=user_source(),
            )


def _read_bound(maximum: Any) -> tuple[Tensor | None, int]:
    """Return the bound on the iterations as a tensor, and as an int, 0 if it is not known now."""
    if maximum is None:
        return None, 0
    if isinstance(maximum, Tensor):
        if not maximum.dtype.is_integer:
            raise _not_an_integer("while_loop", "maximum_iterations", maximum.type)
        return cast(scalar_tensor("while_loop", "maximum_iterations", maximum), dtypes.int64), 0
    if np.ndim(maximum) != 0:
        raise ShapeError(
            "while_loop", f"maximum_iterations is {maximum!r}, not a scalar", source=user_source()
        )
    if isinstance(maximum, bool) or not isinstance(maximum, int | np.integer):
        raise _not_an_integer("while_loop", "maximum_iterations", repr(maximum))
    if maximum < 0:
        raise GraphError(
            "while_loop", f"maximum_iterations is {maximum}, less than 0", source=user_source()
        )
    return constant(int(maximum), dtypes.int64), _capacity(int(maximum))


def _not_an_integer(op: str, label: str, given: object) -> DTypeError:
    return DTypeError(op, f"{label} is {given}, not an integer", source=user_source())


def _capacity(trips: int) -> int:
    """Return how many slices a loop of at most `trips` iterations may stack.

    It is never 0, which would say that nothing bounds the loop.
    """
    return max(1, trips)


def _next(counter: Tensor) -> Tensor:
    return add(counter, constant(1, counter.dtype))


def _following(op: str, result: Any, nest: Nest, initial: Sequence[Tensor]) -> list[Tensor]:
    """Return what the body gave as the next loop variables, in the dtypes they have."""
    leaves, found = flatten(result)
    if found != nest:
        raise GraphError(
            op,
            f"the body gives {found}, and the loop variables are {nest}",
            source=user_source(),
        )
    return [with_dtype(v, t.dtype) for v, t in zip(leaves, initial, strict=True)]


def _iterate(
    condition: Callable[..., Tensor],
    step: Callable[..., Sequence[Tensor]],
    initial: Sequence[Tensor],
    capacity: int,
    name: str | None = None,
) -> Node:
    """Trace both functions, once, on what stands for the loop variables, and make the loop."""
    types = [t.type for t in initial]
    traced = Traced("cond", types), Traced("body", types)
    for function in traced:
        function.region.initials.update(zip(function.params, initial, strict=True))
    traced[0].run(lambda *params: [condition(*params)])
    traced[1].run(step)
    return loop(initial, *traced, capacity, name)


def fori_loop(lower: Any, upper: Any, body: Function, init: Any) -> Any:
    """Return `init` after `value = body(i, value)` for i from `lower` up to, without, `upper`.

    The bounds are ints, or integer tensors; only a loop whose bounds are ints has a gradient.
    """
    require_callables("fori_loop", body=body)
    start, stop, capacity = _read_range(lower, upper)
    leaves, nest = flatten(init)
    initial = [as_tensor(leaf) for leaf in leaves]

    def step(*params: Tensor) -> list[Tensor]:
        *values, i = params
        result = body(i, unflatten(nest, values))
        return [*_following("fori_loop", result, nest, initial), _next(i)]

    node = _iterate(lambda *params: less(params[-1], stop), step, [*initial, start], capacity)
    return unflatten(nest, node.outputs[1:-1])


def _read_range(lower: Any, upper: Any) -> tuple[Tensor, Tensor, int]:
    """Return the bounds as tensors, and a bound on the iterations, 0 if it is not known now."""
    known = []
    for label, value in (("lower", lower), ("upper", upper)):
        if isinstance(value, Tensor):
            if not value.dtype.is_integer:
                raise _not_an_integer("fori_loop", label, value.type)
        elif isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise _not_an_integer("fori_loop", label, repr(value))
        else:
            known.append(int(value))
    if len(known) == 2:
        start, stop = (constant(value, dtypes.int64) for value in known)
        return start, stop, _capacity(known[1] - known[0])
    start, stop = (
        scalar_tensor("fori_loop", label, value)
        for label, value in zip(
            ("lower", "upper"), promote_operands("fori_loop", lower, upper), strict=True
        )
    )
    return start, stop, 0


def scan(
    f: Function, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Return the last carry and the stacked ys of `carry, y = f(carry, x)` over the slices of xs.

    The slices are along axis 0, from the last one on if `reverse`; each y stands where its x does.
    `xs` may be None if `length` says how often `f` runs. All of them may be nests.
    """
    require_callables("scan", f=f)
    slices, xs_nest = flatten(xs)
    trips = _trips([as_tensor(leaf) for leaf in slices], length)
    stacked = [
        match_shape(t, (trips, *t.shape[1:])) for t in (as_tensor(leaf) for leaf in slices)
    ]
    leaves, nest = flatten(init)
    initial = [as_tensor(leaf) for leaf in leaves]
    last = size_of(trips - 1)
    ys_nest: list[Nest] = []

    def step(*params: Tensor) -> list[Tensor]:
        *values, count = params
        at = subtract(last, count) if reverse else count
        x = unflatten(xs_nest, [take(t, at, axis=0) for t in stacked])
        result = f(unflatten(nest, values), x)
        if not isinstance(result, list | tuple) or len(result) != 2:
            raise GraphError("scan", f"f gives {result!r}, not (carry, y)", source=user_source())
        ys, y_nest = flatten(result[1])
        ys_nest.append(y_nest)
        following = _following("scan", result[0], nest, initial)
        return [*following, _next(count), *(as_tensor(y) for y in ys)]

    start = constant(0, dtypes.int64)
    node = _iterate(
        lambda *params: less(params[-1], size_of(trips)),
        step,
        [*initial, start],
        _capacity(trips) if isinstance(trips, int) else trips,
    )
    count = len(initial)
    ys = [_in_place(stack, trips, reverse) for stack in node.outputs[count + 2 :]]
    return unflatten(nest, node.outputs[1 : count + 1]), unflatten(ys_nest[0], ys)


def _trips(xs: Sequence[Tensor], length: int | None) -> Dim:
    """Return the size of axis 0 of all `xs`."""
    if any(not t.ndim for t in xs):
        scalar = next(t for t in xs if not t.ndim)
        raise ShapeError("scan", f"{scalar!r} has no axis to scan", source=user_source())
    sizes: list[Dim] = [t.shape[0] for t in xs]
    if length is not None:
        if isinstance(length, bool) or not isinstance(length, int | np.integer | Size):
            raise _not_an_integer("scan", "length", repr(length))
        sizes.append(length if isinstance(length, Size) else int(length))
    if not sizes:
        raise GraphError("scan", "there are no xs and no length", source=user_source())
    known = sorted({n for n in sizes if isinstance(n, int)})
    if len(known) > 1 or known and known[0] < 0:
        raise ShapeError("scan", f"xs and length are of sizes {known}", source=user_source())
    return known[0] if known else sizes[0]


def _in_place(stack: Tensor, trips: Dim, reverse: bool) -> Tensor:
    """Return what was stacked, in the order of xs and without the slice no iteration wrote."""
    if trips == 0:
        stop = (0, *stack.shape[1:])
        stack = slice_axes(stack, (0,) * stack.ndim, stop, (1,) * stack.ndim)
    return flip(stack, axis=0) if reverse else stack


def map(f: Function, xs: Any) -> Any:
    """Return the stacked results of `f` for each slice of `xs` along axis 0."""
    require_callables("map", f=f)
    return scan(lambda carry, x: (carry, f(x)), (), xs)[1]
