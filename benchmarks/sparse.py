"""What sparse derivatives cost, beside CasADi: the Jacobian of a bundle adjustment, a Hessian.

The residuals of a bundle adjustment are those of ADBench: two for each observation, which depend
on 11 numbers of a camera, 3 of a point and a weight, in one vector of parameters; there is a camera
for 100 observations. The chain is a sum of terms of two neighbours each, whose Hessian has three
diagonals. Every problem is measured in growing sizes: the time must grow as the non-zeros do, to
find the pattern and to compile as to run. CasADi is given the same formulas as expressions (SX)
and asked for `jacobian` and `hessian`, which find patterns and colours of their own. All is on one
core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.scaling import exponent
from benchmarks.timing import optional, pin_to_one_core
from symgrad.graph.types import Array

SIZES = (1_000, 10_000, 100_000)
MOST_GROWTH = 1.2  # the exponent of the time in the number of non-zeros
_LEAST_BUILT = 1  # times as fast as CasADi, to build; and to run
_LEAST_RUN = 2


@dataclass(frozen=True, slots=True)
class SparseProblem:
    """A function of a vector: `build(library, x, take, size)` gives residuals, or a sum."""

    name: str
    build: Callable[[Any, Any, Callable[[Any, Any], Any], int], Any]
    start: Callable[[int], Array]
    order: int  # 1: its Jacobian is computed, 2: its Hessian


def _counts(size: int) -> tuple[int, int]:
    return max(size // 100, 1), max(size // 5, 1)


def _residuals(library: Any, x: Any, take: Callable[[Any, Any], Any], size: int) -> Any:
    """Return by how much points are seen elsewhere than they are projected, weighted."""
    cameras, points = _counts(size)
    rng = np.random.default_rng(0)
    camera, point = rng.integers(0, cameras, size), rng.integers(0, points, size)
    seen = rng.normal(size=(2, size))
    c = [take(x, 11 * camera + i) for i in range(11)]
    moved = [take(x, 11 * cameras + 3 * point + i) - c[3 + i] for i in range(3)]
    weight = take(x, 11 * cameras + 3 * points + np.arange(size))
    angle = library.sqrt(c[0] * c[0] + c[1] * c[1] + c[2] * c[2])
    u, v, w = (axis / angle for axis in c[:3])
    cosine, sine = library.cos(angle), library.sin(angle)
    along = (u * moved[0] + v * moved[1] + w * moved[2]) * (1 - cosine)
    turned = (
        moved[0] * cosine + (v * moved[2] - w * moved[1]) * sine + u * along,
        moved[1] * cosine + (w * moved[0] - u * moved[2]) * sine + v * along,
        moved[2] * cosine + (u * moved[1] - v * moved[0]) * sine + w * along,
    )
    places = turned[0] / turned[2], turned[1] / turned[2]
    square = places[0] * places[0] + places[1] * places[1]
    distortion = (1 + c[9] * square + c[10] * square * square) * c[6]
    return [weight * (places[i] * distortion + c[7 + i] - seen[i]) for i in range(2)]


def _parameters(size: int) -> Array:
    cameras, points = _counts(size)
    rng = np.random.default_rng(1)
    usual = np.array([0.0, 0, 0, 0, 0, -5, 1, 0, 0, 0, 0])
    parts = usual + 0.1 * rng.normal(size=(cameras, 11)), rng.normal(size=(points, 3))
    return np.concatenate([*(part.reshape(-1) for part in parts), rng.random(size)])


def _chain(library: Any, x: Any, _take: Callable[[Any, Any], Any], _size: int) -> Any:
    terms = library.sin(x[1:]) * x[:-1]
    return [terms * terms]


PROBLEMS = (
    SparseProblem("bundle adjustment, Jacobian", _residuals, _parameters, 1),
    SparseProblem("chain, Hessian", _chain, lambda size: np.random.default_rng(0).random(size), 2),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a library takes for a problem: seconds to build and to run, and its non-zeros."""

    built: float
    run: float
    nonzeros: int


def _symgrad(problem: SparseProblem, size: int) -> Measured:
    start = problem.start(size)
    begin = time.perf_counter()
    x = sg.placeholder(start.shape, "float64")
    parts = problem.build(sg, x, lambda v, places: sg.take(v, places), size)
    found: sg.SparseTensor
    if problem.order == 1:
        found = sg.jacobian(sg.concat(parts), x, sparsity="auto")
    else:
        found = sg.hessian(sg.sum(sg.concat(parts)), x, sparsity="auto")
    step = sg.compile([x], found, cache=False)
    built = time.perf_counter() - begin
    return Measured(built, _least(lambda: step(start)), found.nnz)


def _casadi(problem: SparseProblem, size: int) -> Measured | None:
    casadi = optional("casadi")
    if casadi is None:
        return None
    start = problem.start(size)
    begin = time.perf_counter()
    x = casadi.SX.sym("x", len(start))
    parts = problem.build(casadi, x, lambda v, places: v[places.tolist()], size)
    if problem.order == 1:
        found = casadi.jacobian(casadi.vertcat(*parts), x)
    else:
        found = casadi.hessian(sum(casadi.sum1(part) for part in parts), x)[0]
    step = casadi.Function("step", [x], [found])
    built = time.perf_counter() - begin
    return Measured(built, _least(lambda: step(start)), int(found.nnz()))


def _least(call: Callable[[], object]) -> float:
    """Return the least seconds of some calls, of which the first is not counted."""
    call()
    spent = []
    for _ in range(5):
        begin = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begin)
    return min(spent)


def measure(quick: bool = False) -> Report:
    """Return seconds to build and milliseconds a run for each problem, size and library."""
    pin_to_one_core()
    columns = ("problem", "size", "non-zeros", "library", "s to build", "ms a run", "ns each")
    report = Report("sparse derivatives", columns)
    sizes = SIZES[:1] if quick else SIZES
    for problem in PROBLEMS:
        own = [_symgrad(problem, size) for size in sizes]
        others = [_casadi(problem, size) for size in sizes]
        for size, ours, theirs in zip(sizes, own, others, strict=True):
            report.rows.append(_row(problem.name, size, "symgrad", ours))
            report.rows += [] if theirs is None else [_row(problem.name, size, "CasADi", theirs)]
        if not quick:
            report.bars += _bars(problem.name, own, others[-1])
    if optional("casadi") is None:
        report.notes.append("casadi is not installed: its rows are missing.")
    return report


def _row(name: str, size: int, library: str, found: Measured) -> tuple[str | int | float, ...]:
    each = round(found.run / found.nonzeros * 1e9, 2)
    numbers = round(found.built, 3), round(found.run * 1e3, 3), each
    return (name, size, found.nonzeros, library, *numbers)


def _bars(name: str, own: Sequence[Measured], other: Measured | None) -> list[Bar]:
    # Fixed costs hide growth in the first size.
    counts = [found.nonzeros for found in own[1:]]
    bars = [
        Bar(f"{name}: growth of {what}", exponent(counts, seconds), MOST_GROWTH)
        for what, seconds in (
            ("the time to build", [found.built for found in own[1:]]),
            ("a run", [found.run for found in own[1:]]),
        )
    ]
    if other is not None:
        built, run = other.built / own[-1].built, other.run / own[-1].run
        bars += [
            Bar(f"{name}: times faster than CasADi to build", built, _LEAST_BUILT, at_least=True),
            Bar(f"{name}: times faster than CasADi to run", run, _LEAST_RUN, at_least=True),
        ]
    return bars


if __name__ == "__main__":
    run_as_program(__doc__, measure)
