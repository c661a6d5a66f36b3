"""Random functions whose ways fork under `where`: what is not taken must not matter.

The oracle computes each element with its derivatives by hand, and only what is taken. Where it
meets nothing infinite, a gradient must be what it finds: whatever else was computed, on whatever
side, at whichever order, and in whatever region the functions stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.ops import masks
from symgrad.graph.reference import evaluate

Jet = tuple[float, float, float]  # a value, and its first and second derivative by x

POINT = np.array([0.0, -1.0, 1.0, 2.0, -0.5, 0.25])


# ------------------------------------------------------------------------------------ oracle


class _NotFiniteError(Exception):
    """Something that is taken is infinite, so that nothing is asked of the gradient there."""


def _checked(jet: Jet) -> Jet:
    if not all(map(math.isfinite, jet)) or max(map(abs, jet)) > 1e6:
        raise _NotFiniteError
    return jet


def _chain(v: Jet, value: float, slope: float, curvature: float) -> Jet:
    return _checked((value, slope * v[1], curvature * v[1] ** 2 + slope * v[2]))


def _jet_sqrt(v: Jet) -> Jet:
    if v[0] <= 0:
        raise _NotFiniteError
    root = math.sqrt(v[0])
    return _chain(v, root, 0.5 / root, -0.25 / root**3)


def _jet_log(v: Jet) -> Jet:
    if v[0] <= 0:
        raise _NotFiniteError
    return _chain(v, math.log(v[0]), 1 / v[0], -1 / v[0] ** 2)


def _jet_reciprocal(v: Jet) -> Jet:
    if v[0] == 0:
        raise _NotFiniteError
    return _chain(v, 1 / v[0], -1 / v[0] ** 2, 2 / v[0] ** 3)


def _jet_sin(v: Jet) -> Jet:
    return _chain(v, math.sin(v[0]), math.cos(v[0]), -math.sin(v[0]))


def _jet_add(v: Jet, w: Jet) -> Jet:
    return _checked((v[0] + w[0], v[1] + w[1], v[2] + w[2]))


def _jet_multiply(v: Jet, w: Jet) -> Jet:
    second = v[2] * w[0] + 2 * v[1] * w[1] + v[0] * w[2]
    return _checked((v[0] * w[0], v[1] * w[0] + v[0] * w[1], second))


_UNARY: tuple[tuple[Callable[[Any], Any], Callable[[Jet], Jet]], ...] = (
    (sg.sqrt, _jet_sqrt),
    (sg.log, _jet_log),
    (lambda v: 1.0 / v, _jet_reciprocal),
    (sg.sin, _jet_sin),
    (lambda v: v * 0.5, lambda v: _jet_multiply(v, (0.5, 0.0, 0.0))),
)
_BINARY: tuple[tuple[Callable[[Any, Any], Any], Callable[[Jet, Jet], Jet]], ...] = (
    (lambda v, w: v + w, _jet_add),
    (lambda v, w: v * w, _jet_multiply),
)


# ---------------------------------------------------------------------------- random functions


@dataclass(frozen=True)
class _Line:
    """One line of a function: which operation, of which earlier lines."""

    kind: str
    op: int
    operands: tuple[int, ...]
    limit: float


def random_lines(rng: np.random.Generator, arguments: int, length: int) -> list[_Line]:
    """Return a function of that many arguments; its last line is a choice, and most have forks."""
    lines = []
    for number in range(arguments, arguments + length):
        is_last = number == arguments + length - 1
        kind = "where" if is_last else str(rng.choice(["unary", "unary", "binary", "where"]))
        count = {"unary": 1, "binary": 2, "where": 3}[kind]
        op = int(rng.integers(len(_UNARY) if kind == "unary" else len(_BINARY)))
        operands = tuple(int(i) for i in rng.integers(max(0, number - 4), number, count))
        lines.append(_Line(kind, op, operands, float(rng.choice([-0.75, 0.0, 0.5]))))
    return lines


def build(lines: Sequence[_Line], *arguments: Any) -> Any:
    """Return the function as graph."""
    values = list(arguments)
    for line in lines:
        given = [values[i] for i in line.operands]
        if line.kind == "where":
            values.append(sg.where(given[0] > line.limit, given[1], given[2]))
        else:
            op = (_UNARY if line.kind == "unary" else _BINARY)[line.op][0]
            values.append(op(*given))
    return values[-1]


def taken(lines: Sequence[_Line], arguments: Sequence[Callable[[], Jet]]) -> Jet:
    """Return the function at one element, of which only what is taken is computed."""

    def at(number: int) -> Jet:
        if number < len(arguments):
            return arguments[number]()
        line = lines[number - len(arguments)]
        if line.kind == "where":
            test, left, right = line.operands
            return at(left if _value(test) > line.limit else right)
        op = (_UNARY if line.kind == "unary" else _BINARY)[line.op][1]
        return op(*(at(i) for i in line.operands))

    def _value(number: int) -> float:
        # A comparison has no derivative, so that of what it compares may be infinite.
        return at(number)[0]

    return at(len(arguments) + len(lines) - 1)


# ------------------------------------------------------------------------------------- regions

Stage = Callable[[Any, Any], Any]
Wrap = Callable[[Stage, Any, Any], Any]

_REGIONS: dict[str, Wrap] = {
    "plain": lambda f, v, x: f(v, x),
    "function": lambda f, v, x: sg.function(f)(v, x),
    "function that captures": lambda f, v, x: sg.function(lambda u: f(u, x))(v),
    "cond": lambda f, v, x: sg.cond(sg.sum(x) < 1e9, lambda: f(v, x), lambda: v * 2.0),
    "fori_loop": lambda f, v, x: sg.fori_loop(0, 1, lambda _i, u: f(u, x), v),
    "fori_loop of sums": lambda f, v, x: sg.fori_loop(
        0, 2, lambda _i, s: s + f(v, x) * 0.5, sg.zeros_like(x)
    ),
    "while_loop": lambda f, v, x: sg.while_loop(
        lambda i, _u: i < 1, lambda i, u: (i + 1, f(u, x)), (0, v)
    )[1],
    "bounded while_loop": lambda f, v, x: sg.while_loop(
        lambda i, _u: i < 1, lambda i, u: (i + 1, f(u, x)), (0, v), maximum_iterations=3
    )[1],
    "scan": lambda f, v, x: sg.scan(lambda c, e: (c, f(*e)), 0.0, (v, x))[1],
    "scan over reshapes": lambda f, v, x: sg.scan(
        lambda c, e: (c, f(*e)), 0.0, (sg.reshape(v, (3, 2)), sg.reshape(x, (3, 2)))
    )[1].reshape(6),
    "recompute": lambda f, v, x: sg.recompute_grad(f)(v, x),
    "reversed": lambda f, v, x: f(v[::-1], x[::-1])[::-1],
    "parts": lambda f, v, x: sg.concat([f(v[:2], x[:2]), f(v[2:], x[2:])]),
    "function in a loop": lambda f, v, x: sg.fori_loop(
        0, 1, lambda _i, u: sg.function(f)(u, x), v
    ),
    "loop in a cond": lambda f, v, x: sg.cond(
        sg.sum(x) < 1e9, lambda: sg.fori_loop(0, 1, lambda _i, u: f(u, x), v), lambda: x
    ),
}  # fmt: skip


def check(stages: Sequence[Sequence[_Line]], wraps: Sequence[Wrap]) -> int:
    """Compare first and second derivatives of the stages in a row; return how many were finite."""
    x = sg.placeholder(POINT.shape, "float64")
    y: Any = x
    for lines, wrap in zip(stages, wraps, strict=True):
        y = wrap(partial(build, lines), y, x)
    wanted = [_taken_by_stages(stages, float(at)) for at in POINT]
    first, second = _derivatives(y, x)
    # What derivatives mean, and not what LLVM makes of them.
    step = sg.compile([x], [first, second], opt_level=0)
    reference, _ = evaluate(Graph([first, second], [x]), [POINT])
    finite = 0
    for i, jet in enumerate(wanted):
        if jet is None:
            continue
        finite += 1
        for found in (step(POINT), reference):
            assert [found[0][i], found[1][i]] == pytest.approx(list(jet[1:]), rel=1e-6, abs=1e-7)
    return finite


def _derivatives(y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    (first,) = sg.gradients(y, x, unconnected_gradients="zero")
    assert first is not None
    (second,) = sg.gradients(first, x, unconnected_gradients="zero")
    assert second is not None
    return first, second


def _taken_by_stages(stages: Sequence[Sequence[_Line]], at: float) -> Jet | None:
    point = (at, 1.0, 0.0)

    def stage(number: int) -> Jet:
        if number < 0:
            return point
        return taken(stages[number], [lambda: stage(number - 1), lambda: point])

    try:
        return stage(len(stages) - 1)
    except _NotFiniteError:
        return None


@pytest.mark.parametrize(
    "seed", [*range(16), *(pytest.param(n, marks=pytest.mark.slow) for n in range(16, 60))]
)
def test_ways_that_fork_under_where(seed):
    rng = np.random.default_rng(seed)
    stages = [random_lines(rng, 2, int(rng.integers(3, 9))) for _ in range(2)]
    check(stages, [_REGIONS["plain"], _in_rows if seed % 2 else _REGIONS["plain"]])


def _in_rows(f: Stage, v: Any, x: Any) -> Any:
    """Return `f` of matrices, the columns of which are first in the vectors."""
    result = f(v.reshape(2, 3).T, x.reshape(2, 3).T)
    return result.T.reshape(6)


@pytest.mark.parametrize("seed", range(10))
def test_masks_that_are_made_one_condition_say_the_same(seed, monkeypatch):
    monkeypatch.setattr(masks, "_MOST_LITERALS", 1)  # a random function has few of them
    test_ways_that_fork_under_where(seed)


@pytest.mark.parametrize("inner", sorted(_REGIONS))
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_ways_that_fork_under_where_in_regions(inner, seed):
    rng = np.random.default_rng([seed, sorted(_REGIONS).index(inner)])
    stages = [random_lines(rng, 2, int(rng.integers(3, 8))) for _ in range(3)]
    others = [_REGIONS[str(rng.choice(sorted(_REGIONS)))] for _ in range(2)]
    check(stages, [others[0], _REGIONS[inner], others[1]])


def test_a_masked_gradient_waits_for_others_and_keeps_its_mask():
    x = sg.placeholder((3,), "float64")
    w = sg.variable(np.array([2.0, 3.0, 5.0]), name="w")
    again = sg.recompute_grad(lambda h: sg.where(h > 0, sg.sqrt(h) * w, 0.0))
    found = sg.gradients(again(x * 4.0), [x, w])
    by_x, by_w = sg.compile([x], found)(np.array([-1.0, 0.0, 1.0]))
    np.testing.assert_allclose(by_x, [0, 0, 5.0])
    np.testing.assert_allclose(by_w, [0, 0, 2.0])
