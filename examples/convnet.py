"""Learn to read handwritten digits by convolution, as LeNet does: weights are a dict of variables.

Run it as `python examples/convnet.py --epochs 30 --out convnet.png`.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import trange

import symgrad as sg

BATCH = 32
SEED = 1
RATE = 2e-3
BOUND = 0.985  # of the test digits

Nest = Any  # weights: dicts of variables


def load_split() -> Any:
    """Return scans (n, 8, 8, 1) and labels: 1,437 to learn from, 360 that are only read."""
    scans, labels = load_digits(return_X_y=True)
    scans = (scans / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    return train_test_split(scans, labels, test_size=360, stratify=labels, random_state=SEED)


def make_layer(shape: tuple[int, ...], seed: int) -> Nest:
    """Make the kernel of a layer and its bias."""
    kernel = sg.variable(sg.nn.init.he_normal(shape, seed=seed))
    return {"kernel": kernel, "bias": sg.variable(np.zeros(shape[-1], np.float32))}


def make_weights() -> Nest:
    """Make the variables of the network, by the names of its layers."""
    shapes = {"strokes": (3, 3, 1, 32), "corners": (3, 3, 32, 32), "parts": (3, 3, 32, 64),
              "digits": (256, 10)}  # fmt: skip
    return {name: make_layer(shape, seed) for seed, (name, shape) in enumerate(shapes.items())}


def network(w: Nest, scans: sg.Tensor) -> sg.Tensor:
    """Build the graph from scans to ten logits."""
    x = sg.nn.relu(sg.nn.conv2d(scans, **w["strokes"], padding="SAME"))
    x = sg.nn.relu(sg.nn.conv2d(x, **w["corners"], padding="SAME"))
    x = sg.nn.max_pool(x, 2)
    x = sg.nn.relu(sg.nn.conv2d(x, **w["parts"], padding="SAME"))
    x = sg.nn.max_pool(x, 2)
    flat = x.reshape((x.shape[0], 256))
    return sg.nn.linear(flat, w["digits"]["kernel"], w["digits"]["bias"])


def shift(scans: Any, rng: np.random.Generator) -> Any:
    """Return scans, each moved by at most one pixel, so that none is learnt by heart."""
    padded = np.pad(scans, ((0, 0), (1, 1), (1, 1), (0, 0)))
    down, right = rng.integers(0, 3, (2, len(scans), 1, 1))
    rows, columns = np.arange(8)[:, None] + down, np.arange(8) + right
    return padded[np.arange(len(scans))[:, None, None], rows, columns]


def draw(path: Path, losses: Any, errors: Any, kernel: Any, maps: Any) -> None:
    """Draw the learning curve, what the first layer looks for, and where it finds that."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    parts: Any = figure.subfigures(1, 2)
    left, right = parts
    curve, epochs = left.subplots(), len(errors) - 1
    means = np.reshape(losses, (epochs, -1)).mean(1)
    curve.plot(np.arange(epochs) + 0.5, means, color="tab:blue", label="cross entropy, training")
    curve.plot(errors, color="tab:red", marker=".", label="share misread, test")
    curve.set(yscale="log", xlabel="epoch", title=f"{1 - errors[-1]:.1%} of the test digits read")
    curve.grid(alpha=0.3)
    curve.legend()
    right.suptitle("kernels of the first layer, and what they find in a scan")
    cells = right.subplots(4, 8)
    bound = np.abs(kernel).max()
    for number, cell in enumerate(cells.flat):
        chosen = number % 8 + number // 16 * 8
        if number // 8 % 2:
            cell.imshow(maps[:, :, chosen], cmap="gray_r")
        else:
            cell.imshow(kernel[:, :, 0, chosen], cmap="coolwarm", vmin=-bound, vmax=bound)
        cell.axis("off")
    figure.savefig(path)


def main() -> None:
    """Train, test and draw."""
    parser = argparse.ArgumentParser(description="Train a convolutional network on digits.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("convnet.png"), help="picture to write")
    options = parser.parse_args()
    train_x, test_x, train_y, test_y = load_split()
    rng = np.random.default_rng(SEED)
    w = make_weights()

    # One program trains, another one over the same variables reads as many scans as it is given.
    x, y = sg.placeholder((BATCH, 8, 8, 1), name="x"), sg.placeholder((BATCH,), "int64", name="y")
    loss = sg.nn.cross_entropy(network(w, x), y)
    steps = options.epochs * (len(train_x) // BATCH)
    rate = sg.optim.schedules.cosine(RATE, steps)
    step = sg.compile([x, y], loss, updates=sg.optim.Adam(lr=rate).minimize(loss), name="train")
    scans = sg.placeholder(("n", 8, 8, 1), name="scans")
    predict = sg.compile([scans], sg.argmax(network(w, scans), axis=1), name="predict")

    losses, errors = [], [np.mean(predict(test_x) != test_y)]
    began = time.perf_counter()
    for _ in (progress := trange(options.epochs, unit="epoch", disable=None)):
        batches = rng.permutation(len(train_x))[: len(train_x) // BATCH * BATCH].reshape(-1, BATCH)
        losses += [step(shift(train_x[batch], rng), train_y[batch]) for batch in batches]
        errors.append(np.mean(predict(test_x) != test_y))
        progress.set_postfix(loss=f"{losses[-1]:.4f}", test=f"{1 - errors[-1]:.1%}")
    rate_of_steps = len(losses) / (time.perf_counter() - began)

    first = sg.nn.relu(sg.nn.conv2d(scans, **w["strokes"], padding="SAME"))
    maps = sg.compile([scans], first)(test_x[:1])[0]
    draw(options.out, losses, errors, w["strokes"]["kernel"].value, maps)
    accuracy = 1 - errors[-1]
    print(f"steps per second: {rate_of_steps:,.0f}")
    print(f"test accuracy: {accuracy:.2%} of {len(test_y)}, {options.out}")
    if accuracy < BOUND:
        sys.exit(f"the accuracy is below {BOUND:.1%}")


if __name__ == "__main__":
    main()
