"""Learn to write like the Python documentation: a causal transformer over characters.

Training, evaluation and generation are three programs over the same variables; the last one keeps
keys and values of what it has read in TensorArrays. Run it as
`python examples/gpt.py --steps 600 --out gpt.png`.
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

LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 2, 4, 96, 64, 16
RATE, WARMUP = 3e-3, 30
TESTED = 8  # batches of unseen text
SHOWN = 4  # of the texts that are written
INSIDE = np.arange(CONTEXT + 1)
BOUND = 2.8  # bits a character; the shares of pairs of characters take 3.5
PROMPT = "The following "

Nest = Any  # weights: dicts, lists and variables


def read_text() -> Any:
    """Return the alphabet, and the text as numbers: nine tenths to learn from, one to test on."""
    text = " ".join(w for name in sorted(topics) for w in topics[name].split() if w.isascii())
    alphabet = "".join(sorted(set(text)))
    places = np.zeros(128, np.int64)
    places[[ord(c) for c in alphabet]] = np.arange(len(alphabet))
    return alphabet, *np.split(
        places[np.frombuffer(text.encode(), np.uint8)], [len(text) * 9 // 10]
    )


def count_bits(train: Any, test: Any, n: int) -> tuple[float, float]:
    """Return the bits a character of `test` takes by the shares in `train` of characters and pairs.

    Each is counted once more than it is there, so that none is impossible.
    """
    pairs = np.bincount(train[:-1] * n + train[1:], minlength=n * n).reshape(n, n) + 1.0
    alone, following = pairs.sum(0) / pairs.sum(), pairs / pairs.sum(1, keepdims=True)
    return -np.log2(alone[test[1:]]).mean(), -np.log2(following[test[:-1], test[1:]]).mean()


def make_weights(rng: np.random.Generator, n: int) -> Nest:
    """Make the variables of a model of `n` characters: a dict of tables, norms and blocks."""

    def matrix(rows: int, columns: int, scale: float = 1.0) -> sg.Variable:
        drawn = rng.normal(0, scale * rows**-0.5, (rows, columns))
        return sg.variable(drawn.astype(np.float32))

    def norm() -> Nest:
        return {"scale": sg.variable(np.ones(WIDTH, np.float32)), "bias": vector(WIDTH)}

    def vector(size: int) -> sg.Variable:
        return sg.variable(np.zeros(size, np.float32))

    def block() -> Nest:
        last = (2 * LAYERS) ** -0.5  # of all that is added to the stream
        return {
            "before": norm(), "attend": matrix(WIDTH, 3 * WIDTH),
            "join": matrix(WIDTH, WIDTH, last),
            "between": norm(), "widen": matrix(WIDTH, 4 * WIDTH), "inner": vector(4 * WIDTH),
            "narrow": matrix(4 * WIDTH, WIDTH, last), "outer": vector(WIDTH),
        }  # fmt: skip

    tables = {"characters": matrix(n, WIDTH, 0.2), "places": matrix(CONTEXT, WIDTH, 0.2)}
    blocks = [block() for _ in range(LAYERS)]
    return tables | {"blocks": blocks, "last": norm(), "write": matrix(WIDTH, n)}


def run_block(w: Nest, x: Any, attend: Any) -> Any:
    """Return the stream `x`, (batch, time, width), behind a block.

    `attend` is a function of queries, keys and values, each (batch, heads, time, width of a head).
    """
    with sg.name_scope("attention"):
        normed = sg.nn.layer_norm(x, **w["before"]) @ w["attend"]
        heads = normed.reshape((*x.shape[:2], 3, HEADS, WIDTH // HEADS))
        q, k, v = (sg.swapaxes(heads[:, :, i], 1, 2) for i in range(3))
        x = x + sg.swapaxes(attend(q, k, v), 1, 2).reshape(x.shape) @ w["join"]
    with sg.name_scope("perceptron"):
        inner = sg.nn.linear(sg.nn.layer_norm(x, **w["between"]), w["widen"], w["inner"])
        return x + sg.nn.linear(sg.nn.gelu(inner, approximate=True), w["narrow"], w["outer"])


def attend_back(q: sg.Tensor, k: sg.Tensor, v: sg.Tensor) -> sg.Tensor:
    """Return what each character makes of those up to it."""
    return sg.nn.scaled_dot_product_attention(q, k, v, causal=True)


def build_logits(w: Nest, text: Any) -> Any:
    """Return the logits of what follows each character of `text`, (batch, time)."""
    with sg.name_scope("embedding"):
        x = sg.nn.embedding(text, w["characters"]) + w["places"][: text.shape[1]]
    for number, block in enumerate(w["blocks"]):
        with sg.name_scope(f"block{number}"):
            x = run_block(block, x, attend_back)
    with sg.name_scope("logits"):
        return sg.nn.layer_norm(x, **w["last"]) @ w["write"]


def build_texts(w: Nest, prompt: sg.Tensor, noise: sg.Tensor) -> Any:
    """Return texts that go on from `prompt`, (time,), and the logits that they were drawn by.

    `noise`, (CONTEXT, BATCH, alphabet), is Gumbel's, so that the largest sum is a draw. The keys
    and values of each layer are a slot of a TensorArray for each place of the text.
    """
    size = (BATCH, HEADS, WIDTH // HEADS)
    empty = [(sg.TensorArray(CONTEXT, size), sg.TensorArray(CONTEXT, size)) for _ in range(LAYERS)]

    def step(carry: Any, row: sg.Tensor) -> Any:
        place, read, caches = carry
        x = sg.nn.embedding(read[:, None], w["characters"]) + w["places"][place]
        written: list[Any] = []

        def attend(q: sg.Tensor, k: sg.Tensor, v: sg.Tensor) -> sg.Tensor:
            cache = caches[len(written)]
            cache = [
                array.write(place, new[:, :, 0]) for array, new in zip(cache, (k, v), strict=True)
            ]
            written.append(tuple(cache))
            keys, values = (sg.permute_dims(array.stack(), (1, 2, 0, 3)) for array in cache)
            seen = sg.arange(CONTEXT, dtype="int64") <= place
            return sg.nn.scaled_dot_product_attention(q, keys, values, mask=seen[None])

        for block in w["blocks"]:
            x = run_block(block, x, attend)
        logits = (sg.nn.layer_norm(x, **w["last"]) @ w["write"])[:, 0]
        place = place + 1
        given = prompt[sg.minimum(place, prompt.shape[0] - 1)]
        drawn = sg.where(place < prompt.shape[0], given, sg.argmax(logits + row, axis=1))
        return (place, drawn, written), (read, logits)

    start = sg.constant(0, "int64"), sg.broadcast_to(prompt[0], (BATCH,)), empty
    _, (texts, logits) = sg.scan(step, start, noise)
    return sg.swapaxes(texts, 0, 1), sg.swapaxes(logits, 0, 1)


def draw(path: Path, losses: Any, tested: Any, simple: tuple[float, float]) -> None:
    """Draw the learning curve."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    means = np.convolve(losses, np.ones(25) / 25, "valid")
    axes.plot(losses, color="tab:blue", linewidth=0.5, alpha=0.4)
    axes.plot(np.arange(len(means)) + 12, means, color="tab:blue", label="training")
    axes.plot(*zip(*tested, strict=True), color="tab:red", marker=".", label="unseen text")
    for bits, style, name in zip(simple, (":", "--"), ("characters", "pairs"), strict=True):
        axes.axhline(bits, color="gray", linestyle=style, label=f"shares of {name}: {bits:.2f}")
    title = f"A transformer on the Python documentation: {tested[-1][1]:.2f} bits a character"
    axes.set(xlabel="step", ylabel="bits a character", title=title)
    axes.legend()
    figure.savefig(path)


