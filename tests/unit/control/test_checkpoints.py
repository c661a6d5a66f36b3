"""Checkpoints of loops other than `while_loop`: the same results, and less memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.reference import evaluate

WEIGHTS = np.linspace(-0.5, 0.7, 4).reshape(2, 2)
START = np.array([0.3, -0.8])


def _scanned(length: int | None, **options: Any) -> list[Tensor]:
    """Return inputs, results and first and second derivatives of a recurrence."""
    w, c = sg.placeholder((2, 2), "float64"), sg.placeholder((2,), "float64")
    xs = sg.placeholder((length, 2), "float64")

    def step(v: Tensor, x: Tensor) -> Any:
        return sg.tanh(v @ w) + x, {"product": v * x, "sum": sg.sum(v)}

    carry, ys = sg.scan(step, c, xs, **options)
    total = sg.sum(carry * carry) + sg.sum(ys["product"] ** 2) + sg.sum(sg.sin(ys["sum"]))
    grads = sg.gradients(total, [w, c, xs])
    products = sg.hvp(total, [w, c], [w, c])
    return [w, c, xs, carry, ys["product"], ys["sum"], *grads, *products]


def _pair(length: int | None, reverse: bool, checkpoint: Any) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs, and the outputs without checkpoints and then with them."""
    plain = _scanned(length, reverse=reverse)
    kept = _scanned(length, reverse=reverse, checkpoint=checkpoint)
    return [*plain[:3], *kept[:3]], [*plain[3:], *kept[3:]]


