"""Train on several processes, each with its own part of every batch: digits, or a transformer.

Run it as `mpiexec -n 2 python examples/distributed.py`; `--network gpt` trains the transformer of
`examples/gpt.py` on Python's documentation. The weights are those of one process that has whole
batches, up to rounding, and with `--reproducible` bit for bit; one process is also what
`python examples/distributed.py` runs. With `--tensor-parallel` all processes have whole batches,
and each a block of the hidden layers. With `--checkpoint PATH` a run that was killed goes on, on
any number of processes, in either way.
"""

import argparse
import contextlib
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import symgrad as sg
from examples import gpt

LAYERS = (64, 128, 64, 10)  # pixels, two hidden layers, digits
BATCH = 32  # digits, of all processes together
SEED = 1
STEPS = {"digits": 1350, "gpt": 300}
EVERY = 50  # steps between checkpoints
# What is cut of a perceptron: columns of the first matrix, rows of the second.
CUT_AXES = {"widen": 1, "inner": 0, "narrow": 0}

Cut = Callable[[sg.Variable, int], sg.Variable]


@dataclass
class Task:
    """What is trained: a loss of inputs, of which `batch` gives those of a step for all ranks."""

    inputs: list[sg.Tensor]
    loss: sg.Tensor
    variables: Any
    rate: Any
    batch: Callable[[int], Any]
    judge: Callable[[], str]  # says how good it has become, or exits


def network(scans: sg.Tensor, parameters: list[tuple[sg.Variable, sg.Variable]]) -> sg.Tensor:
    """Build the graph from pixels to ten logits."""
    hidden = scans
    for weight, bias in parameters[:-1]:
        hidden = sg.nn.relu(sg.nn.linear(hidden, weight, bias))
    return sg.nn.linear(hidden, *parameters[-1])


