"""Track a body by a Kalman filter whose noises maximise the likelihood of what was seen.

    x[t+1] = F x[t] + w,  y[t] = H x[t] + v,  w ~ N(0, q**2 Q), v ~ N(0, r**2 I)

A state is a place and a velocity in the plane; only the place is seen, and not at each time. The
filter is a scan, and the gradient of the log-likelihood by log q and log r goes back through it:
L-BFGS of SciPy calls both as one native step. The smoother is a scan in the other direction. Run it
as `python examples/kalman.py --steps 40 --out kalman.png`; with `--export build` it writes the
steps as a library of C, which the script loads again and compares.

H. E. Rauch, F. Tung, C. T. Striebel, "Maximum likelihood estimates of linear dynamic systems",
1965.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

import symgrad as sg

TIMES, SEED = 300, 7
STEP = 0.1  # seconds between two times
TRUE_Q, TRUE_R = 0.8, 0.5
SEEN = 0.8  # how often a body is seen
BOUND = 0.2  # by how much a noise may be off
PRIOR = 10.0  # the deviation of the first state

# Constant velocity, disturbed by white noise of the acceleration.
F = np.kron([[1, STEP], [0, 1]], np.eye(2))
Q = np.kron([[STEP**3 / 3, STEP**2 / 2], [STEP**2 / 2, STEP]], np.eye(2))
H = np.kron([[1, 0]], np.eye(2))


class Filtered(NamedTuple):
    """Means and covariances of states: given what was seen up to each time, and before it."""

    mean: sg.Tensor
    covariance: sg.Tensor
    predicted_mean: sg.Tensor
    predicted_covariance: sg.Tensor
    likelihood: sg.Tensor


def make_path(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return the true states, what is seen of them, and 1 at the times at which it is."""
    noise = np.linalg.cholesky(TRUE_Q**2 * Q)
    states = np.zeros((TIMES, 4))
    states[0, 2:] = 1.0
    for t in range(1, TIMES):
        states[t] = F @ states[t - 1] + noise @ rng.standard_normal(4)
    seen = states @ H.T + TRUE_R * rng.standard_normal((TIMES, 2))
    return states, seen, (rng.random(TIMES) < SEEN).astype(np.float64)


def run_filter(p: sg.Tensor, seen: sg.Tensor, is_seen: sg.Tensor) -> Filtered:
    """Filter what was seen, for the logarithms of both noises."""
    process, noise = sg.exp(2 * p[0]) * Q, sg.exp(2 * p[1]) * np.eye(2)

    def step(carry: Any, row: Any) -> Any:
        mean, covariance = carry
        y, weight = row
        before, spread = F @ mean, F @ covariance @ F.T + process
        factor = sg.linalg.cholesky(H @ spread @ H.T + noise)
        # A time without an observation has no gain, and adds nothing to the likelihood.
        gain = weight * sg.matrix_transpose(sg.linalg.cho_solve(factor, H @ spread))
        kept = np.eye(4) - gain @ H
        surprise = y - H @ before
        white = sg.linalg.triangular_solve(factor, surprise)
        logarithm = sg.sum(sg.log(sg.linalg.diagonal(factor))) + np.log(2 * np.pi)
        term = -weight * (sg.sum(white * white) / 2 + logarithm)
        after = before + gain @ surprise
        # Joseph's form, which stays symmetric and positive whatever is rounded.
        rest = kept @ spread @ sg.matrix_transpose(kept) + gain @ noise @ sg.matrix_transpose(gain)
        return (after, rest), (after, rest, before, spread, term)

    start = sg.zeros(4, dtype="float64"), PRIOR**2 * sg.eye(4, dtype="float64")
    _, (mean, covariance, before, spread, terms) = sg.scan(step, start, (seen, is_seen))
    return Filtered(mean, covariance, before, spread, sg.sum(terms))


def smooth(found: Filtered) -> tuple[sg.Tensor, sg.Tensor]:
    """Return means and covariances of states given all that was seen."""

    def step(carry: Any, row: Any) -> Any:
        mean, covariance = carry
        own, spread, following, following_spread = row
        turned = sg.linalg.solve(following_spread, F @ spread)
        gain = sg.matrix_transpose(turned)
        after = own + gain @ (mean - following)
        rest = spread + gain @ (covariance - following_spread) @ turned
        return (after, rest), (after, rest)

    last = found.mean[-1], found.covariance[-1]
    rows = (
        found.mean[:-1], found.covariance[:-1],
        found.predicted_mean[1:], found.predicted_covariance[1:],
    )  # fmt: skip
    _, (means, covariances) = sg.scan(step, last, rows, reverse=True)
    return sg.concat([means, last[0][None]]), sg.concat([covariances, last[1][None]])


