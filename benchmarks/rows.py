"""Functions of rows with their gradients, beside PyTorch's and JAX's: softmax, norms and a loss.

They compute little for each element, so what counts is how often data goes through a core. At best
operands are read once and results written once: that is what GB/s are of. What one core does at
best is, in the same rounds, a copy of as many bytes, by NumPy, or as many exponentials as the
function takes, whichever takes longer: those are symgrad's own, in a loop over 32 KB that the
nearest cache holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, Times, interleave, optional
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.types import Array
from symgrad.runtime.function import compile
from symgrad.runtime.limits import machine_limits

THREADS = (1, 2)
SHAPES = ((256, 1024), (8192, 128), (8192, 1024))
MIN_SPEED = 1.2
MAX_TIMES_LIMIT = 1.3
JUDGED = ("softmax", "layer_norm", "cross_entropy")  # by the limits, of rows that caches hold
LIMITS = ("copy", "exp")
NEAR_ELEMENTS = 8192
EPSILON = 1e-5

_Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class RowFunction:
    """A function of rows in each library; it takes so many `vectors` along a row besides.

    Of a loss each row has one. Some take an exponential of each element.
    """

    name: str
    ours: _Function
    torch: _Function
    jax: _Function
    vectors: int = 0
    is_loss: bool = False
    has_exp: bool = False


def _labels(x: Any) -> Array:
    """Return a label for each row of `x`."""
    rows, classes = x.shape
    labels: Array = np.arange(rows, dtype=np.int64) * 7 % classes
    return labels


def _ours_cross_entropy(x: sg.Tensor) -> sg.Tensor:
    return sg.nn.cross_entropy(x, _labels(x), reduction="none")


def _torch_cross_entropy(x: Any) -> Any:
    torch = optional("torch")
    labels = torch.from_numpy(_labels(x))
    return torch.nn.functional.cross_entropy(x, labels, reduction="none")


def _jax_cross_entropy(x: Any) -> Any:
    jax = optional("jax")
    return -jax.nn.log_softmax(x)[np.arange(x.shape[0]), _labels(x)]


def _of_torch(name: str) -> _Function:
    def norm(x: Any, *vectors: Any) -> Any:
        function = getattr(optional("torch").nn.functional, name)
        return function(x, x.shape[-1:], *vectors, eps=EPSILON)

    return norm


def _jax_layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    jax = optional("jax")
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + EPSILON) * scale + shift


def _jax_rms_norm(x: Any, scale: Any) -> Any:
    jax = optional("jax")
    return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + EPSILON) * scale


FUNCTIONS = (
    RowFunction(
        "softmax",
        sg.nn.softmax,
        lambda x: optional("torch").softmax(x, -1),
        lambda x: optional("jax").nn.softmax(x),
        has_exp=True,
    ),
    RowFunction(
        "log_softmax",
        sg.nn.log_softmax,
        lambda x: optional("torch").log_softmax(x, -1),
        lambda x: optional("jax").nn.log_softmax(x),
        has_exp=True,
    ),
    RowFunction("layer_norm", sg.nn.layer_norm, _of_torch("layer_norm"), _jax_layer_norm, 2),
    RowFunction(
        "rms_norm",
        partial(sg.nn.rms_norm, epsilon=EPSILON),
        _of_torch("rms_norm"),
        _jax_rms_norm,
        1,
    ),
    RowFunction(
        "cross_entropy",
        _ours_cross_entropy,
        _torch_cross_entropy,
        _jax_cross_entropy,
        is_loss=True,
        has_exp=True,
    ),
)


def measure(quick: bool = False) -> Report:
    """Return a row for each function, shape, number of threads and library."""
    report = Report("rows", ("function", "threads", "library", "best ms", "GB/s", "times"))
    shapes, rounds = (((8, 16),), 2) if quick else (SHAPES, 10)
    for threads, function, shape in product(THREADS, FUNCTIONS, shapes):
        times, moved = measure_function(function, shape, threads, rounds)
        _add(report, f"{function.name} {shape[0]} x {shape[1]}", threads, times, moved)
    if not quick:
        limits = machine_limits()
        rates = (f"{rate:.0f} within {size >> 10:,} KB" for size, rate in limits.gbytes.items())
        report.notes.append(f"GB/s of one core here: {', '.join(rates)}.")
    missing = [name for name in ("jax", "torch") if optional(name) is None]
    report.notes += [f"{name} is not installed: its rows are missing." for name in missing]
    return report


def _add(report: Report, name: str, threads: int, times: dict[str, Times], moved: int) -> None:
    ours = times["symgrad"].best
    for library, spent in times.items():
        rate = round(moved / spent.best / 1e9, 1)
        cells = (round(spent.best * 1e3, 3), rate, round(spent.best / ours, 2))
        report.rows.append((name, threads, library, *cells))
    is_cached = moved < 1 << 26
    if threads == 1 and is_cached and name.split()[0] in JUDGED:
        limit = max(
            (library for library in LIMITS if library in times), key=lambda n: times[n].best
        )
        claim = f"times the limit ({limit}), {name}"
        report.bars.append(Bar(claim, ours / times[limit].best, MAX_TIMES_LIMIT))
    others = [t.best for library, t in times.items() if library not in ("symgrad", *LIMITS)]
    if others:
        claim = f"times as fast as the best other, {name}, {threads} threads"
        report.bars.append(Bar(claim, min(others) / ours, MIN_SPEED, at_least=True))


def measure_function(
    function: RowFunction, shape: tuple[int, int], threads: int, rounds: int
) -> tuple[dict[str, Times], int]:
    """Check a function with its gradients and time it beside others; count its bytes."""
    random = np.random.default_rng(0)
    result = shape[:1] if function.is_loss else shape
    sizes = [shape, result, *[shape[1:]] * function.vectors]
    arrays = [aligned_empty(size, np.dtype(np.float32)) for size in sizes]
    for array in arrays:
        array[...] = random.standard_normal(array.shape)
    call, out = _ours(function, arrays, threads)
    call()
    expected = [array.copy() for array in out]
    calls: dict[str, Contestant] = {"symgrad": call}
    others = {**_torch(function, arrays, threads), **_jax(function, arrays, threads)}
    for name, (other, read) in others.items():
        for found, wanted in zip(read(other()), expected, strict=True):
            scale = 1e-4 * float(np.abs(wanted).max())
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=scale, err_msg=name)
        calls[name] = other
    moved = sum(array.nbytes for array in (*arrays, *expected))
    source, copied = (aligned_empty((moved // 2,), np.dtype(np.uint8)) for _ in range(2))
    source[...] = copied[...] = 1
    calls["copy"] = partial(np.copyto, copied, source)
    if function.has_exp:
        calls["exp"] = _exponentials(shape[0] * shape[1])
    return interleave(calls, rounds=rounds, seconds=0.02), moved


def _exponentials(count: int) -> Contestant:
    """Return what takes so many exponentials, in memory that stays in the nearest cache."""
    x = sg.placeholder((min(count, NEAR_ELEMENTS),), "float32")
    rounds = max(1, count // x.shape[0])
    y = sg.fori_loop(0, rounds, lambda _, y: sg.exp(-y), x)  # tends to 0.567
    given, out = (aligned_empty(x.type.static_shape, np.dtype(np.float32)) for _ in range(2))
    given[...] = 0.5
    return partial(compile([x], y, threads=1), given, out=out)


def _ours(
    function: RowFunction, arrays: Sequence[Array], threads: int
) -> tuple[Contestant, list[Array]]:
    x, g, *vectors = (sg.placeholder(a.shape, "float32") for a in arrays)
    y = function.ours(x, *vectors)
    found = sg.gradients(y, [x, *vectors], grad_ys=g, unconnected_gradients="zero")
    step = compile([x, g, *vectors], [y, *found], threads=threads)
    out = [aligned_empty(t.type.static_shape, np.dtype(np.float32)) for t in (y, *found)]
    return partial(step, *arrays, out=out), out


_Others = dict[str, tuple[Contestant, Callable[[Any], list[Array]]]]


def _torch(function: RowFunction, arrays: Sequence[Array], threads: int) -> _Others:
    torch = optional("torch")
    if torch is None:
        return {}
    torch.set_num_threads(threads)
    x, g, *vectors = (torch.from_numpy(a) for a in arrays)
    given = [t.requires_grad_() for t in (x, *vectors)]

    def call() -> Any:
        y = function.torch(*given)
        return y, *torch.autograd.grad(y, given, g)

    return {"PyTorch": (call, lambda found: [t.detach().numpy() for t in found])}


def _jax(function: RowFunction, arrays: Sequence[Array], threads: int) -> _Others:
    jax = optional("jax")
    if jax is None or threads != 1:
        return {}  # its threads are chosen once, for the whole process
    x, g, *vectors = map(jax.numpy.asarray, arrays)

    def both(g: Any, *given: Any) -> Any:
        y, back = jax.vjp(function.jax, *given)
        return y, *back(g)

    compiled = jax.jit(both)
    return {
        "JAX": (
            lambda: jax.block_until_ready(compiled(g, x, *vectors)),
            lambda found: [np.asarray(t) for t in found],
        )
    }


if __name__ == "__main__":
    run_as_program(__doc__, measure)