def make_digits(seed: int, _steps: int, cut: Cut) -> Task:
    """Make the network that reads digits, of which the first hidden layer can be cut."""
    scans, labels = load_digits(return_X_y=True)
    scans = (scans / 16).astype(np.float32)
    train_x, test_x, train_y, test_y = train_test_split(
        scans, labels, test_size=360, stratify=labels, random_state=SEED
    )
    rng = np.random.default_rng(seed)
    parameters = [
        (
            sg.variable(rng.normal(0, np.sqrt(2 / n), (n, m)).astype("float32"), name=f"w{layer}"),
            sg.variable(np.zeros(m, "float32"), name=f"b{layer}"),
        )
        for layer, (n, m) in enumerate(itertools.pairwise(LAYERS))
    ]
    (widen, inner), (narrow, outer), last = parameters
    parameters = [(cut(widen, 1), cut(inner, 0)), (cut(narrow, 0), outer), last]
    x, y = sg.placeholder((None, 64), name="x"), sg.placeholder((None,), "int64", name="y")
    images = sg.placeholder(("n", 64), name="scans")
    predict = sg.compile([images], sg.argmax(network(images, parameters), axis=1), name="predict")
    in_epoch = len(train_x) // BATCH

    def batch(number: int) -> Any:
        order = np.random.default_rng((SEED, number // in_epoch)).permutation(len(train_x))
        chosen = order[number % in_epoch * BATCH :][:BATCH]
        return train_x[chosen], train_y[chosen]

    def judge() -> str:
        accuracy = np.mean(predict(test_x) == test_y)
        if accuracy < 0.97:
            sys.exit(f"the accuracy is {accuracy:.2%}, below 97 %")
        return f"test accuracy: {accuracy:.2%}"

    loss = sg.nn.cross_entropy(network(x, parameters), y)
    return Task([x, y], loss, parameters, 0.001, batch, judge)


def make_gpt(seed: int, steps: int, cut: Cut) -> Task:
    """Make the transformer that goes on with texts; the loss is in bits a character.

    Its perceptrons can be cut.
    """
    alphabet, train, test = gpt.read_text()
    weights = gpt.make_weights(np.random.default_rng(seed), len(alphabet))
    for block in weights["blocks"]:
        block |= {name: cut(block[name], axis) for name, axis in CUT_AXES.items()}
    text = sg.placeholder((None, gpt.CONTEXT + 1), "int64", name="text")
    logits = gpt.build_logits(weights, text[:, :-1])
    loss = sg.nn.cross_entropy(logits, text[:, 1:]) / np.log(2)
    evaluate = sg.compile([text], loss, name="evaluate")
    shares, _ = gpt.count_bits(train, test, len(alphabet))

    def texts(of: Any, seed: Any) -> Any:
        begins = np.random.default_rng(seed).integers(0, len(of) - gpt.CONTEXT, (gpt.BATCH, 1))
        return of[begins + gpt.INSIDE]

    def judge() -> str:
        bits = np.mean([evaluate(texts(test, number)) for number in range(gpt.TESTED)])
        if steps >= STEPS["gpt"] and bits > shares:
            sys.exit(f"a character takes {bits:.3f} bits, more than {shares:.3f} by shares alone")
        return f"bits a character of unseen text: {bits:.3f}"

    schedules = sg.optim.schedules
    rate = schedules.warmup(gpt.WARMUP, schedules.cosine(gpt.RATE, max(1, steps - gpt.WARMUP)))
    return Task([text], loss, weights, rate, lambda n: [texts(train, (SEED, n))], judge)


def main() -> None:
    """Train on all ranks; rank 0 says what came of it."""
    parser = argparse.ArgumentParser(description="Train a network on several processes.")
    parser.add_argument("--network", choices=STEPS, default="digits")
    parser.add_argument("--steps", type=int, help="of training")
    parser.add_argument("--reproducible", action="store_true", help="the bits of one process")
    parser.add_argument("--shard-state", action="store_true", help="share the optimizer's slots")
    parser.add_argument("--tensor-parallel", action="store_true", help="cut weights, not batches")
    parser.add_argument("--checkpoint", type=Path, help="a file to go on from, and to write")
    options = parser.parse_args()
    steps = options.steps or STEPS[options.network]
    comm = sg.distributed.world()

    def cut(weight: sg.Variable, axis: int) -> sg.Variable:
        return sg.distributed.shard(weight, axis, comm) if options.tensor_parallel else weight

    # Each rank draws its own weights, where `minimize` gives all ranks those of rank 0.
    seed = 0 if options.tensor_parallel else comm.rank
    task = {"digits": make_digits, "gpt": make_gpt}[options.network](seed, steps, cut)
    rows = len(task.batch(0)[0])
    if rows % comm.size:
        sys.exit(f"{rows} samples cannot be shared by {comm.size} ranks")
    share = slice(comm.rank * rows // comm.size, (comm.rank + 1) * rows // comm.size)
    adam = sg.optim.AdamW(task.rate)
    if options.tensor_parallel:
        share, mean = slice(None), task.loss
        updates = adam.minimize(task.loss, task.variables)
    else:
        updates = adam.minimize(
            task.loss,
            task.variables,
            data_parallel=comm,
            shard_state=options.shard_state,
            reproducible=options.reproducible,
        )
        mean = sg.distributed.all_reduce(task.loss, comm, "mean")
        mean = adam.loss if options.reproducible else mean
    step = sg.compile(task.inputs, mean, updates, name="train")

    checkpoints: Any = None
    if options.checkpoint is not None:
        state = {"weights": task.variables, "adam": adam.state}
        checkpoints = sg.distributed.Checkpoints(options.checkpoint, state, comm, every=EVERY)
    first, losses, began = checkpoints.restore() if checkpoints else 0, [], time.perf_counter()
    with checkpoints or contextlib.nullcontext():
        for number in range(first, steps):
            losses.append(float(step(*(array[share] for array in task.batch(number)))))
            if checkpoints:
                checkpoints.after(number + 1)
    speed = len(losses) / (time.perf_counter() - began)
    judged = task.judge()
    if comm.rank == 0:
        print(f"ranks: {comm.size}, steps per second: {speed:,.0f}")
        print(f"loss: {losses[-1] if losses else 0:.4f}, {judged}")


if __name__ == "__main__":
    main()