def make_steps(times: int = TIMES) -> dict[str, sg.Step]:
    """Return the negative log-likelihood with its gradient, and filtered and smoothed states."""
    p = sg.placeholder((2,), "float64", name="logarithms")
    seen = sg.placeholder((times, 2), "float64", name="seen")
    is_seen = sg.placeholder((times,), "float64", name="is_seen")
    found = run_filter(p, seen, is_seen)
    loss = -found.likelihood
    smoothed, spread = smooth(found)
    deviation = sg.sqrt(sg.linalg.diagonal(spread))
    states = [found.mean, smoothed, deviation]
    return {
        "fit": sg.compile([p, seen, is_seen], [loss, *sg.gradients(loss, [p])], name="fit"),
        "track": sg.compile([p, seen, is_seen], states, name="track"),
    }


def draw(path: Path, states: Any, seen: Any, filtered: Any, smoothed: Any, deviation: Any) -> None:
    """Draw the path as it is, is seen and is found, and the velocity with two deviations."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    plane, velocity = figure.subplots(1, 2)
    plane.plot(*seen.T, ".", color="lightgray", label="seen")
    plane.plot(*states[:, :2].T, color="black", label="true")
    plane.plot(*filtered[:, :2].T, color="tab:orange", linewidth=0.8, label="filtered")
    plane.plot(*smoothed[:, :2].T, color="tab:blue", label="smoothed")
    plane.set(xlabel="x", ylabel="y")
    plane.legend()
    times = STEP * np.arange(len(states))
    low, high = (smoothed[:, 2] + k * deviation[:, 2] for k in (-2, 2))
    velocity.fill_between(times, low, high, color="tab:blue", alpha=0.2)
    velocity.plot(times, states[:, 2], color="black", label="true")
    velocity.plot(times, smoothed[:, 2], color="tab:blue", label="smoothed, two deviations")
    velocity.set(xlabel="seconds", ylabel="velocity along x")
    velocity.legend()
    figure.savefig(path)


def error(states: Any, found: Any) -> float:
    """Return how far found places are from the true ones, as the root of the mean square."""
    return float(np.sqrt(np.mean((states[:, :2] - found[:, :2]) ** 2)))


def main() -> None:
    """Fit the noises, print how well the body is tracked, draw, and export."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("kalman.png"))
    parser.add_argument("--export", type=Path, help="the folder to write a library of C to")
    chosen = parser.parse_args()
    states, seen, is_seen = make_path(np.random.default_rng(SEED))
    steps = make_steps()
    losses: list[float] = []

    def objective(p: Any) -> tuple[float, Any]:
        loss, gradient = steps["fit"](p, seen, is_seen)
        losses.append(float(loss))
        return losses[-1], gradient

    objective(np.zeros(2))  # which brings the step into memory
    begin = time.perf_counter()
    found = minimize(
        objective, np.zeros(2), jac=True, method="L-BFGS-B", options={"maxiter": chosen.steps}
    )
    spent = (time.perf_counter() - begin) / max(len(losses) - 1, 1)
    filtered, smoothed, deviation = steps["track"](found.x, seen, is_seen)
    draw(chosen.out, states, seen[is_seen > 0], filtered, smoothed, deviation)
    q, r = np.exp(found.x)
    errors = [error(states, by) for by in (seen, filtered, smoothed)]
    print(f"log-likelihood: {-losses[0]:.1f} before, {-found.fun:.1f} after {len(losses)} calls")
    print(f"likelihood and gradient, steps per second: {1 / spent:,.0f}")
    print(f"noises found: {q:.2f} and {r:.2f}, true: {TRUE_Q:.2f} and {TRUE_R:.2f}")
    print("errors: seen {:.3f}, filtered {:.3f}, smoothed {:.3f}".format(*errors))
    if chosen.export is not None:
        chosen.export.mkdir(parents=True, exist_ok=True)
        sg.export(steps, chosen.export / "kalman")
        tracked = sg.load(chosen.export / "kalman")["track"](found.x, seen, is_seen)
        print(f"the library in C tracks the same: {np.array_equal(tracked[1], smoothed)}")
    if abs(np.log([q / TRUE_Q, r / TRUE_R])).max() > np.log(1 + BOUND):
        sys.exit(f"a noise is off by more than {BOUND:.0%}")


if __name__ == "__main__":
    main()
