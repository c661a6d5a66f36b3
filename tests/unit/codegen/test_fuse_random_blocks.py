"""Loops over random rows of small buffers, fused by blocks: what is computed does not change."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.block_memory import block_kernel
from symgrad.codegen.schedule.fuse_blocks import PIECE, fuse_along
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.schedule.passes import Machine
from symgrad.codegen.target import target_named

SIZE, BUFFERS = 96, "abcde"
PARAMS = ", ".join(f"inout {b}: f32[{SIZE}]" for b in BUFFERS)


def rows(draw: random.Random, n: int) -> str:
    """Return a loop over rows of one buffer that reads those of others, or some that lie aside."""
    width = draw.choice([2, 4, 4, 8, 8])
    extent = min(draw.choice([SIZE // width] * 2 + [80 // width, 10, 20, 22, 5]), SIZE // width)
    written = draw.choice([0] * 6 + [SIZE - width * extent])
    pitch = draw.choice([width] * 6 + [0, width // 2])
    start = draw.choice([0] * 6 + [SIZE - width * extent, 1])
    if pitch * (extent - 1) + width - 1 + start >= SIZE:
        start = 0
    source, to = draw.sample(BUFFERS, 2)
    place = f"{width}*p{n} + k{n} + {written}"
    read = (f"{pitch}*p{n} + " if pitch else "") + f"k{n} + {start}"
    other, at = draw.choice([(b, place if b == to else read) for b in BUFFERS])
    ordered = draw.choice(["", "", "", " ordered"])
    return (
        f"for p{n} in 0..{extent}{ordered} {{ for k{n} in 0..{width} {{ "
        f"t{n}: f32 = {source}[{read}] v{n}: f32 = {other}[{at}] "
        f"w{n}: f32 = add(t{n}, v{n}) {to}[{place}] = w{n} }} }}"
    )


def columns(draw: random.Random, n: int) -> str:
    """Return greatest elements of columns."""
    source, to = draw.sample(BUFFERS, 2)
    extent, last = draw.choice([5, 20, 24]), draw.choice([0, 88])
    return (
        f"for k{n} in 0..4 {{ fold s{n}: f32 = 0.0 for q{n} in 0..{extent} "
        f"{{ t{n}: f32 = {source}[4*q{n} + k{n}] yield t{n} }} combine (x{n}) (y{n}) "
        f"{{ z{n}: f32 = max(x{n}, y{n}) yield z{n} }} {to}[k{n} + {last}] = s{n} }}"
    )


def products(draw: random.Random, n: int) -> str:
    """Return products of two matrices for each row."""
    source, to = draw.sample(BUFFERS, 2)
    at = f"8*p{n} + 4*n{n}"
    axes = f"(f{n} in 0..2) (g{n} in 0..2) (h{n} in 0..2)"
    other = draw.choice([b for b in BUFFERS if b != to])
    return (
        f"for p{n} in 0..10 {{ for n{n} in 0..2 {{ product r{n}: f32 for {axes} "
        f"{source}[{at}] by (2, 1) * {other}[{at}] by (2, 1) tile(1, 8) block(1, 8, 2) pack() "
        f"along(n) {{ {to}[2*f{n} + g{n} + {at}] = r{n} }} }} }}"
    )


def single(draw: random.Random, n: int) -> str:
    """Return a value that is bound first, and a short loop that uses it."""
    source, to = draw.sample(BUFFERS, 2)
    return (
        f"u{n}: f32 = {source}[{draw.randrange(SIZE)}] for k{n} in 0..4 {{ "
        f"v{n}: f32 = {source}[k{n}] "
        f"w{n}: f32 = add(u{n}, v{n}) {to}[k{n} + {draw.choice([0, 80, 92])}] = w{n} }}"
    )


def results_of(kernel: Kernel, other: str = "", own: str = "") -> list[bytes]:
    """Return what is in all buffers but `own` in the end; `other` begins with other numbers."""
    buffers = {}
    for param in kernel.params:
        rng = np.random.default_rng(ord(param.name[0]) + 1000 * (param.name in other))
        drawn = rng.integers(-9, 10, SIZE).astype(np.float32)
        buffers[param.name] = np.resize(drawn, param.count)
    assert run_kernel(kernel, buffers) == 0
    return [buffers[b].tobytes() for b in BUFFERS if b not in own]


def has_no_values(kernel: Kernel) -> bool:
    """Return whether memory is read that nothing was stored to, of which nothing comes."""
    try:
        verify_kernel(kernel)
    except AssertionError as error:
        if "nothing was stored to it before" in str(error):
            return True
        raise
    return False


def fused_alike(seed: int) -> int:
    """Return how many kernels were made of random loops, all of which compute what these do."""
    draw = random.Random(seed)
    makers = draw.choices([rows, columns, products, single], [5, 1, 1, 1], k=draw.randint(2, 5))
    text = " ".join(make(draw, n) for n, make in enumerate(makers))
    kernel = parse_kernel(f"kernel @k({PARAMS}) {{ {text} }}")
    count = draw.choice([5, 5, 10, 2, 4, 12])
    fusion = fuse_along(kernel.body, PIECE, count)
    if fusion is None:
        return 0
    fused = 0
    # A buffer may be memory of the kernel alone if what it holds before says nothing.
    owned = (b for b in BUFFERS if results_of(kernel, b, b) == results_of(kernel, "", b))
    for own, threads in product(("", *owned), (1, 2)):
        machine = Machine(target_named("x86-64-v3"), Threads(threads, least_cycles=0))
        made = block_kernel(fusion, count, kernel.params, own, machine)
        if not has_no_values(made):
            assert results_of(made, "", own) == results_of(kernel, "", own), (seed, own, threads)
            fused += 1
    return fused


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 120, 30))
def test_what_random_loops_compute_does_not_change(first):
    assert sum(map(fused_alike, range(first, first + 30))) > 50
