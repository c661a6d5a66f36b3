"""Learn to read handwritten digits on several processes, each with its own part of every batch.

Run it as `mpiexec -n 2 python examples/distributed.py`. The weights are those of one process that
has whole batches, up to rounding; it is also what `python examples/distributed.py` runs.
"""

import argparse
import itertools
import sys
import time
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import symgrad as sg

LAYERS = (64, 128, 64, 10)  # pixels, two hidden layers, digits
BATCH = 32  # of all processes together
SEED = 1


def load_split() -> Any:
    """Return scans and labels to learn from, and those that are only read."""
    scans, labels = load_digits(return_X_y=True)
    scans = (scans / 16).astype(np.float32)
    return train_test_split(scans, labels, test_size=360, stratify=labels, random_state=SEED)


def network(scans: sg.Tensor, parameters: list[tuple[sg.Variable, sg.Variable]]) -> sg.Tensor:
    """Build the graph from pixels to ten logits."""
    hidden = scans
    for weight, bias in parameters[:-1]:
        hidden = sg.nn.relu(sg.nn.linear(hidden, weight, bias))
    return sg.nn.linear(hidden, *parameters[-1])


def main() -> None:
    """Train on all ranks; rank 0 says what came of it."""
    parser = argparse.ArgumentParser(description="Train a network on several processes.")
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    comm = sg.distributed.world()
    if BATCH % comm.size:
        sys.exit(f"{BATCH} samples cannot be shared by {comm.size} ranks")
    share = BATCH // comm.size
    train_x, test_x, train_y, test_y = load_split()

    # Each rank draws its own weights; `minimize` gives all ranks those of rank 0.
    rng = np.random.default_rng(comm.rank)
    parameters = [
        (
            sg.variable(rng.normal(0, np.sqrt(2 / n), (n, m)).astype("float32"), name=f"w{layer}"),
            sg.variable(np.zeros(m, "float32"), name=f"b{layer}"),
        )
        for layer, (n, m) in enumerate(itertools.pairwise(LAYERS))
    ]
    x, y = sg.placeholder((share, 64), name="x"), sg.placeholder((share,), "int64", name="y")
    loss = sg.nn.cross_entropy(network(x, parameters), y)
    updates = sg.optim.Adam(0.001).minimize(loss, data_parallel=comm)
    step = sg.compile([x, y], sg.distributed.all_reduce(loss, comm, "mean"), updates, name="train")
    scans = sg.placeholder(("n", 64), name="scans")
    predict = sg.compile([scans], sg.argmax(network(scans, parameters), axis=1), name="predict")

    order = np.random.default_rng(SEED)  # the same on all ranks, of which each takes its share
    losses: list[float] = []
    began = time.perf_counter()
    for _ in range(options.epochs):
        batches = order.permutation(len(train_x))[: len(train_x) // BATCH * BATCH]
        mine = batches.reshape(-1, comm.size, share)[:, comm.rank]
        losses += [float(step(train_x[batch], train_y[batch])) for batch in mine]
    speed = len(losses) / (time.perf_counter() - began)

    accuracy = np.mean(predict(test_x) == test_y)
    if comm.rank == 0:
        print(f"ranks: {comm.size}, steps per second: {speed:,.0f}")
        print(f"loss: {losses[-1]:.4f}, test accuracy: {accuracy:.2%}")
    if accuracy < 0.97:
        sys.exit("the accuracy is below 97 %")


if __name__ == "__main__":
    main()
