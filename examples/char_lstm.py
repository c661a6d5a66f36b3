"""Learn to write like the Python documentation: an LSTM over characters, run by `sg.scan`.

Run it as `python examples/char_lstm.py --steps 1000 --out char_lstm.png`.
"""

import argparse
import sys
import time
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import symgrad as sg

HIDDEN, BATCH, LENGTH = 96, 32, 32
CLIP = 1.0  # the norm that the gradient of all weights together may have
BOUND = 2.6  # bits a character; the shares of the single characters alone take 4.7


def read_text() -> Any:
    """Return the alphabet, and the text as numbers: nine tenths to learn from, one to test on."""
    text = " ".join(w for name in sorted(topics) for w in topics[name].split() if w.isascii())
    alphabet = "".join(sorted(set(text)))
    return alphabet, *np.split([alphabet.index(c) for c in text], [len(text) * 9 // 10])


def make_weights(rng: np.random.Generator, n: int) -> Any:
    """Make the weights: a row for each of `n` characters, the recurrence and the way out."""
    shapes = {"read": (n, 4 * HIDDEN), "recur": (HIDDEN, 4 * HIDDEN), "write": (HIDDEN, n)}
    arrays = {name: rng.normal(0, HIDDEN**-0.5, shape) for name, shape in shapes.items()}
    return {name: sg.variable(a.astype(np.float32), name=name) for name, a in arrays.items()}


def lstm(w: Any, state: Any, row: sg.Tensor) -> Any:
    """Return the state after a character whose row of `read` is `row`."""
    h, c = state
    i, f, o, g = sg.split(row + h @ w["recur"], 4, axis=1)
    c = sg.sigmoid(f + 1) * c + sg.sigmoid(i) * sg.tanh(g)
    return sg.sigmoid(o) * sg.tanh(c), c


def build_loss(w: Any, text: sg.Tensor) -> Any:
    """Return the cross entropy of the next characters of `text`, (time, batch), in bits."""

    def step(state: Any, row: sg.Tensor) -> Any:
        state = lstm(w, state, row)
        return state, state[0]

    with sg.name_scope("recurrence"):
        rows = sg.take(w["read"], text[:-1], axis=0)
        _, hidden = sg.scan(step, (sg.zeros((BATCH, HIDDEN)),) * 2, rows)
    with sg.name_scope("loss"):
        return sg.nn.cross_entropy(hidden @ w["write"], text[1:]) / np.log(2)


def build_sample(w: Any, noise: sg.Tensor) -> Any:
    """Return characters drawn one after another: each the largest of logits and Gumbel noise."""

    def step(carry: Any, row: sg.Tensor) -> Any:
        state = lstm(w, carry[0], sg.take(w["read"], carry[1], axis=0))
        drawn = sg.argmax(state[0] @ w["write"] + row, axis=1)
        return (state, drawn), drawn

    return sg.scan(step, ((sg.zeros((1, HIDDEN)),) * 2, sg.zeros((1,), "int64")), noise)[1]


def draw(path: Path, losses: Any, bits: float) -> None:
    """Draw the learning curve."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    means = np.convolve(losses, np.ones(25) / 25, "valid")
    axes.plot(losses, color="tab:blue", linewidth=0.5, alpha=0.4)
    axes.plot(np.arange(len(means)) + 12, means, color="tab:blue", label="training")
    axes.axhline(bits, color="tab:red", label=f"unseen text, after training: {bits:.2f}")
    axes.set(xlabel="step", ylabel="bits a character", title="LSTM on the Python documentation")
    axes.legend()
    figure.savefig(path)


def main() -> None:
    """Train, test, write a sample and draw."""
    parser = argparse.ArgumentParser(description="Train an LSTM on the Python documentation.")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("char_lstm.png"), help="the picture")
    options, rng = parser.parse_args(), np.random.default_rng(1)
    alphabet, train, test = read_text()
    weights = make_weights(rng, len(alphabet))
    text = sg.placeholder((LENGTH + 1, BATCH), "int64", name="text")
    loss, variables = build_loss(weights, text), list(weights.values())
    gradients = sg.gradients(loss, variables)
    clipped = sg.optim.clip_by_global_norm(gradients, CLIP)
    updates = sg.optim.Adam(0.01).apply_gradients(zip(clipped, variables, strict=True))
    step, evaluate = sg.compile([text], loss, updates), sg.compile([text], loss)
    noise = sg.placeholder(("n", 1, len(alphabet)), name="noise")
    sample = sg.compile([noise], build_sample(weights, noise))
    inside = np.arange(LENGTH + 1)[:, None]
    begins = rng.integers(0, len(train) - LENGTH, (options.steps, 1, BATCH))
    unseen = test[rng.integers(0, len(test) - LENGTH, (30, 1, BATCH)) + inside]
    before, losses, began = np.mean([evaluate(b) for b in unseen]), [], time.perf_counter()
    for begin in (progress := tqdm(begins, unit="step", disable=None)):
        losses.append(float(step(train[begin + inside])))
        progress.set_postfix(bits=f"{losses[-1]:.3f}", refresh=False)
    rate = options.steps / (time.perf_counter() - began)
    after = np.mean([evaluate(b) for b in unseen])
    drawn = sample(rng.gumbel(size=(400, 1, len(alphabet))).astype(np.float32))
    print("".join(alphabet[k] for k in drawn[:, 0]))
    draw(options.out, losses, after)
    print(f"\nsteps per second: {rate:,.0f}")
    print(f"perplexity of unseen text: {2**before:.1f} before, {2**after:.2f} after")
    print(f"bits per character: {after:.3f}, {options.out}")
    if after > BOUND:
        sys.exit(f"a character takes more than {BOUND} bits")


if __name__ == "__main__":
    main()
