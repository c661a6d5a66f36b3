"""Work that leaves loops, or is kept for a later one: random choices of it change no result.

What pays is for prices to say, and small programs pay for little. So here the passes choose at
random, whatever is legal, and the reference of the program they make is held to that of the
program as it was built; recurrences with products run as native code too.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad import compiler
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from symgrad.graph.verify import verify
from symgrad.passes.calls.legalise import legalise
from symgrad.passes.loops import carry_sums, hoist_scanned, prepack, sink_sums
from symgrad.passes.loops import licm as licm
from symgrad.passes.loops import rematerialise as rematerialise
from symgrad.passes.loops.merge_loops import merge_loops
from symgrad.passes.loops.min_cut import NEVER
from symgrad.passes.loops.prune_loops import prune_loops
from symgrad.passes.pipeline import optimize
from symgrad.passes.table import Options
from symgrad.runtime.function import compile
from tests.fuzz.test_control_flow import LONG, random_program

SEEDS = range(12)
MORE_SEEDS = range(12, 1024)
RULES = ("rematerialise", "licm", "hoist-scanned", "sink-sums", "carry-sums", "prepack")
_TOLERANCE = 1e-9  # relative to the largest element, in float64


@contextmanager
def at_random(seed: int) -> Iterator[None]:
    """Have the passes choose at random among what they may do."""
    rng = np.random.default_rng(seed)

    def choose(
        nodes: Sequence[Node],
        _needed: Collection[Tensor],
        *,
        keep: Callable[[Tensor], int],
        **_prices: Any,
    ) -> dict[Tensor, None]:
        results = [t for node in nodes for t in node.outputs if keep(t) < NEVER]
        return dict.fromkeys(t for t in results if rng.integers(2))

    with pytest.MonkeyPatch.context() as patch:
        for module in (rematerialise, licm, hoist_scanned):
            patch.setattr(module, "cheapest_cut", choose)
        patch.setattr(hoist_scanned._Scanned, "_saved_by", lambda _self, _node: 1)
        patch.setattr(sink_sums, "_is_cheaper", lambda _stacked, _added: bool(rng.integers(2)))
        patch.setattr(carry_sums, "_is_cheaper", lambda *_prices: bool(rng.integers(2)))
        patch.setattr(prepack, "_pays", lambda _product, _rewrites: bool(rng.integers(2)))
        patch.setattr(compiler, "panel_bytes", lambda _target: 8)
        yield


def complaint(seed: int, fired: Counter[str]) -> str:
    """Return what is wrong with the program of a seed, '' if nothing is; count the rewrites."""
    graph, inputs = random_program(seed)
    options = Options(on_rewrite=lambda r: fired.update([r.rule]), panel_bytes=8, verify=True)
    with at_random(seed):
        changed = optimize(legalise(prune_loops(merge_loops(graph))), options=options)
    wanted, found = evaluate(graph, inputs)[0], evaluate(changed, inputs)[0]
    apart = _apart(wanted, found)
    return f"seed {seed}: {apart} apart\n{graph}" if apart else ""


def _apart(wanted: Sequence[Array], found: Sequence[Array]) -> float:
    """Return how far results are apart, 0 if no more than rounding may do."""
    for a, b in zip(wanted, found, strict=True):
        apart = float(np.abs(a - b).max(initial=0))
        if not apart <= _TOLERANCE * max(1.0, np.abs(a).max(initial=0)):
            return apart
    return 0.0


@pytest.mark.parametrize("seed", [LONG, *SEEDS[1:]])
def test_random_choices_change_no_result_of_a_random_program(seed):
    assert not complaint(seed, Counter())


@pytest.mark.slow
def test_random_choices_change_no_result_of_many_more():
    fired: Counter[str] = Counter()
    complaints = [complaint(seed, fired) for seed in MORE_SEEDS]
    assert not any(complaints), "\n".join(filter(None, complaints))
    assert fired["rematerialise"]
    assert fired["licm"]


# -------------------------------------------------------------------------------- recurrences

Cell = Callable[[Tensor, Tensor, Tensor, Tensor], Any]


def _dense(h: Tensor, x: Tensor, w: Tensor, u: Tensor) -> Any:
    return sg.tanh(x @ sg.exp(w) + h @ u)


def _branching(h: Tensor, x: Tensor, w: Tensor, u: Tensor) -> Any:
    return sg.cond(h.sum() > 0.0, lambda: sg.tanh(x @ w + h), lambda: sg.sin(h @ u + x @ w))


def _nested(h: Tensor, x: Tensor, w: Tensor, u: Tensor) -> Any:
    """Run a loop in the loop, with products that change in neither, in one and in both."""

    def inner(v: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        after = sg.tanh(v @ u + row @ sg.sin(w) + (x @ w)[0])
        return after, after

    last, all_of_them = sg.scan(inner, h[0], sg.tanh(x @ w))
    return h * last + all_of_them.sum(axis=0)


CELLS: dict[str, Cell] = {"dense": _dense, "branching": _branching, "nested": _nested}


def _scanned(cell: Cell, trips: int, reverse: bool, *given: Tensor) -> Any:
    xs, h, w, u = given
    last, ys = sg.scan(
        lambda v, x: ((after := cell(v, x, w, u)), after * x), h, xs[:trips], reverse=reverse
    )
    return last.sum() + (ys * ys).sum() + sg.sin(ys.sum(axis=(0, 1))).sum()


def _iterated(cell: Cell, trips: int, options: dict[str, Any], *given: Tensor) -> Any:
    xs, h, w, u = given
    _, last = sg.while_loop(
        lambda i, _: i < trips,
        lambda i, v: (i + 1, cell(v, sg.take(xs, i, axis=0), w, u)),
        (0, h),
        **options,
    )
    return (last * last).sum()


LOOPS: dict[str, Callable[..., Any]] = {
    "scan": lambda cell, trips, *given: _scanned(cell, trips, False, *given),
    "reverse": lambda cell, trips, *given: _scanned(cell, trips, True, *given),
    "bounded": lambda cell, trips, *given: _iterated(
        cell, trips, {"maximum_iterations": 4}, *given
    ),
    "tape": lambda cell, trips, *given: _iterated(cell, trips, {}, *given),
    "checkpoint": lambda cell, trips, *given: _iterated(
        cell, trips, {"maximum_iterations": 4, "checkpoint": 2}, *given
    ),
}


def _with_gradients(build: Callable[..., Tensor], order: int) -> tuple[list[Tensor], list[Tensor]]:
    given = [sg.placeholder(s, "float64") for s in ((4, 2, 3), (2, 3), (3, 3), (3, 3))]
    y = build(*given)
    outputs = [y]
    for _ in range(order):
        grads = [g for g in sg.gradients(y, given) if g is not None]
        outputs += grads
        y = sg.sum(sum((sg.sum(g * g) for g in grads[1:]), sg.sum(grads[0] * 1.5)))
    return given, outputs


def _arrays() -> list[Array]:
    rng = np.random.default_rng(3)
    return [rng.normal(scale=0.5, size=s) for s in ((4, 2, 3), (2, 3), (3, 3), (3, 3))]


@pytest.mark.parametrize("trips", [0, 1, 4])
@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("cell", ["dense", "branching"])
def test_random_choices_change_no_gradient_of_a_recurrence(cell, kind, trips):
    _check_recurrence(cell, kind, trips, 1)


# The two cells in turns, and the others.
_QUICK = list(zip(itertools.cycle(["dense", "branching"]), LOOPS, [4] * len(LOOPS)))
_SLOW = [c for c in itertools.product(["dense", "branching"], LOOPS, [0, 1, 4]) if c not in _QUICK]


@pytest.mark.parametrize(
    ("cell", "kind", "trips"),
    [*_QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in _SLOW)],
)
def test_random_choices_change_no_second_gradient_of_a_recurrence(cell, kind, trips):
    _check_recurrence(cell, kind, trips, 2)


@pytest.mark.parametrize("kind", LOOPS)
def test_random_choices_change_no_gradient_of_loops_in_loops(kind):
    _check_recurrence("nested", kind, 4, 1)


@pytest.mark.slow
@pytest.mark.parametrize("trips", [0, 1, 4])
@pytest.mark.parametrize("kind", LOOPS)
def test_random_choices_change_no_second_gradient_of_loops_in_loops(kind, trips):
    _check_recurrence("nested", kind, trips, 2)


def _check_recurrence(cell: str, kind: str, trips: int, order: int) -> None:
    given, outputs = _with_gradients(lambda *ts: LOOPS[kind](CELLS[cell], trips, *ts), order)
    graph = Graph(outputs, given)
    wanted, _ = evaluate(graph, _arrays())
    for seed in range(2):
        with at_random(seed):
            changed = optimize(prune_loops(merge_loops(graph)), options=Options(panel_bytes=8))
        verify(changed)
        assert not _apart(wanted, evaluate(changed, _arrays())[0])


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize(
    "cell", ["dense", *(pytest.param(c, marks=pytest.mark.slow) for c in CELLS if c != "dense")]
)
def test_native_code_computes_what_was_chosen_at_random(cell, kind):
    given, outputs = _with_gradients(lambda *ts: LOOPS[kind](CELLS[cell], 4, *ts), 1)
    wanted, _ = evaluate(Graph(outputs, given), _arrays())
    with at_random(7):
        step = compile(given, outputs, opt_level=1)
    assert not _apart(wanted, step(*_arrays()))


def test_every_pass_has_work_in_the_recurrences():
    fired: Counter[str] = Counter()
    options = Options(on_rewrite=lambda r: fired.update([r.rule]), panel_bytes=8)
    for cell in CELLS.values():
        given, outputs = _with_gradients(lambda *ts, c=cell: LOOPS["scan"](c, 4, *ts), 1)
        with at_random(1):
            optimize(prune_loops(merge_loops(Graph(outputs, given))), options=options)
    assert set(RULES) <= set(fired)
