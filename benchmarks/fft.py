"""What Fourier transforms cost, beside SciPy's (pocketfft), JAX's and PyTorch's.

One transform and a batch of them, of complex and of real numbers, in both precisions; the gradient
is that of the sum of the squares of what comes out, which SciPy does not have: it is measured for
one transform forward and one back. All is on one core and one thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, interleave, optional, pin_to_one_core
from symgrad.graph.types import Array

# How many numbers, and how many transforms at a time.
SIZES = (
    *((64, 1), (256, 1), (1000, 1), (1009, 1), (1024, 1), (4096, 1), (65536, 1), (1 << 20, 1)),
    *((64, 1000), (1000, 64), (1009, 64), (1024, 64), (1024, 1024)),
)
KINDS = ("fft", "rfft")
PRECISIONS = ("float64", "float32")

Function = Callable[..., Any]


def measure(quick: bool = False) -> Report:
    """Return microseconds a call, and how many times as long the others take."""
    pin_to_one_core()
    columns = (
        "transform",
        "numbers",
        "batch",
        "dtype",
        "of",
        "library",
        "least us",
        "times symgrad",
    )
    report = Report("Fourier transforms", columns)
    precisions, sizes = (PRECISIONS[:1], SIZES[:2]) if quick else (PRECISIONS, SIZES)
    for precision, kind, (n, count) in itertools.product(precisions, KINDS, sizes):
        x = _numbers(kind, n, count, precision)
        _add(report, (kind, n, count, precision, "value"), _values(kind, x), quick)
        _add(report, (kind, n, count, precision, "gradient"), _gradients(kind, x), quick)
    for library in ("scipy", "jax", "torch"):
        if optional(library) is None:
            report.notes.append(f"{library} is not installed: its rows are missing.")
    return report


def _add(report: Report, row: Sequence[Any], calls: dict[str, Contestant], quick: bool) -> None:
    times = interleave(calls, rounds=2 if quick else 15)
    least = {library: min(spent.rounds) for library, spent in times.items()}
    own = least["symgrad"]
    for library, seconds in least.items():
        report.rows.append((*row, library, round(seconds * 1e6, 1), round(seconds / own, 2)))
    if "SciPy" in least:
        kind, n, count, precision, what = row
        label = f"{kind} of {n} {precision}, {count} at once, {what}: times SciPy"
        report.bars.append(Bar(label, own / least["SciPy"], 1.5))


def _numbers(kind: str, n: int, count: int, precision: str) -> Array:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((count, n))
    if kind == "fft":
        x = x + 1j * rng.standard_normal((count, n))
    dtype = precision if kind == "rfft" else {"float64": "complex128"}.get(precision, "complex64")
    return (x if count > 1 else x[0]).astype(dtype)


def _values(kind: str, x: Array) -> dict[str, Contestant]:
    given = sg.placeholder(x.shape, x.dtype)
    step = sg.compile([given], getattr(sg.fft, kind)(given))
    calls: dict[str, Contestant] = {"symgrad": lambda: step(x)}
    if (scipy := optional("scipy.fft")) is not None:
        calls["SciPy"] = lambda: getattr(scipy, kind)(x)
    return calls | _of_jax(kind, x, is_gradient=False) | _of_torch(kind, x, is_gradient=False)


def _gradients(kind: str, x: Array) -> dict[str, Contestant]:
    given = sg.placeholder(x.shape, x.dtype)
    y = _energy(sg, getattr(sg.fft, kind)(given))
    step = sg.compile([given], [y, *sg.gradients(y, [given])])
    calls: dict[str, Contestant] = {"symgrad": lambda: step(x)}
    if (scipy := optional("scipy.fft")) is not None:
        forward, back = getattr(scipy, kind), getattr(scipy, "i" + kind)
        calls["SciPy"] = lambda: back(forward(x), n=x.shape[-1])
    return calls | _of_jax(kind, x, is_gradient=True) | _of_torch(kind, x, is_gradient=True)


def _energy(library: Any, y: Any) -> Any:
    return library.sum(library.real(y) ** 2 + library.imag(y) ** 2)


def _of_jax(kind: str, x: Array, *, is_gradient: bool) -> dict[str, Contestant]:
    jax = optional("jax")
    if jax is None:
        return {}
    jax.config.update("jax_enable_x64", True)
    function: Function = getattr(jax.numpy.fft, kind)
    given = jax.numpy.asarray(x)
    if is_gradient:
        value = function
        function = jax.value_and_grad(lambda t: _energy(jax.numpy, value(t)))
    compiled = jax.jit(function)
    return {"JAX": lambda: jax.block_until_ready(compiled(given))}


def _of_torch(kind: str, x: Array, *, is_gradient: bool) -> dict[str, Contestant]:
    torch = optional("torch")
    if torch is None:
        return {}
    torch.set_num_threads(1)
    function, given = getattr(torch.fft, kind), torch.tensor(x, requires_grad=is_gradient)

    def gradient() -> Any:
        return torch.autograd.grad(_energy(torch, function(given)), given)

    return {"PyTorch": gradient if is_gradient else lambda: function(given)}


if __name__ == "__main__":
    run_as_program(__doc__, measure)
