"""Learn to draw handwritten digits: a variational autoencoder with convolutions.

An encoder makes a normal distribution over a few numbers of each scan, a decoder with transposed
convolutions makes scans of draws from it. Run it as
`python -m examples.vae --epochs 40 --out vae.png`.

D. P. Kingma, M. Welling, "Auto-encoding variational Bayes", 2013.
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
from examples.convnet import load_split

BATCH, SEED, RATE = 32, 1, 2e-3
CODE = 8  # numbers a scan is made of
BOUND = 25.0  # nats a test scan

Nest = Any  # weights: dicts of variables


def make_weights() -> Nest:
    """Make the variables of encoder and decoder, by the names of their layers."""
    shapes = {
        "encoder": {"strokes": (3, 3, 1, 32), "parts": (3, 3, 32, 64), "code": (256, 2 * CODE)},
        "decoder": {"code": (CODE, 256), "parts": (3, 3, 32, 64), "strokes": (3, 3, 1, 32)},
    }
    seeds = itertools.count(SEED)
    filters = {"code": -1, "parts": -2, "strokes": -2}  # of a transposed convolution the axis is

    def layer(part: str, name: str, shape: tuple[int, ...]) -> Nest:
        size = shape[filters[name] if part == "decoder" else -1]
        kernel = sg.nn.init.he_normal(shape, seed=next(seeds))
        return {"kernel": sg.variable(kernel), "bias": sg.variable(np.zeros(size, np.float32))}

    return {
        part: {name: layer(part, name, shape) for name, shape in layers.items()}
        for part, layers in shapes.items()
    }


def encode(w: Nest, scans: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
    """Return the mean and the logarithm of the variance of the code of each scan."""
    x = sg.nn.relu(sg.nn.conv2d(scans, **w["strokes"], strides=2, padding="SAME"))
    x = sg.nn.relu(sg.nn.conv2d(x, **w["parts"], strides=2, padding="SAME"))
    code = sg.nn.linear(x.reshape((x.shape[0], 256)), *w["code"].values())
    return code[:, :CODE], code[:, CODE:]


def decode(w: Nest, codes: sg.Tensor) -> sg.Tensor:
    """Return the logits of the pixels of a scan for each code."""
    x = sg.nn.relu(sg.nn.linear(codes, *w["code"].values())).reshape((codes.shape[0], 2, 2, 64))
    x = sg.nn.relu(sg.nn.conv_transpose(x, **w["parts"], strides=2, padding="SAME"))
    return sg.nn.conv_transpose(x, **w["strokes"], strides=2, padding="SAME")


def build_loss(w: Nest, scans: sg.Tensor, noise: sg.Tensor) -> sg.Tensor:
    """Return the bound on the nats a scan takes: those of its pixels and those of its code."""
    mean, log_variance = encode(w["encoder"], scans)
    logits = decode(w["decoder"], mean + noise * sg.exp(log_variance / 2))
    pixels = sg.nn.binary_cross_entropy_with_logits(logits, scans, reduction="sum")
    surplus = sg.sum(sg.exp(log_variance) + mean**2 - 1 - log_variance) / 2
    return (pixels + surplus) / scans.shape[0]


def draw(path: Path, losses: Any, tested: Any, pairs: Any, drawn: Any) -> None:
    """Draw the learning curve, scans above what the network makes of them, and scans of its own."""
    figure = Figure(figsize=(12, 4.5), layout="constrained")
    parts: Any = figure.subfigures(1, 2)
    left, right = parts
    curve, epochs = left.subplots(), len(tested) - 1
    means = np.reshape(losses, (epochs, -1)).mean(1)
    curve.plot(np.arange(epochs) + 0.5, means, color="tab:blue", label="training")
    curve.plot(tested, color="tab:red", marker=".", label="test")
    curve.set(xlabel="epoch", ylabel="nats a scan, at most", ylim=(None, tested[0] * 1.05))
    curve.grid(alpha=0.3)
    curve.legend()
    right.suptitle("scans, what becomes of them, and scans of the network's own")
    cells = right.subplots(6, 10)
    rows = [*(row for pair in pairs for row in pair), *drawn]
    for cell, image in zip(cells.flat, itertools.chain(*rows), strict=True):
        cell.imshow(image[:, :, 0], cmap="gray_r", vmin=0, vmax=1)
        cell.axis("off")
    figure.savefig(path)


def main() -> None:
    """Train, test and draw."""
    parser = argparse.ArgumentParser(description="Train a variational autoencoder on digits.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("vae.png"), help="the picture to write")
    options = parser.parse_args()
    train_x, test_x, _, _ = load_split()
    rng = np.random.default_rng(SEED)
    w = make_weights()

    # The noise of a step is drawn in it, by a generator whose state the program carries on.
    generator = sg.random.Generator(SEED)
    x = sg.placeholder((BATCH, 8, 8, 1), name="x")
    loss = build_loss(w, x, generator.normal((BATCH, CODE)))
    updates = [*sg.optim.Adam(lr=RATE).minimize(loss), generator.advance()]
    step = sg.compile([x], loss, updates=updates, name="train")
    scans = sg.placeholder((len(test_x), 8, 8, 1), name="scans")
    noise = sg.placeholder((len(test_x), CODE), name="noise")
    test = sg.compile([scans, noise], build_loss(w, scans, noise), name="test")
    normal = rng.normal(size=(len(test_x), CODE)).astype(np.float32)

    losses, tested = [], [test(test_x, normal)]
    began = time.perf_counter()
    for _ in (progress := trange(options.epochs, unit="epoch", disable=None)):
        batches = rng.permutation(len(train_x))[: len(train_x) // BATCH * BATCH].reshape(-1, BATCH)
        losses += [step(train_x[batch]) for batch in batches]
        tested.append(test(test_x, normal))
        progress.set_postfix(train=f"{np.mean(losses[-44:]):.2f}", test=f"{tested[-1]:.2f}")
    spent = time.perf_counter() - began

    codes = sg.placeholder((20, CODE), name="codes")
    paint = sg.compile([codes], sg.nn.sigmoid(decode(w["decoder"], codes)), name="paint")
    mean, _ = encode(w["encoder"], scans)
    made = paint(sg.compile([scans], mean)(test_x)[:20])
    own = paint(rng.normal(size=(20, CODE)).astype(np.float32))
    pairs = [(test_x[i : i + 10], made[i : i + 10]) for i in (0, 10)]
    draw(options.out, losses, tested, pairs, (own[:10], own[10:]))
    print(f"steps per second: {len(losses) / spent:,.0f}")
    print(f"nats a test scan: {tested[0]:.2f} before, {tested[-1]:.2f} after, {options.out}")
    if tested[-1] > BOUND:
        sys.exit(f"more than {BOUND} nats a scan")


if __name__ == "__main__":
    main()
