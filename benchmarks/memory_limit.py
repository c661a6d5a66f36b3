"""What less memory costs: training steps under limits of memory, and how long each takes.

    limit -> bytes of the arena, kernels, seconds to compile, milliseconds a step, in turns

The programs are an MLP of 8 layers of gelu, a chain of products and elementwise functions, and a
GPT of 4 blocks. Each is trained with the same data; losses have the same bits under each limit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tabulate import tabulate

import symgrad as sg
from benchmarks.network_gpt import GPT, make_gpt
from benchmarks.timing import interleave, pin_to_one_core

Program = tuple[list[Any], Any, Any, list[Any]]  # inputs, loss, updates, data
SHARES = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3)


def _weights(count: int, width: int) -> list[Any]:
    rng = np.random.default_rng(0)
    scaled = rng.standard_normal((count, width, width)).astype(np.float32) / width**0.5
    return [sg.variable(w, name=f"w{i}") for i, w in enumerate(scaled)]


def mlp(batch: int = 512, width: int = 512) -> Program:
    """Return a training step of 8 layers with gelu, by Adam."""
    x = h = sg.placeholder((batch, width), name="x")
    weights = _weights(8, width)
    for w in weights:
        h = sg.nn.gelu(h @ w)
    loss = sg.mean(h * h)
    data = np.random.default_rng(1).standard_normal((batch, width)).astype(np.float32)
    return [x], loss, sg.optim.Adam(1e-3).minimize(loss, weights), [data]


def chain(batch: int = 512, width: int = 256) -> Program:
    """Return a training step of 6 products with long elementwise functions between, by SGD."""
    x = h = sg.placeholder((batch, width), name="x")
    weights = _weights(6, width)
    for w in weights:
        h = sg.tanh(h @ w)
        h = sg.exp(-h * h) * sg.sin(h) + sg.sqrt(sg.abs(h) + 1.0)
    loss = sg.mean(h * h)
    data = np.random.default_rng(1).standard_normal((batch, width)).astype(np.float32)
    return [x], loss, sg.optim.SGD(1e-3, momentum=0.9).minimize(loss, weights), [data]


def gpt() -> Program:
    """Return a training step of a GPT of 4 blocks of 128, by Adam."""
    arrays, batch = make_gpt(4, 128, quick=False)
    weights = {name: sg.variable(array, name=name) for name, array in arrays.items()}
    text = sg.placeholder(batch["text"].shape, "int64", name="text")
    loss = GPT.symgrad(weights, {"text": text})
    return [text], loss, sg.optim.Adam(1e-3).minimize(loss, [*weights.values()]), [batch["text"]]


PROGRAMS: dict[str, Callable[[], Program]] = {"mlp": mlp, "chain": chain, "gpt": gpt}


def table_of(name: str, rounds: int) -> str:
    """Return the table of a program."""
    inputs, loss, updates, data = PROGRAMS[name]()
    arena = sg.compile(inputs, loss, updates).memory.arena_bytes
    steps: dict[int, Any] = {}
    rows: dict[int, list[str]] = {}
    for limit in (int(share * arena) for share in SHARES):
        begun = time.perf_counter()
        try:
            step = sg.compile(inputs, loss, updates, memory_limit=limit)
        except sg.CompileError:
            rows[limit] = [f"{limit:,}", "cannot be kept"]
            continue
        seconds = time.perf_counter() - begun
        steps[limit] = step
        taken = f"{step.memory.arena_bytes:,}", f"{len(step.kernels)}", f"{seconds:.2f}"
        rows[limit] = [f"{limit:,}", *taken]
    times = interleave({f"{n}": partial(s, *data) for n, s in steps.items()}, rounds=rounds)
    for limit in steps:
        rows[limit].append(f"{times[f'{limit}'].median * 1e3:.2f}")
    heads = (f"limit of {name}", "arena", "kernels", "s to compile", "ms")
    return str(tabulate([*rows.values()], heads, "github"))


def main() -> None:
    """Print a table for each program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", choices=[*PROGRAMS, []], default=[])
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    pin_to_one_core()
    for name in chosen.programs or PROGRAMS:
        print(table_of(name, chosen.rounds), flush=True)


if __name__ == "__main__":
    main()
