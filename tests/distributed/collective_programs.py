"""Programs of several ranks: what each collective gives, in graphs, branches, loops and functions.

Every rank runs all of it, knows what all ranks were given, and compares with NumPy. Run by
`mpiexec -n 2 python -m tests.distributed.collective_programs`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg

D = sg.distributed
COMM = D.world()
RANK, SIZE = COMM.rank, COMM.size
RING = [(rank, (rank + 1) % SIZE) for rank in range(SIZE)]
LINE = RING[:-1]

Array = Any
Collective = Callable[[Any], Any]


def given(dtype: str = "float32", shape: tuple[int, ...] = (3,)) -> list[Array]:
    """Return what each rank is given."""
    random = np.random.default_rng(1)
    return [np.asarray(random.integers(0, 9, shape), dtype) for _ in range(SIZE)]


def run(f: Collective, x: Array) -> Array:
    p = sg.placeholder(x.shape, x.dtype, name="x")
    return sg.compile([p], f(p), opt_level=1)(x)


# Each with what rank r gets of the operands of all ranks.
OF_ANY: list[tuple[Collective, Callable[[list[Array], int], Array]]] = [
    (lambda x: D.all_gather(x, COMM), lambda xs, r: np.stack(xs)),
    (lambda x: D.broadcast(x, COMM, SIZE - 1), lambda xs, r: xs[-1]),
    (lambda x: D.send_recv(x, COMM, RING), lambda xs, r: xs[r - 1]),
    (lambda x: D.send_recv(x, COMM, LINE), lambda xs, r: xs[r - 1] if r else 0 * xs[r]),
    (lambda x: D.send_recv(x, COMM, []), lambda xs, r: np.zeros_like(xs[r])),
    (lambda x: D.barrier(COMM, x), lambda xs, r: xs[r]),
]
OF_NUMBERS: list[tuple[Collective, Callable[[list[Array], int], Array]]] = [
    (lambda x: D.all_reduce(x, COMM), lambda xs, r: np.sum(xs, axis=0)),
    (lambda x: D.all_reduce(x, COMM, "mean"), lambda xs, r: np.mean(xs, axis=0)),
]
OF_ORDERED: list[tuple[Collective, Callable[[list[Array], int], Array]]] = [
    (lambda x: D.all_reduce(x, COMM, "max"), lambda xs, r: np.max(xs, axis=0)),
    (lambda x: D.all_reduce(x, COMM, "min"), lambda xs, r: np.min(xs, axis=0)),
]
OF_PARTS: list[tuple[Collective, Callable[[list[Array], int], Array]]] = [
    (lambda x: D.reduce_scatter(x, COMM), lambda xs, r: np.sum(xs, axis=0)[r]),
    (lambda x: D.all_to_all(x, COMM), lambda xs, r: np.stack([x[r] for x in xs])),
]
LINEAR = [f for f, _ in (*OF_ANY, *OF_NUMBERS)]
LINEAR_OF_PARTS = [f for f, _ in OF_PARTS]


def values() -> None:
    """All collectives in one program for each dtype, built in an order that no result says."""
    for dtype in ("float32", "float64", "float16", "int32", "int8", "uint64", "complex64", "bool"):
        small, parts = given(dtype), given(dtype, (SIZE, 2))
        rows = OF_ANY
        rows = rows if dtype == "bool" else rows + OF_NUMBERS
        rows = rows if dtype in ("bool", "complex64") else rows + OF_ORDERED
        on_parts = OF_PARTS[1:] if dtype == "bool" else OF_PARTS
        x = sg.placeholder((3,), dtype, name="x")
        y = sg.placeholder((SIZE, 2), dtype, name="y")
        results = [f(x) for f, _ in rows] + [f(y) for f, _ in on_parts]
        step = sg.compile([x, y], results[::-1], opt_level=0)
        got = step(small[RANK], parts[RANK])[::-1]
        want = [f(small, RANK) for _, f in rows] + [f(parts, RANK) for _, f in on_parts]
        for number, (a, b) in enumerate(zip(got, want, strict=True)):
            np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=f"{dtype} {number}")


def adjoints() -> None:
    """Check that over all ranks <w, L x> is <L' w, x>: the gradient is that of the sum of all."""
    rows = [(f, (3,)) for f in LINEAR] + [(f, (SIZE, 2)) for f in LINEAR_OF_PARTS]
    random = np.random.default_rng(RANK)
    for number, (f, shape) in enumerate(rows):
        x = sg.placeholder(shape, "float64", name="x")
        y = f(x)
        w = sg.placeholder(y.shape, "float64", name="w")
        (dx,) = sg.gradients(y, x, w)
        (twice,) = sg.gradients(dx, w, x)  # of a linear map that is the map itself
        a, b = random.normal(size=shape), random.normal(size=y.shape)
        ly, lw, again = sg.compile([x, w], [y, dx, twice], opt_level=0)(a, b)
        left, right = COMM.mpi.allreduce(np.sum(b * ly)), COMM.mpi.allreduce(np.sum(lw * a))
        np.testing.assert_allclose(left, right, err_msg=str(number))
        np.testing.assert_allclose(ly, again, err_msg=str(number))


