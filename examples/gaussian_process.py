"""Predict diabetes with a Gaussian process whose hyperparameters maximise the marginal likelihood.

    k(x, x') = s**2 exp(-sum(((x - x') / l)**2) / 2) + e**2 [x = x']

symgrad computes the likelihood and its gradient by the scale s, the noise e and a length l for each
feature in one native call, by the closed-form gradient of a Cholesky factorisation; L-BFGS of SciPy
calls it. Run it as `python examples/gaussian_process.py --steps 60 --out gaussian_process.png`.

C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006, chapter 5.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import symgrad as sg

BOUND = 0.4  # the share of the variance that has to be explained


def load_split() -> list[Any]:
    """Return patients and their progression, in standard units: 341 to learn from, 101 to test."""
    x, y = load_diabetes(return_X_y=True)
    x, y = x / x.std(axis=0), (y - y.mean()) / y.std()
    return list(train_test_split(x, y, test_size=101, random_state=3))


def kernel(p: sg.Tensor, x: sg.Tensor, z: sg.Tensor) -> sg.Tensor:
    """Return the covariances of points, for the logarithms of scale, noise and lengths."""
    lengths = sg.exp(p[2:])
    a, b = x / lengths, z / lengths
    squares = (
        sg.sum(a * a, axis=1)[:, None] + sg.sum(b * b, axis=1) - 2 * a @ sg.matrix_transpose(b)
    )
    return sg.exp(2 * p[0] - squares / 2)


def factorise(p: sg.Tensor, x: sg.Tensor) -> sg.Tensor:
    """Return the Cholesky factor of the covariances of noisy observations."""
    noise = sg.exp(2 * p[1]) + 1e-8
    return sg.linalg.cholesky(kernel(p, x, x) + noise * sg.eye(x.shape[0], dtype="float64"))


def make_steps(features: int) -> tuple[sg.Step, sg.Step]:
    """Return the likelihood with its gradient, and predictions with their deviations."""
    p = sg.placeholder((2 + features,), "float64", name="logarithms")
    x, y = sg.placeholder(("n", features), "float64"), sg.placeholder(("n",), "float64")
    factor = factorise(p, x)
    white = sg.linalg.triangular_solve(factor, y)
    logarithm = sg.sum(sg.log(sg.linalg.diagonal(factor)))
    loss = sg.sum(white * white) / 2 + logarithm
    fit = sg.compile([p, x, y], [loss, *sg.gradients(loss, [p])])
    z = sg.placeholder(("m", features), "float64")
    seen = sg.linalg.triangular_solve(factor, kernel(p, x, z))
    mean = sg.matrix_transpose(seen) @ white
    variance = sg.exp(2 * p[0]) + sg.exp(2 * p[1]) - sg.sum(seen * seen, axis=0)
    return fit, sg.compile([p, x, y, z], [mean, sg.sqrt(variance)])


def draw(path: Path, losses: Any, truth: Any, mean: Any, deviation: Any) -> None:
    """Draw the likelihood call by call, and the predictions with two deviations."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    learning, patients = figure.subplots(1, 2)
    learning.plot(losses, color="tab:blue")
    learning.set(xlabel="call", ylabel="negative log marginal likelihood")
    patients.errorbar(truth, mean, 2 * deviation, fmt=".", color="tab:red", ecolor="lightgray")
    patients.axline((0, 0), slope=1, color="gray")
    patients.set(xlabel="progression", ylabel="predicted, with two deviations")
    figure.savefig(path)


def main() -> None:
    """Fit the process, print how well it predicts, and draw."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--points", type=int, default=None, help="of those to learn from")
    parser.add_argument("--out", type=Path, default=Path("gaussian_process.png"))
    chosen = parser.parse_args()
    x, z, y, truth = load_split()
    x, y = x[: chosen.points], y[: chosen.points]
    fit, predict = make_steps(x.shape[1])
    losses: list[float] = []

    def objective(p: Any) -> tuple[float, Any]:
        loss, gradient = fit(p, x, y)
        losses.append(float(loss))
        return losses[-1], gradient

    start = np.zeros(2 + x.shape[1])
    objective(start)  # which compiles
    begin = time.perf_counter()
    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"maxiter": chosen.steps}
    )
    spent = (time.perf_counter() - begin) / max(len(losses) - 1, 1)
    mean, deviation = predict(found.x, x, y, z)
    explained = 1 - np.mean((truth - mean) ** 2) / np.mean((truth - truth.mean()) ** 2)
    inside = np.mean(np.abs(truth - mean) < 2 * deviation)
    draw(chosen.out, losses, truth, mean, deviation)
    print(f"likelihood: {-losses[0]:.1f} before, {-found.fun:.1f} after {len(losses)} calls")
    print(f"likelihood and gradient, steps per second: {1 / spent:,.0f}")
    print(f"variance explained: {explained:.1%}, within two deviations: {inside:.1%}")
    if explained < BOUND:
        sys.exit(f"less than {BOUND:.0%} of the variance is explained")


if __name__ == "__main__":
    main()
