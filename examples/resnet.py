"""Read handwritten digits by a residual network with batch norm, and take it out of Python.

It is trained and saved; restored into other variables, whose program for prediction is exported to
C; and read back as that library, which must give the same digits. Run it as
`python -m examples.resnet --epochs 8 --out resnet`.
"""

import argparse
import itertools
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from tqdm import trange

import symgrad as sg
from examples.convnet import load_split, shift

BATCH, SEED, RATE = 32, 1, 3e-3
WIDTHS = (16, 32, 64)  # of the stages, each at half of the resolution before
BOUND = 0.975  # of the test digits

Nest = Any  # weights: dicts and lists of variables


def make_conv(seeds: Any, window: int, inputs: int, outputs: int) -> Nest:
    """Make a kernel and a batch norm, which has running statistics beside its weights."""

    def vector(value: float, trainable: bool = True) -> sg.Variable:
        return sg.variable(np.full(outputs, value, np.float32), trainable=trainable)

    kernel = sg.nn.init.he_normal((window, window, inputs, outputs), seed=next(seeds))
    running = {"mean": vector(0, trainable=False), "variance": vector(1, trainable=False)}
    return {
        "kernel": sg.variable(kernel),
        "norm": {"scale": vector(1), "bias": vector(0)} | running,
    }


def make_weights() -> Nest:
    """Make the variables of the network."""
    seeds = itertools.count(SEED)
    blocks = []
    for inputs, outputs in zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False):
        block = {"first": make_conv(seeds, 3, inputs, outputs),
                 "second": make_conv(seeds, 3, outputs, outputs)}  # fmt: skip
        if inputs != outputs:
            block["short"] = make_conv(seeds, 1, inputs, outputs)
        blocks.append(block)
    last = sg.variable(sg.nn.init.glorot_uniform((WIDTHS[-1], 10), seed=next(seeds)))
    return {"stem": make_conv(seeds, 3, 1, WIDTHS[0]), "blocks": blocks, "last": last}


def network(w: Nest, scans: sg.Tensor, training: bool) -> tuple[sg.Tensor, list[Any]]:
    """Build the graph from scans to ten logits, and the updates of the running statistics."""
    updates: list[Any] = []

    def conv(layer: Nest, x: sg.Tensor, strides: int = 1) -> sg.Tensor:
        y = sg.nn.conv2d(x, layer["kernel"], strides=strides, padding="SAME")
        y, moved = sg.nn.batch_norm(y, **layer["norm"], training=training)
        updates.extend(moved)
        return y

    x = sg.nn.relu(conv(w["stem"], scans))
    for block in w["blocks"]:
        strides = 2 if "short" in block else 1
        y = sg.nn.relu(conv(block["first"], x, strides))
        short = conv(block["short"], x, strides) if "short" in block else x
        x = sg.nn.relu(conv(block["second"], y) + short)
    pooled = sg.mean(x, axis=(1, 2))
    return pooled @ w["last"], updates


def build_predict(w: Nest, count: int) -> sg.Step:
    """Compile the program that reads `count` scans, by the running statistics."""
    scans = sg.placeholder((count, 8, 8, 1), name="scans")
    logits, _ = network(w, scans, training=False)
    return sg.compile([scans], sg.argmax(logits, axis=1), name="predict")


def draw(path: Path, losses: Any, errors: Any, scans: Any, read: Any, labels: Any) -> None:
    """Draw the learning curve, and scans with what was read, first those that were misread."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.subplot_mosaic("C0123;C4567", width_ratios=(5, 1, 1, 1, 1))
    curve, epochs = axes.pop("C"), len(errors) - 1
    curve.plot(np.linspace(0, epochs, len(losses)), losses, linewidth=0.5, label="training")
    curve.plot(errors, color="tab:red", marker=".", label="share misread, test")
    curve.set(yscale="log", xlabel="epoch", title=f"{1 - errors[-1]:.1%} of the test digits read")
    curve.grid(alpha=0.3)
    curve.legend()
    shown = np.argsort(read == labels, kind="stable")
    for cell, i in zip(axes.values(), shown, strict=False):
        cell.imshow(scans[i, :, :, 0], cmap="gray_r")
        cell.set_title(f"{labels[i]}, read as {read[i]}", fontsize=10)
        cell.axis("off")
    figure.savefig(path)


def main() -> None:
    """Train, save, restore, export, and compare."""
    parser = argparse.ArgumentParser(description="Train a residual network, and export it to C.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("resnet"), help="the folder to write to")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    train_x, test_x, train_y, test_y = load_split()
    rng = np.random.default_rng(SEED)
    w = make_weights()

    x, y = sg.placeholder((BATCH, 8, 8, 1), name="x"), sg.placeholder((BATCH,), "int64", name="y")
    logits, statistics = network(w, x, training=True)
    loss = sg.nn.cross_entropy(logits, y)
    rate = sg.optim.schedules.cosine(RATE, max(options.epochs, 1) * (len(train_x) // BATCH))
    updates = sg.optim.AdamW(lr=rate, weight_decay=0.01).minimize(loss)
    step = sg.compile([x, y], loss, updates=[*updates, *statistics], name="train")
    predict = build_predict(w, len(test_x))

    losses, errors = [], [np.mean(predict(test_x) != test_y)]
    began = time.perf_counter()
    for _ in (progress := trange(options.epochs, unit="epoch", disable=None)):
        batches = rng.permutation(len(train_x))[: len(train_x) // BATCH * BATCH].reshape(-1, BATCH)
        losses += [step(shift(train_x[batch], rng), train_y[batch]) for batch in batches]
        errors.append(np.mean(predict(test_x) != test_y))
        progress.set_postfix(loss=f"{losses[-1]:.4f}", test=f"{1 - errors[-1]:.1%}")
    spent = time.perf_counter() - began

    sg.save(options.out / "resnet.safetensors", w)
    again = make_weights()
    sg.restore(options.out / "resnet.safetensors", again)
    restored = build_predict(again, len(test_x))
    restored.export(options.out / "resnet")
    library = sg.load(options.out / "resnet")
    read = predict(test_x)
    same = [np.array_equal(read, other(test_x)) for other in (restored, library["predict"])]
    draw(options.out / "resnet.png", losses, errors, test_x, read, test_y)
    print(f"steps per second: {len(losses) / spent:,.0f}")
    print(f"test accuracy: {1 - errors[-1]:.2%} of {len(test_y)}")
    print(f"the restored network reads the same: {same[0]}, the library in C: {same[1]}")
    if not all(same) or errors[-1] > 1 - BOUND:
        sys.exit(f"the accuracy is below {BOUND:.1%}, or what was exported differs")


if __name__ == "__main__":
    main()
