"""Weights that are cut over ranks: the results, the gradients and the training of one rank."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.refusals import assert_refused

COMM = sg.distributed.world()
RANK, SIZE = COMM.rank, COMM.size
Weights = dict[str, sg.Variable]
Build = Callable[[sg.Tensor, Weights], sg.Tensor]


class Model:
    """What is computed of rows of 8 features, its weights, and the axes that are cut."""

    def __init__(self, shapes: dict[str, Any], axes: dict[str, int], build: Build) -> None:
        self.shapes, self.axes, self.build = shapes, axes, build

    def weights(self, comm: Any, seed: int = 0) -> Weights:
        """Return variables, which are cut where `comm` is given; their values are of `seed`."""
        random = np.random.default_rng(seed)
        made = {
            name: sg.variable(random.normal(size=shape) / 2, name=name)
            for name, shape in self.shapes.items()
        }
        if comm is not None:
            for name, axis in self.axes.items():
                made[name] = sg.distributed.shard(made[name], axis, comm)
        return made


def mlp(x: sg.Tensor, w: Weights) -> sg.Tensor:
    return sg.tanh(x @ w["w"] + w["b"]) @ w["v"] + w["c"]


def block(x: sg.Tensor, w: Weights) -> sg.Tensor:
    """Return what a layer of a transformer makes of three words a row, with all that it reads."""
    words = sg.stack([x, 2 * x, sg.sin(x)], axis=1)
    normed = sg.nn.layer_norm(words, w["scale"], w["shift"])
    projections = (w["wq"], w["wk"], w["wv"], w["wo"])
    bias = (w["bq"], None, None, None)
    attended = sg.nn.multi_head_attention(
        normed, normed, normed, *projections, heads=4, bias=bias, causal=True
    )
    words = words + attended
    return words + sg.nn.gelu(words @ w["w"] + w["b"]) @ w["v"]


def gathered(x: sg.Tensor, w: Weights) -> sg.Tensor:
    """Return what is not computed of parts: an order, running sums, a loop, slices, maxima."""
    h = x @ w["w"]
    _, last = sg.scan(lambda c, row: (sg.tanh(c + row), c), h[0], h)
    parts = [sg.sort(h, axis=1), sg.cumulative_sum(h, axis=1), last]
    parts += [sg.broadcast_to(sg.max(h, axis=1, keepdims=True), h.shape)]
    parts += [sg.concat([h[:, 3:], h[:, :3]], axis=1), sg.flip(h, axis=1)]
    whole = sg.concat([sg.sum(p, axis=0, keepdims=True) for p in parts])
    chosen = sg.cond(sg.sum(whole) > 0, lambda: sg.sin(whole), lambda: sg.cos(whole))
    return sg.matmul(chosen, w["v"])


def rearranged(x: sg.Tensor, w: Weights) -> sg.Tensor:
    """Return what moves, splits and joins axes that are cut, and reads rows of a table."""
    h = sg.reshape(x @ w["w"], (-1, 4, 2))
    h = sg.permute_dims(h, (1, 0, 2)) * sg.reshape(w["b"], (4, 1, 2))
    h = sg.concat([h, sg.square(h)], axis=2)
    h = sg.pad(h, [(0, 0), (0, 1), (0, 0)])[:, :-1]
    h = sg.reshape(sg.permute_dims(h, (1, 0, 2)), (-1, 16))
    rows = w["table"][sg.astype(sg.abs(x[:, 0]) * 3, "int64") % 5]
    return sg.mean(h, axis=1, keepdims=True) * rows @ w["v"]


MLP = {"w": (8, 16), "b": (16,), "v": (16, 8), "c": (8,)}
BLOCK = {
    **{"scale": (8,), "shift": (8,), "w": (8, 16), "b": (16,), "v": (16, 8)},
    **{"wq": (8, 8), "wk": (8, 8), "wv": (8, 8), "wo": (8, 8), "bq": (8,)},
}
REARRANGED = {"w": (8, 8), "b": (8,), "v": (8, 8), "table": (5, 8)}
COLUMNS_AND_ROWS = {"w": 1, "b": 0, "v": 0}
MODELS = {
    "mlp": Model(MLP, COLUMNS_AND_ROWS, mlp),
    "mlp with a bias of all": Model(MLP, {"w": 1, "v": -2}, mlp),
    "mlp the other way": Model(MLP, {"w": 0, "v": 1}, mlp),
    "mlp of columns": Model(MLP, {"w": 1, "v": 1, "c": 0}, mlp),
    "block": Model(BLOCK, {**COLUMNS_AND_ROWS, "wq": 1, "wk": 1, "wv": 1, "wo": 0}, block),
    "gathered": Model({"w": (8, 8), "v": (8, 8)}, {"w": 1, "v": 0}, gathered),
    "rearranged": Model(REARRANGED, {"w": 1, "b": 0, "v": 0, "table": 1}, rearranged),
}


def clipped(gradients: Any) -> Any:
    return sg.optim.clip_by_global_norm(gradients, 0.5)


OPTIMIZERS: dict[str, Callable[[], sg.optim.Optimizer]] = {
    "adam": lambda: sg.optim.AdamW(0.05, weight_decay=0.1),
    "lars": lambda: sg.optim.LARS(1.0, weight_decay=0.1),
    "clipped": lambda: sg.optim.Accumulate(sg.optim.SGD(0.1, momentum=0.9), 2, clip=clipped),
}


class Training:
    """A step of training of a model, on the ranks of `comm` or on one, with all gradients."""

    def __init__(self, model: Model, optimizer: str, comm: Any, seed: int = 0) -> None:
        x, y = (sg.placeholder((None, 8), "float64", name=name) for name in "xy")
        self.weights = model.weights(comm, seed)
        self.optimizer = OPTIMIZERS[optimizer]()
        found = model.build(x, self.weights)
        loss = sg.mean((found - sg.mean(y)) ** 2)
        chosen = list(self.weights.values())
        gradients = sg.gradients(loss, [*chosen, x])
        updates = self.optimizer.minimize(loss, chosen)
        self.step = sg.compile([x, y], [found, loss, *gradients], updates, opt_level=0)

    def run(self, seed: int) -> Any:
        random = np.random.default_rng(seed)
        return self.step(random.normal(size=(6, 8)), random.normal(size=(6, 8)))

    def all(self) -> list[Any]:
        """Return what is saved."""
        return [self.weights, self.optimizer.state]


def check_equal(got: Training, wanted: Training, seed: int) -> None:
    """Compare what a step gives, which is whole on every rank."""
    for a, b in zip(got.run(seed), wanted.run(seed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def train(name: str, optimizer: str, folder: Path) -> None:
    """Train as on one rank; save one file, and go on from it on fewer ranks and on one."""
    model = MODELS[name]
    here, alone = Training(model, optimizer, COMM), Training(model, optimizer, None)
    for seed in range(4):
        check_equal(here, alone, seed)
    for key, axis in model.axes.items():
        blocks = np.split(alone.weights[key].value, SIZE, axis)
        np.testing.assert_allclose(here.weights[key].value, blocks[RANK], rtol=1e-9)
    path = folder / f"{name} {optimizer}.safetensors"
    sg.save(path, here.all())
    group = COMM.split(RANK // 2)
    fewer, one = Training(model, optimizer, group, 7), Training(model, optimizer, None, 8)
    for other in (fewer, one):
        sg.restore(path, other.all())
        other.run(9)
    alone.run(9)
    check_equal(fewer, alone, 10)
    one.run(10)
    check_equal(one, fewer, 11)


def calls_of(build: Build, axes: dict[str, int], *, trains: bool) -> Counter[str]:
    """Return how often a program calls each function of MPI."""
    model = Model(MLP if build is mlp else BLOCK, axes, build)
    x, weights = sg.placeholder((6, 8), "float64", name="x"), model.weights(COMM)
    found = build(x, weights)
    loss = sg.sum(found**2)
    updates = sg.optim.Adam(0.1).minimize(loss, list(weights.values())) if trains else []
    step = sg.compile([x], loss, updates, opt_level=0)
    calls = step.executable.program.native_calls
    return Counter(c.label.removeprefix("extern ") for c in calls if "MPI" in c.label)


def count_calls() -> None:
    """Put in as many collectives as Megatron has: a sum forward, and one backward for what led."""
    axes = MODELS["block"].axes
    assert calls_of(mlp, COLUMNS_AND_ROWS, trains=False) == {"MPI_Allreduce": 1}
    assert calls_of(mlp, COLUMNS_AND_ROWS, trains=True) == {"MPI_Allreduce": 1}
    sums = Counter({"MPI_Allreduce": 2})
    assert calls_of(block, {**axes, "bq": 0}, trains=False) == sums
    # Backward a sum for the gradient behind each half of the layer.
    assert calls_of(block, {**axes, "bq": 0}, trains=True) == sums + sums
    # Of a bias that all ranks have each reads its block, and the gradient is brought together.
    of_bias = Counter({"MPI_Comm_rank": 1, "MPI_Allgather": 1})
    assert calls_of(mlp, {"w": 1, "v": 0}, trains=True) == of_bias + Counter({"MPI_Allreduce": 1})


def check_memory() -> None:
    """Keep of each weight and its slots the block of the rank; say what is gathered, and why."""
    here, alone = (Training(MODELS["mlp of columns"], "adam", c) for c in (COMM, None))
    here.run(0)
    alone.run(0)
    cut = 8 * (8 * 16 + 16 * 8 + 8) * 3
    saved = alone.step.memory.state_bytes - here.step.memory.state_bytes
    assert saved == cut - cut // SIZE
    told = [str(decision) for decision in here.step.decisions if decision.rule == "place-shards"]
    assert any("gathered for <einsum" in line for line in told) == (SIZE > 1), told


def train_on_a_grid() -> None:
    """Cut weights over rows of a grid of ranks, and average gradients over its columns."""
    rows, columns = COMM.split(RANK // 2), COMM.split(RANK % 2)
    assert rows is not None
    assert columns is not None
    model, found = MODELS["mlp"], []
    samples = np.random.default_rng(4).normal(size=(8, 8))
    for over, along in ((rows, columns), (None, None)):
        x = sg.placeholder((None, 8), "float64", name="x")
        weights = model.weights(over)
        loss = sg.mean(model.build(x, weights) ** 2)
        updates = sg.optim.Adam(0.1).minimize(loss, list(weights.values()), data_parallel=along)
        step = sg.compile([x], loss, updates, opt_level=0)
        own = samples if along is None else np.split(samples, along.size)[along.rank]
        for _ in range(3):
            step(own)
        found.append(weights)
    here, alone = found
    for name, weight in here.items():
        axis = model.axes.get(name)
        blocks = [alone[name].value] * 2 if axis is None else np.split(alone[name].value, 2, axis)
        np.testing.assert_allclose(weight.value, blocks[rows.rank], rtol=1e-9)


def refuse(folder: Path) -> None:
    """Refuse what is no weight, and what ranks do not share; and values that differ."""
    w = sg.variable(np.ones((3, 4 * SIZE)), name="w")
    shard = sg.distributed.shard
    assert_refused(lambda: shard(w * 2, 1, COMM), TypeError, f"""
        shard: variable is {w * 2!r}, no real variable
          --> <here>
          hint: cut the weights: what is computed of them follows
    """)  # fmt: skip
    assert_refused(lambda: shard(w, 2, COMM), ValueError, f"""
        shard: axis 2 of {w!r}
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: shard(w, 0, COMM), ValueError, f"""
        shard: axis 0 of {w!r} has 3 elements, which {SIZE} ranks do not share evenly
          --> <here>
    """)  # fmt: skip
    cut = shard(w, 1, COMM)
    assert_refused(lambda: shard(cut, 1, COMM), ValueError, f"""
        shard: {cut!r} is cut already
          --> <here>
    """)  # fmt: skip
    own = sg.variable(np.full(3, RANK, "float64"), name="own")
    step = sg.compile([], own @ cut, opt_level=0)
    with pytest.raises(ValueError, match="all ranks compute parts of what is made of the variable"):
        step()
    own.value = np.ones(3)
    np.testing.assert_array_equal(step(), np.full(4 * SIZE, 3.0))
    moved = sg.compile([], [], sg.optim.SGD(0.1).apply_gradients([(cut * 0 + 1, cut)]), opt_level=0)
    with pytest.raises(sg.CompileError, match="parts of one rank of mpi_world, on which no step"):
        moved.export(folder / "net")


if __name__ == "__main__":
    rules = list(OPTIMIZERS)  # in turns, since a program is compiled on each of the ranks
    turns = [f"{m}/{rules[(i + SIZE) % len(rules)]}" for i, m in enumerate(MODELS)]
    for key in sys.argv[2:] or turns:
        chosen, rule = key.split("/")
        train(chosen, rule, Path(sys.argv[1]))
    if SIZE > 1:
        count_calls()
        refuse(Path(sys.argv[1]))
    if SIZE == 4:
        train_on_a_grid()
    check_memory()
    sys.stdout.write(f"rank {RANK} of {SIZE} has trained\n")
