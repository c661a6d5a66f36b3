"""Random programs with collectives in loops, branches and functions, beside the one-rank program.

A seed is a program, built twice: of the values of one rank and of collectives, and of the values of
all ranks as rows of one matrix. Run by `python -m tests.distributed.random_programs first count`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

import symgrad as sg
from symgrad.compiler import CompileOptions, prepare
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable

D = sg.distributed
COMM = D.world()
RANK, SIZE = COMM.rank, COMM.size
RING = [(rank, (rank + 1) % SIZE) for rank in range(SIZE)]
DEPTH = 2

Array = Any


class World(Protocol):
    """What collectives are: `x` has one element for each rank, or a row of these for each."""

    def total(self, x: Any, op: str) -> Any: ...
    def from_root(self, x: Any, root: int) -> Any: ...
    def around(self, x: Any) -> Any: ...
    def exchanged(self, x: Any) -> Any: ...
    def own_part(self, x: Any) -> Any: ...
    def weighed(self, x: Any, weights: Array) -> Any: ...
    def decision(self, x: Any, limit: float) -> Any: ...


class Ranks:
    """The values of this rank, and collectives."""

    def total(self, x: Any, op: str) -> Any:
        return D.all_reduce(x, COMM, op)

    def from_root(self, x: Any, root: int) -> Any:
        return D.broadcast(x, COMM, root)

    def around(self, x: Any) -> Any:
        return D.send_recv(x, COMM, RING)

    def exchanged(self, x: Any) -> Any:
        return D.all_to_all(x, COMM)

    def own_part(self, x: Any) -> Any:
        return D.reduce_scatter(x, COMM) + 0 * x

    def weighed(self, x: Any, weights: Array) -> Any:
        return sg.constant(weights) @ D.all_gather(x, COMM)

    def decision(self, x: Any, limit: float) -> Any:
        return D.all_reduce(sg.sum(x), COMM) > limit


class Rows:
    """The values of all ranks, as rows of one matrix on one rank."""

    def total(self, x: Any, op: str) -> Any:
        return 0 * x + getattr(sg, op)(x, axis=0)

    def from_root(self, x: Any, root: int) -> Any:
        return 0 * x + x[root]

    def around(self, x: Any) -> Any:
        return sg.concat([x[SIZE - 1 :], x[: SIZE - 1]])

    def exchanged(self, x: Any) -> Any:
        return x.T

    def own_part(self, x: Any) -> Any:
        return sg.expand_dims(sg.sum(x, axis=0), 1) + 0 * x

    def weighed(self, x: Any, weights: Array) -> Any:
        return 0 * x + sg.constant(weights) @ x

    def decision(self, x: Any, limit: float) -> Any:
        return sg.sum(x) > limit


def value_of(world: World, x: Any, seed: int, depth: int = 0) -> Any:
    """Return what a random program makes of `x`; a choice depends on the seed alone."""
    random = np.random.default_rng([seed, depth])
    for number in range(int(random.integers(1, 4))):
        inner = seed * 7 + number
        kinds = 6 if depth == DEPTH else 10
        x = sg.tanh(_chosen(world, x, int(random.integers(kinds)), random, (inner, depth + 1)))
    return x


def _chosen(
    world: World, x: Any, kind: int, random: np.random.Generator, nested: tuple[int, int]
) -> Any:
    simple: list[Callable[[], Any]] = [
        lambda: x - world.total(x, ("sum", "mean", "max", "min")[int(random.integers(4))]),
        lambda: x * world.from_root(x, int(random.integers(SIZE))),
        lambda: world.around(x) + 0.5 * x,
        lambda: world.exchanged(x) * x,
        lambda: world.own_part(x) - x,
        lambda: world.weighed(x, random.normal(size=SIZE)) + x,
    ]
    if kind < len(simple):
        return simple[kind]()
    if kind == 6:
        limit = float(random.normal())
        return sg.cond(
            world.decision(x, limit),
            lambda: value_of(world, x, *nested),
            lambda: x + value_of(world, 2 * x, nested[0] + 3, nested[1]),
        )
    if kind == 7:
        return sg.while_loop(
            lambda i, a: sg.logical_and(i < 3, world.decision(a, -1.0)),
            lambda i, a: (i + 1, value_of(world, a, *nested)),
            (sg.constant(0), x),
            maximum_iterations=3,
        )[1]
    if kind == 8:
        return sg.while_loop(
            lambda i, _: i < 2,
            lambda i, a: (i + 1, x + value_of(world, a, *nested)),
            (sg.constant(0), x),
        )[1]
    function = sg.function(lambda a: value_of(world, a, *nested))
    return function(x) + function(2 * x)


def program(world: World, shape: tuple[int, ...], seed: int) -> tuple[Any, list[Any]]:
    """Return the input, and the results: a value and its gradient."""
    x = sg.placeholder(shape, "float64", name="x")
    y = value_of(world, x, seed)
    (dx,) = sg.gradients(sg.sum(y * y), x)
    return x, [y, dx]


def check(seed: int) -> None:
    """Compare the program of a seed with that of one rank: as it is compiled, and bisected."""
    given = np.random.default_rng(seed).normal(size=(SIZE, SIZE))
    x, results = program(Rows(), (SIZE, SIZE), seed)
    wanted = sg.compile([x], results, opt_level=0)(given)
    x, results = program(Ranks(), (SIZE,), seed)
    step = sg.compile([x], results, opt_level=seed % 2)
    compare(step(given[RANK]), wanted, f"seed {seed}")
    limit = int(np.random.default_rng(seed).integers(0, 40))
    found = bisected(step.graph, step.executable.options, limit, given[RANK])
    compare(found, wanted, f"seed {seed}, {limit} rewrites")


def bisected(graph: Any, options: CompileOptions, limit: int, given: Array) -> Any:
    """Run a graph of which passes make `limit` rewrites and no more."""
    passes = Options(bisect=limit)
    executable = Executable(prepare(graph, passes=passes), options, passes=passes)
    entry = executable.entry(
        name="bisected", single=False, slow_path=_refuse, into_slow_path=_refuse
    )
    return entry.call(np.ascontiguousarray(given))


def _refuse(*_arguments: object) -> None:
    raise AssertionError("the inputs are as the program takes them")


def compare(found: Any, wanted: Any, where: str) -> None:
    """Raise AssertionError unless this rank has its rows of what one rank has."""
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want[RANK], rtol=1e-7, atol=1e-9, err_msg=where)


def main(first: int, count: int) -> None:
    """Check the programs of `count` seeds from `first` on."""
    for seed in range(first, first + count):
        check(seed)
    sys.stdout.write(f"rank {RANK}: {count} programs\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
