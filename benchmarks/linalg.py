"""What linear algebra costs, beside NumPy's and SciPy's LAPACK, JAX's and PyTorch's, in float64.

Each function is given one matrix or a batch of them; its gradient is that of a weighted sum of what
it gives, which NumPy does not have. Inverses and systems of 3 rows have bars in nanoseconds. The
last rows are a step of fitting a Gaussian process: the log marginal likelihood of 400 points and
its gradient. All is on one core and one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, interleave, optional, pin_to_one_core
from symgrad.graph.types import Array

SIZES = ((4, 10000), (16, 1000), (64, 1), (256, 1), (1024, 1))
COORDINATES = (3, 10000)  # rows of matrices and their number, of which each is to take few ns
_MOST_NANOSECONDS = {"value": 5.0, "gradient": 15.0}
POINTS = 400
_LARGEST_OF = {"eigh": 256, "svd": 256, "qr": 256}  # rows, of what is not made for more

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """A function of a symmetric positive definite matrix in each library, to a tensor."""

    name: str
    symgrad: Function
    numpy: Function
    jax: Callable[[Any], Function]
    torch: Callable[[Any], Function]


def _numpy_triangular(a: Array) -> Any:
    """Solve by BLAS, for one matrix after another."""
    linalg = optional("scipy.linalg")
    if a.ndim == 2:
        return linalg.solve_triangular(a, a, lower=True, check_finite=False)
    return [linalg.solve_triangular(m, m, lower=True, check_finite=False) for m in a]


def _jax_triangular(a: Any) -> Any:
    solve = optional("jax.scipy.linalg").solve_triangular
    return solve(a, a, lower=True)


SUBJECTS = (
    Subject(
        "cholesky", sg.linalg.cholesky, np.linalg.cholesky,
        lambda jnp: jnp.linalg.cholesky, lambda torch: torch.linalg.cholesky,
    ),
    Subject(
        "triangular_solve", lambda a: sg.linalg.triangular_solve(a, a), _numpy_triangular,
        lambda jnp: lambda a: _jax_triangular(a), lambda torch: lambda a: (
            torch.linalg.solve_triangular(a.tril(), a, upper=False)
        ),
    ),
    Subject(
        "solve", lambda a: sg.linalg.solve(a, a[..., :1]),
        lambda a: np.linalg.solve(a, a[..., :1]),
        lambda jnp: lambda a: jnp.linalg.solve(a, a[..., :1]),
        lambda torch: lambda a: torch.linalg.solve(a, a[..., :1]),
    ),
    Subject(
        "det", sg.linalg.det, np.linalg.det, lambda jnp: jnp.linalg.det,
        lambda torch: torch.linalg.det,
    ),
    Subject(
        "qr", lambda a: sg.linalg.qr(a).R, lambda a: np.linalg.qr(a).R,
        lambda jnp: lambda a: jnp.linalg.qr(a)[1], lambda torch: lambda a: torch.linalg.qr(a)[1],
    ),
    Subject(
        "eigh", lambda a: sg.linalg.eigh(a).eigenvalues, lambda a: np.linalg.eigh(a).eigenvalues,
        lambda jnp: lambda a: jnp.linalg.eigh(a)[0],
        lambda torch: lambda a: torch.linalg.eigh(a)[0],
    ),
    Subject(
        "eigh by LAPACK", lambda a: sg.linalg.eigh(a, method="lapack").eigenvalues,
        lambda a: np.linalg.eigh(a).eigenvalues, lambda jnp: lambda a: jnp.linalg.eigh(a)[0],
        lambda torch: lambda a: torch.linalg.eigh(a)[0],
    ),
    Subject(
        "svd", lambda a: sg.linalg.svd(a, full_matrices=False).S,
        lambda a: np.linalg.svd(a, full_matrices=False).S,
        lambda jnp: lambda a: jnp.linalg.svd(a, full_matrices=False)[1],
        lambda torch: lambda a: torch.linalg.svd(a, full_matrices=False)[1],
    ),
    Subject(
        "svd by LAPACK", lambda a: sg.linalg.svd(a, full_matrices=False, method="lapack").S,
        lambda a: np.linalg.svd(a, full_matrices=False).S,
        lambda jnp: lambda a: jnp.linalg.svd(a, full_matrices=False)[1],
        lambda torch: lambda a: torch.linalg.svd(a, full_matrices=False)[1],
    ),
)  # fmt: skip


_INVERSE = Subject(
    "inv", sg.linalg.inv, np.linalg.inv, lambda jnp: jnp.linalg.inv,
    lambda torch: torch.linalg.inv,
)  # fmt: skip


def measure(quick: bool = False) -> Report:
    """Return microseconds a call, and how many times as long the others take."""
    pin_to_one_core()
    columns = ("function", "n", "batch", "of", "library", "least us", "times symgrad")
    report = Report("linear algebra", columns)
    for subject in SUBJECTS:
        for n, count in SIZES[:2] if quick else SIZES:
            if n > _LARGEST_OF.get(subject.name, n):
                continue
            matrices = _matrices(n, count)
            for kind, calls in (("value", _values(subject, matrices)),
                                ("gradient", _gradients(subject, matrices))):  # fmt: skip
                _add(report, (subject.name, n, count, kind), calls, quick)
    for subject in (_INVERSE, *(s for s in SUBJECTS if s.name == "solve")):
        matrices = _matrices(*COORDINATES)
        for kind, calls in (("value", _values(subject, matrices)),
                            ("gradient", _gradients(subject, matrices))):  # fmt: skip
            _add(report, (subject.name, *COORDINATES, kind), calls, quick)
    _add(report, ("Gaussian process", POINTS, 1, "gradient"), _processes(), quick)
    for library in ("jax", "torch"):
        if optional(library) is None:
            report.notes.append(f"{library} is not installed: its rows are missing.")
    return report


def _add(report: Report, row: Sequence[Any], calls: dict[str, Contestant], quick: bool) -> None:
    times = interleave(calls, rounds=2 if quick else 15)
    least = {library: min(spent.rounds) for library, spent in times.items()}
    for library, seconds in least.items():
        ratio = round(seconds / least["symgrad"], 2)
        report.rows.append((*row, library, round(seconds * 1e6, 1), ratio))
    fastest = min((s for name, s in least.items() if name != "symgrad"), default=float("nan"))
    report.bars += _bars(row, least, fastest)


def _bars(row: Sequence[Any], least: dict[str, float], fastest: float) -> list[Bar]:
    name, n, count, kind = row
    label = f"{name} of {n}, {count} at once, {kind}"
    own = least["symgrad"]
    if name == "Gaussian process":
        others = least.get("JAX", float("nan"))
        return [Bar(f"{label}: times faster than JAX", others / own, 2.0, at_least=True)]
    if (n, count) == COORDINATES:
        return [Bar(f"{label}: ns each", own * 1e9 / count, _MOST_NANOSECONDS[kind])]
    if count > 1 and not name.endswith("by LAPACK"):  # which the others are
        return [Bar(f"{label}: times faster than any other", fastest / own, 5.0, at_least=True)]
    if kind == "value" and n >= 256 and name in ("cholesky", "det", "triangular_solve"):
        return [Bar(f"{label}: times the best other", own / fastest, 1.2)]
    return []


def _matrices(n: int, count: int) -> Array:
    x = np.random.default_rng(n).standard_normal((count, n, n))
    found = x @ x.swapaxes(-1, -2) + n * np.eye(n)
    return found if count > 1 else found[0]


def _values(subject: Subject, a: Array) -> dict[str, Contestant]:
    x = sg.placeholder(a.shape, "float64")
    step = sg.compile([x], subject.symgrad(x))
    calls: dict[str, Contestant] = {
        "symgrad": lambda: step(a),
        "NumPy": lambda: subject.numpy(a),
    }
    return calls | _of_jax(subject, a, is_gradient=False) | _of_torch(subject, a, is_gradient=False)


def _gradients(subject: Subject, a: Array) -> dict[str, Contestant]:
    x = sg.placeholder(a.shape, "float64")
    y = sg.sum(subject.symgrad(x) ** 2)
    step = sg.compile([x], [y, *sg.gradients(y, [x])])
    calls: dict[str, Contestant] = {"symgrad": lambda: step(a)}
    return calls | _of_jax(subject, a, is_gradient=True) | _of_torch(subject, a, is_gradient=True)


def _of_jax(subject: Subject, a: Array, *, is_gradient: bool) -> dict[str, Contestant]:
    jax = optional("jax")
    if jax is None:
        return {}
    jax.config.update("jax_enable_x64", True)
    function, given = subject.jax(jax.numpy), jax.numpy.asarray(a)
    if is_gradient:
        value = function
        function = jax.value_and_grad(lambda t: jax.numpy.sum(value(t) ** 2))
    compiled = jax.jit(function)
    return {"JAX": lambda: jax.block_until_ready(compiled(given))}


def _of_torch(subject: Subject, a: Array, *, is_gradient: bool) -> dict[str, Contestant]:
    torch = optional("torch")
    if torch is None:
        return {}
    torch.set_num_threads(1)
    function, given = subject.torch(torch), torch.tensor(a, requires_grad=is_gradient)

    def gradient() -> Any:
        return torch.autograd.grad((function(given) ** 2).sum(), given)

    return {"PyTorch": gradient if is_gradient else lambda: function(given)}


# -------------------------------------------------------------------------- Gaussian process


def _processes() -> dict[str, Contestant]:
    """Return a step of each library: the likelihood by three logarithms of hyperparameters."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (POINTS, 3))
    targets = np.sin(x.sum(-1)) + 0.1 * rng.standard_normal(POINTS)
    distances = ((x[:, None] - x) ** 2).sum(-1)
    start = np.log([1.0, 1.0, 0.1])
    p = sg.placeholder((3,), "float64")
    loss = _likelihood(sg, sg.linalg.triangular_solve, p, distances, targets)
    step = sg.compile([p], [loss, *sg.gradients(loss, [p])])
    calls: dict[str, Contestant] = {"symgrad": lambda: step(start)}
    jax, torch = optional("jax"), optional("torch")
    if jax is not None:
        calls["JAX"] = _process_of_jax(jax, start, distances, targets)
    if torch is not None:
        calls["PyTorch"] = _process_of_torch(torch, start, distances, targets)
    return calls


