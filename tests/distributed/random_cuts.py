"""Random programs with weights that are cut along random axes: equal to those of one rank."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg

COMM = sg.distributed.world()
RANK, SIZE = COMM.rank, COMM.size
WIDTH, ROWS, LENGTH = 8, 6, 8

Move = Callable[[Any, Any, Any], Any]  # of rows, a matrix and a vector

MOVES: tuple[Move, ...] = (
    lambda x, w, b: x @ w,
    lambda x, w, b: x @ sg.permute_dims(w, (1, 0)),
    lambda x, w, b: x + b,
    lambda x, w, b: b * x,
    lambda x, w, b: sg.tanh(x @ w) + x,
    lambda x, w, b: sg.tanh(x),
    lambda x, w, b: sg.nn.softmax(x),
    lambda x, w, b: sg.nn.layer_norm(x, b),
    lambda x, w, b: x - sg.mean(x, axis=0),
    lambda x, w, b: x * sg.max(x, axis=1, keepdims=True),
    lambda x, w, b: sg.sum(sg.reshape(x, (-1, 4, 2)) * sg.reshape(b, (4, 2)), axis=2) @ w[:4],
    lambda x, w, b: sg.reshape(sg.permute_dims(sg.reshape(x, (-1, 2, 4)), (0, 2, 1)), (-1, WIDTH)),
    lambda x, w, b: sg.concat([x[:, :4], sg.sin(x[:, 4:])], axis=1),
    lambda x, w, b: sg.concat([x, x @ w], axis=0)[ROWS:],
    lambda x, w, b: sg.cumulative_sum(x, axis=0) / WIDTH,
    lambda x, w, b: sg.sort(x, axis=1),
    lambda x, w, b: sg.where(x > b, x, x @ w),
    lambda x, w, b: sg.einsum("nk,km,jm->nj", x, w, w) / WIDTH,
    lambda x, w, b: sg.tanh(x @ w) @ sg.flip(w, axis=1),
    lambda x, w, b: sg.pad(x, [(0, 0), (1, 1)])[:, :WIDTH] + w[3],
    lambda x, w, b: sg.matmul(sg.nn.softmax(x @ sg.permute_dims(x, (1, 0))), x) @ w,
    lambda x, w, b: sg.cond(sg.sum(x) > 0, lambda: x @ w, lambda: x),
)


def run(seed: int, comm: Any) -> list[Any]:
    """Return what a program gives, its gradients, and its weights after a step of training."""
    random = np.random.default_rng(seed)
    x = sg.placeholder((None, WIDTH), "float64", name="x")
    h = x
    chosen: list[sg.Variable] = []
    for number in range(LENGTH):
        shapes = {"w": (WIDTH, WIDTH), "b": (WIDTH,)}
        made = {k: sg.variable(random.normal(size=s), name=k) for k, s in shapes.items()}
        for name, weight in made.items():
            axis = int(random.integers(-1, weight.ndim))
            if comm is not None and axis >= 0:
                made[name] = sg.distributed.shard(weight, axis, comm)
        h = MOVES[random.integers(len(MOVES))](h, made["w"], made["b"])
        if number % 3 == 2:
            h = h / sg.sqrt(1 + sg.mean(h**2))
        chosen += made.values()
    loss = sg.mean(sg.sin(h))
    found = sg.gradients(loss, [*chosen, x])
    gradients = [g for g in found if g is not None]
    moved = [w for w, g in zip(chosen, found, strict=False) if g is not None]
    updates = sg.optim.Adam(0.1).minimize(loss, moved) if moved else []
    step = sg.compile([x], [h, loss, *gradients], updates, opt_level=0)
    rows = random.normal(size=(ROWS, WIDTH))
    return [*step(rows), *step(rows)]


def main(first: int, count: int) -> None:
    """Compare programs of so many seeds."""
    for seed in range(first, first + count):
        for got, want in zip(run(seed, COMM), run(seed, None), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9, err_msg=f"seed {seed}")
    sys.stdout.write(f"rank {RANK}: {count} programs\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
