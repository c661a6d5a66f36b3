"""The problems of GradBench in NumPy, for small sizes; derivatives are complex steps.

Written from the definitions, not from what is in `benchmarks/gradbench/`. A reference takes what a
problem is given and returns its results; `derivatives` makes a Jacobian of a function of a vector.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

STEP = 1e-30


def derivatives(function: Callable[[Any], Any], x: Any) -> Any:
    """Return the Jacobian of a real analytic function: a column for each element of x."""
    columns = []
    for place in range(x.size):
        moved = x.astype(complex)
        moved.reshape(-1)[place] += 1j * STEP
        columns.append(np.ravel(function(moved)).imag / STEP)
    return np.stack(columns, axis=1)


def gradient(function: Callable[[Any], Any], x: Any) -> Any:
    """Return the gradient of a real analytic scalar, in the shape of x."""
    return derivatives(function, x).reshape(x.shape)


def llsq(x: Any, n: int) -> Any:
    """Sum the squares for each place on its own."""
    total = 0
    for i in range(n):
        t = -1 + 2 * i / (n - 1)
        total = total + (np.sign(t) - sum(x[j] * t**j for j in range(len(x)))) ** 2
    return total / 2


def lse(x: Any) -> Any:
    """Take the logarithm of the sum: small numbers need no maximum."""
    return np.log(np.exp(x).sum())


def kmeans(points: Any, centroids: Any) -> Any:
    """Return the cost, and centroids less the means of their points."""
    squares = np.array([[((p - c) ** 2).sum() for c in centroids] for p in points])
    nearest = squares.argmin(1)
    means = [points[nearest == k].mean(0) for k in range(len(centroids))]
    return squares.min(1).sum(), centroids - np.array(means)


def ode(x: Any, s: int) -> Any:
    """Take s steps of the classical method of fourth order, with a matrix and a vector."""
    h, y = 2 / s, np.zeros_like(x)
    matrix, drive = np.diag(x[1:], -1), np.zeros_like(x)
    drive[0] = x[0]
    for _ in range(s):
        k1 = matrix @ y + drive
        k2 = matrix @ (y + h * k1 / 2) + drive
        k3 = matrix @ (y + h * k2 / 2) + drive
        k4 = matrix @ (y + h * k3) + drive
        y = y + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6
    return y


def det(a: Any) -> Any:
    """Sum the signed products over all permutations."""
    total, n = 0, len(a)
    for chosen in itertools.permutations(range(n)):
        inversions = sum(chosen[i] > chosen[j] for i in range(n) for j in range(i + 1, n))
        total = total + (-1) ** inversions * np.prod([a[i, chosen[i]] for i in range(n)])
    return total


def gmm(x: Any, alpha: Any, mu: Any, q: Any, below: Any) -> Any:
    """Sum logarithms of densities, as the textbook has them, with the prior."""
    d, k = x.shape[1], len(alpha)
    factors = np.zeros((k, d, d), np.result_type(q, below))
    for component in range(k):
        entries = iter(below[component])
        for column in range(d):
            factors[component, column, column] = np.exp(q[component, column])
            for row in range(column + 1, d):
                factors[component, row, column] = next(entries)
    total = 0
    for point in x:
        likelihoods = 0
        for component, factor in enumerate(factors):
            y = factor @ (point - mu[component])
            share = np.exp(alpha[component]) / np.exp(alpha).sum()
            scale = np.exp(q[component].sum()) / (2 * math.pi) ** (d / 2)
            likelihoods = likelihoods + share * scale * np.exp(-(y @ y) / 2)
        total = total + np.log(likelihoods)
    degrees = d + 1
    gammas = sum(math.lgamma((degrees + 1 - j) / 2) for j in range(1, d + 1))
    log_gamma = d * (d - 1) / 4 * math.log(math.pi) + gammas
    constant = k * (degrees * d * math.log(1 / math.sqrt(2)) - log_gamma)
    return total + constant - 0.5 * (factors * factors).sum()


def _turned(axis: Any, x: Any) -> Any:
    """Turn x about an axis: the exponential of a skew matrix, as a series."""
    a, b, c = axis
    skew = np.array([[0 * a, -c, b], [c, 0 * a, -a], [-b, a, 0 * a]])
    term, total = x, x
    for order in range(1, 40):
        term = skew @ term / order
        total = total + term
    return total


def ba_error(row: Any, seen: Any) -> Any:
    """Return the error of one observation, by camera, point and weight in a row."""
    camera, point, w = row[:11], row[11:14], row[14]
    x, y, z = _turned(camera[:3], point - camera[3:6])
    u = np.stack([x / z, y / z])
    square = (u * u).sum()
    distortion = 1 + camera[9] * square + camera[10] * square**2
    return w * (u * distortion * camera[6] + camera[7:9] - seen)


def ba_rows(cams: Any, x: Any, w: Any) -> list[Any]:
    """Return for each observation what its error depends on."""
    return [np.hstack([cams[i % len(cams)], x[i % len(x)], w[i]]) for i in range(len(w))]


def ba_matrix(cams: Any, x: Any, w: Any, feat: Any) -> Any:
    """Return the Jacobian in full."""
    n, m, p = len(cams), len(x), len(w)
    found = np.zeros((3 * p, 11 * n + 3 * m + p))
    for i, row in enumerate(ba_rows(cams, x, w)):
        block = derivatives(partial(ba_error, seen=feat[i]), row)
        camera, point = 11 * (i % n), 11 * n + 3 * (i % m)
        found[2 * i : 2 * i + 2, camera : camera + 11] = block[:, :11]
        found[2 * i : 2 * i + 2, point : point + 3] = block[:, 11:14]
        found[2 * i : 2 * i + 2, 11 * n + 3 * m + i] = block[:, 14]
        found[2 * p + i, 11 * n + 3 * m + i] = -2 * w[i]
    return found


def _rotation(axis: int, angle: Any) -> Any:
    """Return the matrix in homogeneous coordinates that turns about a coordinate axis."""
    matrix = np.eye(4, dtype=complex)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    matrix[i, i] = matrix[j, j] = np.cos(angle)
    matrix[j, i], matrix[i, j] = np.sin(angle), -np.sin(angle)
    return matrix


def ht(theta: Any, us: Any, given: dict[str, Any]) -> Any:
    """Return the errors of all points, of a hand posed by a table of three angles for each row."""
    table = np.zeros((25, 3), complex)
    place, row = 6, 5
    for _ in range(5):
        for joint in range(3):
            table[row, 0] = theta[place]
            place += 1
            if joint == 0:
                table[row, 1] = theta[place]
                place += 1
            row += 1
        row += 1
    positions = np.zeros((len(given["weights"]), 3), complex)
    absolutes: list[Any] = []
    for bone in range(22):
        x, z, y = table[bone + 3]
        moved = given["base_relatives"][bone] @ (
            _rotation(2, z) @ _rotation(1, y) @ _rotation(0, x)
        )
        parent = {0: None, 1: 0}.get(bone, 1 if (bone - 2) % 4 == 0 else bone - 1)
        absolutes.append(moved if parent is None else absolutes[parent] @ moved)
        transform = absolutes[bone] @ given["inverse_base_absolutes"][bone]
        placed = (given["base_positions"] @ transform.T)[:, :3]
        positions = positions + given["weights"][:, bone : bone + 1] * placed
    turned = np.stack([_turned(theta[:3], p) for p in positions]) + theta[3:6]
    corners = given["triangles"][given["correspondences"]]
    u, v = us[:, :1], us[:, 1:]
    a, b, c = (turned[corners[:, i]] for i in range(3))
    return (given["points"] - (u * a + v * b + (1 - u - v) * c)).ravel()


def lstm(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """Return the loss, with a table of gates for each layer."""
    units, layers, total = 14, len(main) // 2, 0
    hidden = [state[2 * i] + 0 * main[0, 0] for i in range(layers)]
    cell = [state[2 * i + 1] + 0 * main[0, 0] for i in range(layers)]
    for row, wanted in itertools.pairwise(sequence):
        x = row * extra[0]
        for i in range(layers):
            gates = np.stack([x, hidden[i], x, hidden[i]]) * main[2 * i].reshape(4, units)
            gates = gates + main[2 * i + 1].reshape(4, units)
            forget, ingate, outgate = 1 / (1 + np.exp(-gates[:3]))
            cell[i] = cell[i] * forget + ingate * np.tanh(gates[3])
            x = hidden[i] = outgate * np.tanh(cell[i])
        predicted = x * extra[1] + extra[2]
        total = total - (wanted * (predicted - np.log(2 + np.exp(predicted).sum()))).sum()
    return total / (units * (len(sequence) - 1))
