"""Loops as users write them: `while_loop`, `fori_loop`, `scan` and `map`.

This reads arguments and traces the functions; the ops they become are `while_loop.py` and `scan.py`
in `symgrad/graph/ops/`. What a loop needs beside the loop variables of the user, such as a counter,
is a loop variable behind them, so that the numbers in messages are those of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from symgrad.errors import GraphError, ShapeError, user_source
from symgrad.frontend.control import (
    require_bool,
    require_callables,
    scalar_tensor,
    with_dtype,
)
from symgrad.frontend.growth import grow_for_loop, growing_leaves, require_no_growth
from symgrad.frontend.nests import Nest, describe, flatten, flatten_as, unflatten
from symgrad.frontend.range_trips import not_an_integer, read_range
from symgrad.frontend.segments import read_checkpoint, run_in_segments, scan_in_segments
from symgrad.frontend.user_functions import AnyFunction, called
from symgrad.frontend.while_trips import Trace
from symgrad.graph import dtypes
from symgrad.graph.given_arrays import as_int
from symgrad.graph.nested import Traced
from symgrad.graph.node import Range, Tensor
from symgrad.graph.operands import as_tensor, constant, made_by_numpy
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.comparison import less, logical_and
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.indexing import as_int64
from symgrad.graph.ops.marks import match_shape
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.while_loop import loop
from symgrad.graph.ranges import range_of
from symgrad.graph.sizes import Dim, Size
from symgrad.graph.types import UNBOUNDED, TensorType
from symgrad.suggestions import known_as

_SPREAD = "it is called as f(*loop_vars); a dict, or a nest within the list, is one argument"


@known_as("whileloop")
def while_loop(
    cond: AnyFunction,
    body: AnyFunction,
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
    nest like `loop_vars`. The loop ends after `maximum_iterations` at the latest; as an int it
    also bounds the memory a gradient takes. Without `back_prop` no gradient passes the loop.

    A gradient keeps the loop variables of every iteration. With `checkpoint`, it keeps those of
    every n-th, and computes the n iterations between two of them once more when it needs them: n
    is an int, or with "sqrt" the square root of `maximum_iterations`, and 1024 without a bound.
    The results are the same to the bit. `cond` is then traced twice.

    >>> sg.run(sg.while_loop(lambda i, x: x < 100, lambda i, x: (i + 1, x * 3), (0, 1.0)))
    (array(5, dtype=int32), array(243., dtype=float32))
    """
    require_callables("while_loop", cond=cond, body=body)
    arguments, nest = _as_arguments(loop_vars)
    initial = [as_tensor(leaf) for leaf in flatten(arguments)[0]]
    if not initial:
        raise GraphError("while_loop", "there are no loop variables", source=user_source())
    _check_invariants(shape_invariants, loop_vars, initial)
    bound, capacity = _read_bound(maximum_iterations)
    count = len(initial)

    def condition(*params: Tensor) -> Tensor:
        holds = _spread("cond", cond, unflatten(nest, params[:count]))
        test = scalar_tensor("while_loop", "cond", holds)
        require_bool("while_loop", "cond", test)
        if bound is None:
            return test
        return logical_and(test, less(params[count], as_tensor(bound, dtypes.int64)))

    def step(*params: Tensor) -> list[Tensor]:
        result = _spread("body", body, unflatten(nest, params[:count]))
        following = _following("while_loop", _as_arguments(result)[0], nest, initial)
        return following if bound is None else [*following, _next(params[count])]

    start = initial if bound is None else [*initial, constant(0, dtypes.int64)]
    growing = growing_leaves(arguments)
    trace_condition = _trace_of("cond", lambda *params: [condition(*params)])
    start, ranges = grow_for_loop(_trace_of("body", step), start, growing, trace_condition)
    if segment := read_checkpoint("while_loop", checkpoint, capacity):
        step = _in_segments(condition, step, segment, ranges)
        capacity = -(-capacity // segment)
    traced = trace_condition(start, {})
    body_traced = _trace_of("body", step)(start, ranges)
    require_no_growth("while_loop", body_traced, growing)
    node = loop(start, traced, body_traced, capacity, name)
    results = node.outputs[1 : 1 + count]
    return unflatten(flatten(loop_vars)[1], results if back_prop else _without_gradients(results))


def _spread(label: str, function: AnyFunction, arguments: Sequence[Any]) -> Any:
    """Return what a function of the loop variables gives."""
    return called("while_loop", label, function, arguments, _SPREAD)


def _without_gradients(results: Sequence[Tensor]) -> list[Tensor]:
    return [stop_gradient(t) if t.dtype.is_trainable else t for t in results]


def _as_arguments(values: Any) -> tuple[tuple[Any, ...], Nest]:
    """Return `values`, or its entries if it is a list or tuple, as arguments, and their nest."""
    arguments = tuple(values) if isinstance(values, list | tuple) else (values,)
    return arguments, flatten(arguments)[1]


def _check_invariants(invariants: Any, loop_vars: Any, initial: Sequence[Tensor]) -> None:
    """Raise unless each invariant is a shape its loop variable has; None leaves a size open."""
    if invariants is None:
        return
    nest = flatten(loop_vars)[1]
    try:
        shapes = flatten_as(nest, invariants)
    except ValueError as error:
        wanted = f"the nest {describe(nest)} of the loop variables"
        problem = f"shape_invariants do not have {wanted}: {error}"
        raise GraphError("while_loop", problem, source=user_source()) from error
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


def _read_bound(limit: Any) -> tuple[Tensor | int | None, int]:
    """Return the bound on the iterations, and the same as an int, 0 if it is not known now."""
    if limit is None:
        return None, 0
    if isinstance(limit, Tensor):
        if not limit.dtype.is_integer:
            raise not_an_integer("while_loop", "maximum_iterations", limit.type)
        if limit.ndim:
            raise _not_a_scalar(limit.type)
        return as_int64(limit), 0
    if made_by_numpy(limit).ndim:
        raise _not_a_scalar(repr(limit))
    most = as_int(limit)
    if most is None:
        raise not_an_integer("while_loop", "maximum_iterations", repr(limit))
    if most < 0:
        raise GraphError(
            "while_loop", f"maximum_iterations is {most}, less than 0", source=user_source()
        )
    return most, most


def _in_segments(
    condition: Callable[..., Tensor],
    step: Callable[..., list[Tensor]],
    length: int,
    ranges: Mapping[int, Range],
) -> Callable[..., list[Tensor]]:
    """Return a body that does up to `length` iterations, in a loop of its own.

    The gradient of the outer loop computes its body again, so the inner loop records no more than
    one segment at a time: nothing else is needed for checkpoints.
    """

    def segment(*params: Tensor) -> list[Tensor]:
        start = [*params, constant(0, dtypes.int64)]
        types = [t.type for t in start]

        def goes_on(*inner: Tensor) -> list[Tensor]:
            return [
                logical_and(condition(*inner[:-1]), less(inner[-1], constant(length, dtypes.int64)))
            ]

        def advance(*inner: Tensor) -> list[Tensor]:
            return [*step(*inner[:-1]), _next(inner[-1])]

        traced = _traced("segment_cond", types, start, goes_on)
        node = loop(start, traced, _traced("segment", types, start, advance, ranges), length)
        return list(node.outputs[1 : 1 + len(params)])

    return segment


def _not_a_scalar(given: object) -> ShapeError:
    return ShapeError(
        "while_loop", f"maximum_iterations is {given}, not a scalar", source=user_source()
    )


def _next(counter: Tensor) -> Tensor:
    return add(counter, constant(1, counter.dtype))


def _following(op: str, result: Any, nest: Nest, initial: Sequence[Tensor]) -> list[Tensor]:
    """Return what the body gave as the next loop variables, in the dtypes they have."""
    leaves, found = flatten(result)
    if found != nest:
        raise GraphError(
            op,
            f"the body gives {describe(found)}, and the loop variables are {describe(nest)}",
            source=user_source(),
        )
    return [with_dtype(v, t.dtype) for v, t in zip(leaves, initial, strict=True)]


def _traced(
    name: str,
    types: Sequence[TensorType],
    initial: Sequence[Tensor],
    function: Callable[..., Sequence[Tensor]],
    ranges: Mapping[int, Range] = MappingProxyType({}),
) -> Traced:
    """Call `function`, once, on what stands for tensors of `types`, first the loop variables.

    `ranges` are those of parameters that are known, by their positions.
    """
    traced = Traced(name, types)
    traced.region.ranges.update((traced.params[i], known) for i, known in ranges.items())
    traced.region.initials.update(zip(traced.params, initial, strict=False))
    traced.run(function)
    return traced


def _trace_of(name: str, function: Callable[..., Sequence[Tensor]]) -> Trace:
    """Return what traces `function` on loop variables, without slices."""
    return lambda start, ranges: _traced(name, [t.type for t in start], start, function, ranges)


def fori_loop(
    lower: Any, upper: Any, body: AnyFunction, init: Any, *, checkpoint: Any = None
) -> Any:
    """Return `init` after `value = body(i, value)` for i from `lower` up to, without, `upper`.

    The bounds are ints, sizes, or integer tensors. `body` returns the nest, dtypes and shapes of
    `init`. `checkpoint` is that of `scan`, and so is the gradient, which runs backwards. Raises
    `ShapeError` or `DTypeError` if the body gives others, and `DTypeError` for a bound that is no
    integer.

    >>> sg.run(sg.fori_loop(1, 5, lambda i, total: total + i, sg.constant(0, "int64")))
    array(10)
    """
    require_callables("fori_loop", body=body)
    start, count, capacity = read_range(lower, upper)
    leaves, nest = flatten(init)
    initial = [as_tensor(leaf) for leaf in leaves]

    def step(*params: Tensor) -> list[Tensor]:
        *values, i = params
        given = (i, unflatten(nest, values))
        result = called("fori_loop", "body", body, given, "it is called as body(i, value)")
        return [*_following("fori_loop", result, nest, initial), _next(i)]

    variables = [*initial, start]
    trace, growing = _trace_of("body", step), growing_leaves(init)
    trips = capacity if isinstance(capacity, int) and capacity != UNBOUNDED else None
    variables, ranges = grow_for_loop(trace, variables, growing, trips)
    traced = trace(variables, ranges)
    require_no_growth("fori_loop", traced, growing)
    segment = read_checkpoint("fori_loop", checkpoint, trips or 0)
    if not segment:
        results = list(scan_loop(count, variables, (), traced, capacity).outputs)
    elif trips is None:
        results = run_in_segments(count, variables, traced, segment)
    else:
        results = scan_in_segments(traced, variables, (), trips, segment, reverse=False)
    return unflatten(nest, results[: len(initial)])


def scan(
    f: AnyFunction,
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
    *,
    checkpoint: Any = None,
) -> tuple[Any, Any]:
    """Return the last carry and the stacked ys of `carry, y = f(carry, x)` over the slices of xs.

    The slices are along axis 0, from the last one on if `reverse`; each y stands where its x does.
    `xs` may be None if `length` says how often `f` runs. All of them may be nests.

    With `checkpoint`, a gradient keeps the carry of every n-th iteration and computes the n between
    two of them once more: n is an int, or with "sqrt" the square root of the number of iterations,
    1024 where that is not known. Results are the same to the bit; a gradient that adds up over the
    iterations may add in another order.

    >>> sg.run(sg.scan(lambda c, x: (c + x, c * x), 0.0, sg.constant([1.0, 2.0, 3.0])))
    (array(6., dtype=float32), array([0., 2., 9.], dtype=float32))
    """
    require_callables("scan", f=f)
    leaves, xs_nest = flatten(xs)
    given = [as_tensor(leaf) for leaf in leaves]
    trips = _trips(given, length)
    # Sizes that are unknown now are compared when the program is called.
    scanned = [match_shape(t, (trips, *t.shape[1:])) for t in given]
    leaves, nest = flatten(init)
    initial = [as_tensor(leaf) for leaf in leaves]
    width = len(initial)
    nests_of_y: list[Nest] = []

    def step(*params: Tensor) -> list[Tensor]:
        given = unflatten(nest, params[:width]), unflatten(xs_nest, params[width:])
        result = called("scan", "f", f, given, "it is called as f(carry, x)")
        if not isinstance(result, list | tuple) or len(result) != 2:
            raise GraphError("scan", f"f gives {result!r}, not (carry, y)", source=user_source())
        ys, nest_of_y = flatten(result[1])
        nests_of_y.append(nest_of_y)
        following = _following("scan", result[0], nest, initial)
        return [*following, *(as_tensor(y) for y in ys)]

    slices = [t.type.with_shape(t.shape[1:]) for t in scanned]
    known = ((width + i, range_of(t)) for i, t in enumerate(scanned))
    of_slices = {i: found for i, found in known if found is not None}

    def trace(start: Sequence[Tensor], ranges: Mapping[int, Range]) -> Traced:
        types = [*(t.type for t in start), *slices]
        return _traced("body", types, start, step, {**ranges, **of_slices})

    growing, known_trips = growing_leaves(init), trips if isinstance(trips, int) else None
    initial, ranges = grow_for_loop(trace, initial, growing, known_trips)
    traced = trace(initial, ranges)
    require_no_growth("scan", traced, growing)
    if not traced.outputs:
        return unflatten(nest, ()), unflatten(nests_of_y[0], ())
    segment = read_checkpoint("scan", checkpoint, known_trips or 0)
    results = scan_in_segments(traced, initial, scanned, trips, segment, reverse=reverse)
    return unflatten(nest, results[:width]), unflatten(nests_of_y[0], results[width:])


def _trips(xs: Sequence[Tensor], length: Any) -> Dim:
    """Return the size of axis 0 of all `xs`."""
    sizes: list[Dim] = []
    for tensor in xs:
        if not tensor.ndim:
            raise ShapeError("scan", f"{tensor!r} has no axis to scan", source=user_source())
        sizes.append(tensor.shape[0])
    if length is not None:
        size = length if isinstance(length, Size) else as_int(length)
        if size is None:
            raise not_an_integer("scan", "length", repr(length))
        sizes.append(size)
    if not sizes:
        raise GraphError("scan", "there are no xs and no length", source=user_source())
    known = sorted({n for n in sizes if isinstance(n, int)})
    if len(known) > 1 or (known and known[0] < 0):
        raise ShapeError("scan", f"xs and length are of sizes {known}", source=user_source())
    return known[0] if known else sizes[0]


def map(f: AnyFunction, xs: Any, *, checkpoint: Any = None) -> Any:
    """Return the stacked results of `f` for each slice of `xs` along axis 0.

    They are computed one after the other; `vmap` computes them at once. `xs` is a nest of tensors
    of one length, `f` returns a nest, and `checkpoint` is that of `scan`, as is the gradient.
    Raises `ShapeError` if lengths differ.

    >>> sg.run(sg.map(lambda row: sg.sum(row), sg.constant([[1.0, 2.0], [3.0, 4.0]])))
    array([3., 7.], dtype=float32)
    """
    require_callables("map", f=f)
    read_checkpoint("map", checkpoint, 0)
    return scan(lambda carry, x: (carry, f(x)), (), xs, checkpoint=checkpoint)[1]
