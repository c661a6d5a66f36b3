"""Reproducible training: writes the bits of losses and parameters, to be compared between runs.

`python -m tests.distributed.reproducible_programs FILE` trains networks for 100 steps, each rank on
its part of the same batches, and rank 0 writes what came of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.refusals import assert_refused

COMM = sg.distributed.world()
RANK, SIZE = COMM.rank, COMM.size
STEPS, BATCH = 100, 24
PIECES = 4

Network = Callable[[sg.Tensor, list[sg.Variable]], sg.Tensor]


def variables(*shapes: tuple[int, ...], dtype: str = "float32") -> list[sg.Variable]:
    """Return variables that are drawn alike on all ranks."""
    random = np.random.default_rng(3)
    drawn = [random.normal(0, 0.3, shape).astype("float32") for shape in shapes]
    return [sg.variable(a, dtype, name=f"w{i}") for i, a in enumerate(drawn)]


def perceptron(x: sg.Tensor, ws: list[sg.Variable]) -> sg.Tensor:
    """Return logits of two layers, with a normalisation that adds along rows."""
    hidden = sg.nn.relu(x @ ws[0] + ws[1])
    return sg.nn.layer_norm(hidden, ws[2], ws[3]) @ ws[4]


GENERATOR = sg.random.Generator(5)


def dropped(x: sg.Tensor, ws: list[sg.Variable]) -> sg.Tensor:
    """Return logits of two layers, with draws of two kinds: each piece has the same."""
    hidden = sg.nn.dropout(sg.nn.relu(x @ ws[0]), 0.1, GENERATOR)
    noise = GENERATOR.normal(hidden.shape, std=0.01)
    return sg.nn.dropout(hidden + noise, 0.1, GENERATOR) @ ws[1]


def recurrent(x: sg.Tensor, ws: list[sg.Variable]) -> sg.Tensor:
    """Return logits of a loop over columns, whose gradient has sums over its iterations."""

    def turn(state: sg.Tensor, column: sg.Tensor) -> tuple[sg.Tensor, None]:
        return sg.tanh(state @ ws[0] + sg.expand_dims(column, axis=1) * ws[1]), None

    start = sg.zeros_like(x[:, :1]) + sg.zeros((1, 9))
    last: sg.Tensor = sg.scan(turn, start, sg.matrix_transpose(x))[0]
    return last @ ws[2]


def train(network: Network, ws: list[sg.Variable], optimizer: Any, **options: Any) -> list[Any]:
    """Return losses of 100 steps and what the variables are then."""
    x = sg.placeholder((None, 10), name="x")
    y = sg.placeholder((None,), "int64", name="y")
    scale = sg.placeholder((), name="scale")
    loss = sg.nn.cross_entropy(scale * sg.astype(network(x, ws), "float32"), y)
    chosen = [*ws, sg.variable(np.zeros(3, "float32"), name="unused")]
    updates = optimizer.minimize(loss, chosen, data_parallel=COMM, reproducible=PIECES, **options)
    step = sg.compile([x, y, scale], optimizer.loss, [*updates, GENERATOR.advance()])
    random = np.random.default_rng(4)
    rows = slice(RANK * BATCH // SIZE, (RANK + 1) * BATCH // SIZE)
    losses = []
    for _ in range(STEPS):
        inputs = random.normal(size=(BATCH, 10)).astype("float32")
        labels = np.argmax(inputs[:, :5] + inputs[:, 5:], axis=1)
        losses.append(step(inputs[rows], labels[rows], 1.5))
    assert losses[-1] < losses[0]
    return [*losses, *(w.value for w in ws)]


def check_against_whole(losses: list[Any]) -> None:
    """Compare with a step that has all samples at once, and no pieces."""
    x = sg.placeholder((None, 10), name="x")
    y = sg.placeholder((None,), "int64", name="y")
    ws = variables(*LAYERS)
    loss = sg.nn.cross_entropy(1.5 * perceptron(x, ws), y)
    step = sg.compile([x, y], loss, sg.optim.Adam(0.01).minimize(loss))
    random = np.random.default_rng(4)
    for found in losses[:3]:
        inputs = random.normal(size=(BATCH, 10)).astype("float32")
        labels = np.argmax(inputs[:, :5] + inputs[:, 5:], axis=1)
        np.testing.assert_allclose(step(inputs, labels), found, rtol=1e-4)


def refuse() -> None:
    """Refuse numbers of pieces, losses and batches that cannot be cut."""
    (w,) = variables((10,))
    sgd = sg.optim.SGD(0.1)
    x, fixed = sg.placeholder((None, 10), name="x"), sg.placeholder((8, 10), name="fixed")
    for loss, reproducible, problem in (
        (sg.mean(x @ w), 3, "reproducible is 3, no power of two"),
        (
            sg.mean(fixed @ w),
            True,
            "the loss depends on fixed: f32[8, 10], and on no batch that can be cut in pieces",
        ),
        (
            sg.mean(sg.distributed.all_reduce(x @ w, COMM)),
            True,
            "loss makes impure calls, whose results may depend on the number of ranks",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(f"SGD.minimize: {problem}")):
            sgd.minimize(loss, data_parallel=COMM, reproducible=reproducible)
    norms = sg.optim.LAMB(0.1)
    options: dict[str, Any] = {"data_parallel": COMM, "shard_state": True, "reproducible": True}
    assert_refused(lambda: norms.minimize(sg.mean(x @ w), **options), ValueError, """
        minimize: the norm of w0 is one of parts, whose bits depend on the ranks
          --> <here>
          hint: reproducible=True goes with norms without shard_state
    """)  # fmt: skip
    assert_refused(lambda: sgd.loss, ValueError, """
        SGD.loss: loss is that of minimize with reproducible=True
          --> <here>
    """)  # fmt: skip


LAYERS = ((10, 33), (33,), (33,), (33,), (33, 5))


def main(path: Path) -> None:
    """Train all networks; rank 0 writes their bits."""
    adam, lamb = sg.optim.Adam(0.01), sg.optim.LAMB(0.01)
    whole = train(perceptron, variables(*LAYERS), adam)
    check_against_whole(whole)
    results = [
        *whole,
        *train(perceptron, variables(*LAYERS, dtype="bfloat16"), lamb),
        *train(recurrent, variables((9, 9), (9,), (9, 5)), sg.optim.SGD(0.03, momentum=0.9)),
    ]
    results += train(dropped, variables((10, 20), (20, 5)), sg.optim.Adam(0.01))
    sharded = train(perceptron, variables(*LAYERS), sg.optim.Adam(0.01), shard_state=True)
    for here, there in zip(whole, sharded, strict=True):
        np.testing.assert_array_equal(here, there)
    refuse()
    content = b"".join(np.asarray(a).tobytes() for a in results)
    assert all(other == content for other in COMM.exchange(content))
    if RANK == 0:
        path.write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.write(f"rank {RANK} of {SIZE} has trained\n")