def extremes() -> None:
    """Equal elements share the gradient; whoever is less gets none."""
    x = sg.placeholder((2,), "float64", name="x")
    (dx,) = sg.gradients(D.all_reduce(x, COMM, "max"), x)
    got = sg.compile([x], dx, opt_level=0)(np.array([5.0, RANK]))
    np.testing.assert_allclose(got, [1, SIZE * (RANK == SIZE - 1)])


def control_flow() -> None:
    xs = given("float64")

    def looped(x: Any) -> Any:
        return sg.while_loop(
            lambda i, a: i < 3,
            lambda i, a: (i + 1, D.all_reduce(a, COMM, "mean") + D.send_recv(a, COMM, RING)),
            (sg.constant(0), x),
        )[1]

    def want(values: list[Array]) -> list[Array]:
        for _ in range(3):
            mean = np.mean(values, axis=0)
            values = [mean + values[r - 1] for r in range(SIZE)]
        return values

    np.testing.assert_allclose(run(looped, xs[RANK]), want(xs)[RANK])
    x = sg.placeholder((3,), "float64", name="x")
    (dx,) = sg.gradients(looped(x), x)
    # Each column of the map sums to 2: mean and ring keep sums.
    np.testing.assert_allclose(sg.compile([x], dx, opt_level=1)(xs[RANK]), [8.0, 8.0, 8.0])

    @sg.function
    def doubled(a: Any) -> Any:
        return 2 * D.all_reduce(a, COMM)

    np.testing.assert_allclose(run(doubled, xs[RANK]), 2 * np.sum(xs, axis=0))
    batch = np.stack([xs[RANK], xs[RANK] + 1])
    total = np.sum(xs, axis=0)
    np.testing.assert_allclose(run(sg.vmap(doubled), batch), [2 * total, 2 * (total + SIZE)])
    branch = run(lambda x: sg.cond(sg.constant(True), lambda: doubled(x), lambda: x), xs[RANK])
    np.testing.assert_allclose(branch, 2 * total)


def unknown_sizes() -> None:
    x = sg.placeholder(("n",), name="x")
    step = sg.compile([x], D.all_gather(x, COMM), opt_level=0)
    for n in (2, 3):
        xs = given(shape=(n,))
        np.testing.assert_array_equal(step(xs[RANK]), np.stack(xs))


def groups() -> None:
    """Two groups of one split make equal programs, each with its own communicator."""
    half = COMM.split(RANK % 2)
    assert half is not None
    xs = given()
    got = run(lambda x: D.all_reduce(x, half), xs[RANK])
    np.testing.assert_array_equal(got, np.sum(xs[RANK % 2 :: 2], axis=0))
    backwards = COMM.split(0, key=-RANK)
    assert backwards is not None
    assert backwards.rank == SIZE - 1 - RANK
    np.testing.assert_array_equal(
        run(lambda x: D.all_reduce(D.broadcast(x, backwards), COMM), xs[RANK]), xs[-1] * SIZE
    )
    assert (COMM.split(None if RANK else 0) is None) == (RANK > 0)


def main() -> None:
    """Run all programs; whoever has done that says so."""
    for program in (values, adjoints, extremes, control_flow, unknown_sizes, groups):
        program()
    COMM.mpi.Barrier()
    sys.stdout.write(f"rank {RANK} of {SIZE} is done\n")


if __name__ == "__main__":
    main()