def _check_same(results: Sequence[Any]) -> None:
    """Hold the second half to the first one: values to the bit, derivatives to rounding."""
    half = len(results) // 2
    wanted, found = results[:half], results[half:]
    for a, b in zip(found[:3], wanted[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(found[3:], wanted[3:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def _arrays(trips: int) -> list[Any]:
    return [WEIGHTS, START, np.linspace(-1, 1, 2 * trips).reshape(trips, 2)] * 2


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(("trips", "checkpoint"), [(0, 2), (2, 3), (6, 3), (7, 3)])
def test_a_scan_with_checkpoints_gives_the_same(reverse, is_known, trips, checkpoint):
    inputs, outputs = _pair(trips if is_known else None, reverse, checkpoint)
    results, _ = evaluate(Graph(outputs, inputs), _arrays(trips))
    _check_same(results)


def test_a_scan_of_unknown_length_is_compiled_with_checkpoints():
    inputs, outputs = _pair(None, True, 3)
    first = [t for i, t in enumerate(outputs) if i % 8 < 6]
    step = sg.compile(inputs, first)
    _check_same(step(*_arrays(5)))


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("checkpoint", [1, 3, 100, "sqrt"])
def test_a_fori_loop_with_checkpoints_gives_the_same_bits(is_known, checkpoint):
    x, n = sg.placeholder((2,), "float64"), sg.placeholder((), "int64")

    def outputs(upper: Any, **options: Any) -> list[Tensor]:
        step = lambda i, v: sg.sin(v) * sg.astype(i, "float64")  # noqa: E731
        y = sg.fori_loop(1, upper, step, x, **options)
        return [y, *sg.gradients(y, x)]

    for upper in (1, 2, 8):
        bound = upper if is_known else n
        pair = [*outputs(bound), *outputs(bound, checkpoint=checkpoint)]
        results, _ = evaluate(Graph(pair, [x, n]), [START, np.asarray(upper)])
        for wanted, found in zip(results[:2], results[2:], strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_fori_loop_of_unknown_length_is_compiled_with_checkpoints():
    x, n = sg.placeholder((2,), "float64"), sg.placeholder((), "int64")
    pair = [sg.fori_loop(0, n, lambda _, v: sg.sin(v) * x, x, checkpoint=k) for k in (None, 3)]
    step = sg.compile([x, n], [[y, *sg.gradients(y, x)] for y in pair])
    for trips in (0, 8):
        for wanted, found in zip(*step(START, trips), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_map_with_checkpoints_gives_the_same_bits():
    xs = sg.placeholder((7, 2), "float64")
    pairs = [sg.map(lambda x: sg.exp(x) @ x, xs, checkpoint=n) for n in (None, 3)]
    outputs = [[y, *sg.gradients(y, xs)] for y in pairs]
    wanted, found = sg.compile([xs], outputs)(np.linspace(-1, 1, 14).reshape(7, 2))
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])


def test_the_function_is_traced_as_often_as_without():
    calls: list[Tensor] = []

    def step(carry: Tensor, x: Tensor) -> Any:
        calls.append(x)
        return carry * x, carry

    for length in (7, None):
        sg.scan(step, sg.constant(1.0), sg.placeholder((length,)), checkpoint=2)
    assert len(calls) == 2


@pytest.mark.parametrize("kind", ["scan", "fori_loop"])
def test_checkpoints_save_memory(kind):
    x = sg.placeholder((50,), "float64")

    def arena(checkpoint: Any) -> int:
        if kind == "scan":
            step = lambda c, _: (sg.sin(c) * x, None)  # noqa: E731
            y, _ = sg.scan(step, x, length=900, checkpoint=checkpoint)
        else:
            y = sg.fori_loop(0, 900, lambda _, c: sg.sin(c) * x, x, checkpoint=checkpoint)
        return sg.compile([x], sg.gradients(y, x)).memory.arena_bytes

    whole = arena(None)
    assert whole > 900 * 50 * 8
    assert arena("sqrt") < 0.2 * whole


def test_arrays_of_tensors_pass_checkpoints():
    x = sg.placeholder((), "float64")

    def step(carry: Any, i: Tensor) -> Any:
        v, kept = carry
        return (v * x, kept.write(i, v)), v

    start = (x, sg.TensorArray(6, (), "float64"))
    (_, kept), ys = sg.scan(step, start, sg.arange(6), checkpoint=4)
    (g,) = sg.gradients([kept.stack(), ys], x)
    stack, same, slope = sg.run([kept.stack(), ys, g], {x: 2.0})
    np.testing.assert_array_equal(stack, 2.0 ** np.arange(1, 7))
    np.testing.assert_array_equal(same, stack)
    assert slope == 2 * sum(n * 2.0 ** (n - 1) for n in range(1, 7))


@pytest.mark.parametrize("checkpoint", [0, -1, True, 2.5, "half"])
def test_a_checkpoint_that_is_none_is_refused(checkpoint):
    xs = sg.placeholder((3,))
    what = r"checkpoint is .*, none of None, 'sqrt'"
    with pytest.raises(ValueError, match=rf"scan: {what}"):
        sg.scan(lambda c, x: (c, x), 0.0, xs, checkpoint=checkpoint)
    with pytest.raises(ValueError, match=rf"map: {what}"):
        sg.map(lambda x: x, xs, checkpoint=checkpoint)
    with pytest.raises(ValueError, match=rf"fori_loop: {what}"):
        sg.fori_loop(0, 3, lambda _, v: v, xs, checkpoint=checkpoint)
    with pytest.raises(ValueError, match=rf"associative_scan: {what}"):
        sg.associative_scan(sg.add, xs, checkpoint=checkpoint)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("size", "checkpoint"), [(1, 2), (2, 3), (6, 3), (7, 3), (7, "sqrt"), (3, 2)]
)
def test_an_associative_scan_in_segments_is_the_same(reverse, size, checkpoint):
    xs = sg.placeholder((2, size), "float64")
    signs = sg.constant(np.array([[1.0], [0.5]]))

    def joined(a: Any, b: Any) -> Any:  # of affine maps: it does not commute
        return {"scale": a["scale"] * b["scale"], "shift": a["shift"] * b["scale"] + b["shift"]}

    def outputs(**options: Any) -> list[Tensor]:
        maps = {"scale": sg.sin(xs), "shift": xs * signs}
        found = sg.associative_scan(joined, maps, axis=1, reverse=reverse, **options)
        total = sg.sum(found["shift"] ** 2)
        return [found["scale"], found["shift"], *sg.gradients(total, xs), *sg.hvp(total, xs, xs)]

    graph = Graph([*outputs(), *outputs(checkpoint=checkpoint)], [xs])
    results, _ = evaluate(graph, [np.linspace(-1.0, 1.5, 2 * size).reshape(2, size)])
    for found, wanted in zip(results[4:], results[:4], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


def test_an_associative_scan_of_unknown_length_takes_checkpoints():
    xs = sg.placeholder((None,), "float64")
    y = sg.associative_scan(sg.multiply, xs, checkpoint=2)
    y, slope = sg.run([y, *sg.gradients(y, xs)], {xs: np.array([1.0, 2.0, 3.0])})
    np.testing.assert_array_equal(y, [1, 2, 6])
    np.testing.assert_array_equal(slope, [9, 4, 2])


@pytest.mark.parametrize("trips", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("checkpoint", [2, 6])
def test_scalars_that_change_places_in_a_loop_of_one_segment(trips, checkpoint):
    x, y = sg.placeholder((), "float64"), sg.placeholder((), "float64")

    def swapped(_: Any, pair: Any) -> Any:
        return pair[1], pair[0]

    found = sg.fori_loop(0, trips, swapped, (x, y), checkpoint=checkpoint)
    step = sg.compile([x, y], [*found, *sg.gradients(found[0], [x, y])])
    values, slopes = step(0.25, 0.5)[:2], step(0.25, 0.5)[2:]
    assert [float(v) for v in values] == ([0.5, 0.25] if trips % 2 else [0.25, 0.5])
    assert [float(v) for v in slopes] == ([0, 1] if trips % 2 else [1, 0])


@pytest.mark.parametrize("checkpoint", [1, 3])
@pytest.mark.parametrize("order", [1, 2])
def test_vmap_of_gradients_of_segments_without_a_bound_takes_each_case_as_often_as_alone(
    checkpoint, order
):
    def derivative(x: Tensor, n: Tensor) -> Tensor:
        y: Tensor = sg.while_loop(
            lambda i, _: i < n,
            lambda i, v: (i + 1, sg.sin(v) * 1.1 + v * x),
            (sg.constant(0), x),
            checkpoint=checkpoint,
        )[1]
        for _ in range(order):
            y = sg.gradients(y, x)[0]
        return y

    arrays = np.array([0.3, 0.5, 0.7, 0.9]), np.array([3, 7, 0, 10], np.int32)
    one = sg.placeholder((), "float64"), sg.placeholder((), "int32")
    alone = sg.compile(one, derivative(*one))
    all_ = sg.placeholder((4,), "float64"), sg.placeholder((4,), "int32")
    found = sg.compile(all_, sg.vmap(derivative)(*all_))(*arrays)
    wanted = [alone(*case) for case in zip(*arrays, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
