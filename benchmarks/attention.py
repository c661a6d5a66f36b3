"""Attention beside PyTorch's and JAX's: forward, and with its gradients, causal or not.

Heads of width 64 and so many of them that all lengths have scores for 2**21 pairs, float32. Of the
multiply-adds, those are counted that are needed: two products forward and four more for gradients,
of causal ones those up to the diagonal. The peak of the multiply-add units is measured in the same
rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.peak import peak_call
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, Times, interleave, optional
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.types import Array
from symgrad.runtime.function import compile

THREADS = (1, 2)
WIDTH, PAIRS = 64, 1 << 21
LENGTHS = (128, 256, 512, 1024, 2048, 4096)
MIN_SPEED = 1.2
MIN_SHARE = 0.65


@dataclass(frozen=True, slots=True)
class Case:
    """Heads of one length, with gradients or without, causal or not."""

    length: int
    is_causal: bool
    has_gradient: bool
    pairs: int = PAIRS

    @property
    def heads(self) -> int:
        return max(1, self.pairs // self.length**2)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.heads, self.length, WIDTH

    @property
    def name(self) -> str:
        kind = "causal" if self.is_causal else "all keys"
        return f"{self.length}, {kind}, {'gradients' if self.has_gradient else 'forward'}"

    @property
    def flops(self) -> float:
        pairs = self.length * (self.length + 1) / 2 if self.is_causal else self.length**2
        return 2.0 * (6 if self.has_gradient else 2) * self.heads * pairs * WIDTH


def measure(quick: bool = False) -> Report:
    """Return a row for each length, kind, number of threads and library."""
    columns = ("case", "threads", "library", "best ms", "% of peak", "times", "MB")
    report = Report("attention", columns)
    lengths = (16, 32) if quick else LENGTHS
    pairs, rounds = (1 << 10, 2) if quick else (PAIRS, 10)
    kinds = (False, True)
    for threads, length, causal, gradient in product(THREADS, lengths, kinds, kinds):
        case = Case(length, causal, gradient, pairs)
        _add(report, case, threads, *measure_case(case, threads, rounds))
    missing = [name for name in ("jax", "torch") if optional(name) is None]
    report.notes += [f"{name} is not installed: its rows are missing." for name in missing]
    return report


def _add(
    report: Report, case: Case, threads: int, times: dict[str, Times], peak: float, memory: int
) -> None:
    ours = times["symgrad"].best
    for library, spent in times.items():
        reached = 100 * case.flops / spent.best / threads / peak
        cells = (round(spent.best * 1e3, 3), round(reached, 1), round(spent.best / ours, 2))
        held = round(memory / 1e6, 1) if library == "symgrad" else None
        report.rows.append((case.name, threads, library, *cells, held))
    where = f"{case.name}, {threads} threads"
    share = case.flops / ours / threads / peak
    report.bars.append(Bar(f"share of the peak, {where}", share, MIN_SHARE, at_least=True))
    others = [spent.best for library, spent in times.items() if library != "symgrad"]
    if others:
        claim = f"times as fast as the best other, {where}"
        report.bars.append(Bar(claim, min(others) / ours, MIN_SPEED, at_least=True))


def measure_case(case: Case, threads: int, rounds: int) -> tuple[dict[str, Times], float, int]:
    """Check a case and time it beside others; return also the peak of a core, and our memory."""
    random = np.random.default_rng(0)
    arrays = [aligned_empty(case.shape, np.dtype(np.float32)) for _ in range(4)]
    for array in arrays:
        array[...] = random.standard_normal(case.shape)
    call, out, memory = _ours(case, threads, arrays)
    call()
    expected = [array.copy() for array in out]
    calls: dict[str, Contestant] = {"symgrad": call}
    for name, (other, read) in {
        **_torch(case, threads, arrays),
        **_jax(case, threads, arrays),
    }.items():
        for found, wanted in zip(read(other()), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-4, err_msg=name)
        calls[name] = other
    peak, flops = peak_call(dtypes.float32, target_named("native"))
    times = interleave({"peak": peak, **calls}, rounds=rounds, seconds=0.02)
    return times, flops / times.pop("peak").best, memory


def _ours(case: Case, threads: int, arrays: list[Array]) -> tuple[Contestant, list[Array], int]:
    q, k, v, g = (sg.placeholder(case.shape, "float32") for _ in arrays)
    y = sg.nn.scaled_dot_product_attention(q, k, v, causal=case.is_causal)
    outputs, inputs = [y], [q, k, v]
    if case.has_gradient:
        found = sg.gradients(y, [q, k, v], grad_ys=g, unconnected_gradients="zero")
        outputs, inputs = [y, *found], [q, k, v, g]
    step = compile(inputs, outputs, threads=threads)
    out = [aligned_empty(case.shape, np.dtype(np.float32)) for _ in outputs]
    return partial(step, *arrays[: len(inputs)], out=out), out, step.memory.peak_bytes


_Others = dict[str, tuple[Contestant, Callable[[Any], list[Array]]]]


def _torch(case: Case, threads: int, arrays: list[Array]) -> _Others:
    torch = optional("torch")
    if torch is None:
        return {}
    torch.set_num_threads(threads)
    q, k, v, g = (torch.from_numpy(a)[None].requires_grad_(case.has_gradient) for a in arrays)
    attend = partial(
        torch.nn.functional.scaled_dot_product_attention, q, k, v, is_causal=case.is_causal
    )

    def call() -> Any:
        if case.has_gradient:
            y = attend()
            return y, *torch.autograd.grad(y, (q, k, v), g)
        with torch.no_grad():
            return (attend(),)

    return {"PyTorch": (call, lambda found: [t.detach().numpy()[0] for t in found])}


def _jax(case: Case, threads: int, arrays: list[Array]) -> _Others:
    jax = optional("jax")
    if jax is None or threads != 1:
        return {}  # its threads are chosen once, for the whole process
    operands = [jax.numpy.asarray(np.swapaxes(a, 0, 1)) for a in arrays]

    def attend(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=case.is_causal)

    def both(q: Any, k: Any, v: Any, g: Any) -> Any:
        if not case.has_gradient:
            return (attend(q, k, v),)
        y, back = jax.vjp(attend, q, k, v)
        return y, *back(g)

    compiled = jax.jit(both)
    return {
        "JAX": (
            lambda: jax.block_until_ready(compiled(*operands)),
            lambda found: [np.swapaxes(np.asarray(t), 0, 1) for t in found],
        )
    }


if __name__ == "__main__":
    run_as_program(__doc__, measure)