def _likelihood(library: Any, solve: Function, p: Any, distances: Any, targets: Any) -> Any:
    kernel = library.exp(distances * -library.exp(-2 * p[0]) / 2 + 2 * p[1])
    noise = library.exp(2 * p[2])
    factor = library.linalg.cholesky(kernel + noise * library.eye(POINTS, dtype=kernel.dtype))
    white = solve(factor, targets)
    logarithm = library.sum(library.log(library.linalg.diagonal(factor)))
    return library.sum(white * white) / 2 + logarithm


def _process_of_jax(jax: Any, start: Array, distances: Array, targets: Array) -> Contestant:
    jnp = jax.numpy
    d, t, p = (jnp.asarray(a) for a in (distances, targets, start))

    def solve(a: Any, b: Any) -> Any:
        return jax.scipy.linalg.solve_triangular(a, b, lower=True)

    compiled = jax.jit(jax.value_and_grad(lambda p: _likelihood(jnp, solve, p, d, t)))
    return lambda: jax.block_until_ready(compiled(p))


def _process_of_torch(torch: Any, start: Array, distances: Array, targets: Array) -> Contestant:
    d, t = torch.tensor(distances), torch.tensor(targets)
    p = torch.tensor(start, requires_grad=True)

    def solve(a: Any, b: Any) -> Any:
        return torch.linalg.solve_triangular(a, b[:, None], upper=False)[:, 0]

    return lambda: torch.autograd.grad(_likelihood(torch, solve, p, d, t), p)


if __name__ == "__main__":
    run_as_program(__doc__, measure)