def main() -> None:
    """Train, test, write texts and draw."""
    parser = argparse.ArgumentParser(description="Train a transformer on Python's documentation.")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--out", type=Path, default=Path("gpt.png"), help="the picture to write")
    options, rng = parser.parse_args(), np.random.default_rng(1)
    alphabet, train, test = read_text()
    simple = count_bits(train, test, len(alphabet))
    weights = make_weights(rng, len(alphabet))

    # Three programs over the same variables: one trains, one tells the loss of unseen texts, one
    # writes.
    text = sg.placeholder((BATCH, CONTEXT + 1), "int64", name="text")
    logits = build_logits(weights, text[:, :-1])
    loss = sg.nn.cross_entropy(logits, text[:, 1:]) / np.log(2)
    schedules = sg.optim.schedules
    rate = schedules.warmup(WARMUP, schedules.cosine(RATE, max(1, options.steps - WARMUP)))
    step = sg.compile([text], loss, sg.optim.AdamW(rate).minimize(loss, weights), name="train")
    evaluate = sg.compile([text], [loss, logits], name="evaluate")
    prompt = sg.placeholder((len(PROMPT),), "int64", name="prompt")
    noise = sg.placeholder((CONTEXT, BATCH, len(alphabet)), name="noise")
    write = sg.compile([prompt, noise], build_texts(weights, prompt, noise), name="write")

    begins = rng.integers(0, len(train) - CONTEXT, (options.steps, BATCH, 1))
    unseen = test[rng.integers(0, len(test) - CONTEXT, (TESTED, BATCH, 1)) + INSIDE]
    losses, tested, began = [], [], time.perf_counter()
    for number, begin in enumerate(progress := tqdm(begins, unit="step", disable=None)):
        if number % max(1, options.steps // 6) == 0:
            tested.append((number, np.mean([evaluate(batch)[0] for batch in unseen])))
        losses.append(float(step(train[begin + INSIDE])))
        progress.set_postfix(bits=f"{losses[-1]:.3f}", refresh=False)
    pace = options.steps / (time.perf_counter() - began)
    tested.append((options.steps, np.mean([evaluate(batch)[0] for batch in unseen])))

    gumbel = rng.gumbel(size=(CONTEXT, BATCH, len(alphabet))).astype(np.float32)
    texts, written = write(np.array([alphabet.index(c) for c in PROMPT]), gumbel)
    print(*("".join(alphabet[k] for k in drawn) for drawn in texts[:SHOWN]), sep="\n")
    # What was written step by step, with a cache, is what the model says of the whole texts.
    _, whole = evaluate(np.pad(texts, ((0, 0), (0, 1))))
    draw(options.out, losses, tested, simple)
    print(f"\nsteps per second: {pace:,.1f}")
    print(f"logits with a cache differ by {np.abs(whole - written).max():.1e} at most")
    print(f"bits by the shares of characters: {simple[0]:.3f}, of pairs: {simple[1]:.3f}")
    before, after = tested[0][1], tested[-1][1]
    print(f"bits per character: {before:.3f} before, {after:.3f} after, {options.out}")
    if after > BOUND:
        sys.exit(f"a character takes more than {BOUND} bits")


if __name__ == "__main__":
    main()
