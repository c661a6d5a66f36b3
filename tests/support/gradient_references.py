"""Gradients of factors and of inverses, and what they are made of, by NumPy's inverses."""

from __future__ import annotations

import numpy as np

from tests.support.case import Array


def gradient_of_r(x: Array, g: Array) -> Array:
    """Return the gradient of matrices by the inverse of R, given that of R."""
    if not x.size:
        return x
    q, r = np.linalg.qr(x)
    lower = np.tril(r @ np.triu(g).swapaxes(-1, -2))
    symmetric = lower + np.tril(lower, -1).swapaxes(-1, -2)
    return np.asarray(q @ symmetric @ np.linalg.inv(r).swapaxes(-1, -2))


def cholesky_gradient_of(factor: Array, g: Array) -> Array:
    """Return sym(L'^-1 phi(L' L_bar) L^-1) by inverses."""
    lower = np.tril(factor)
    inner = np.tril(lower.swapaxes(-1, -2) @ np.tril(g)) * (1 - np.eye(g.shape[-1]) / 2)
    inverse = np.linalg.inv(lower)
    symmetric = (inner + inner.swapaxes(-1, -2)) / 2
    return np.asarray(inverse.swapaxes(-1, -2) @ symmetric @ inverse)


def changed_inverse(w: Array, x: Array) -> Array:
    """Return the change of inverses, which are transposed, along x."""
    turned = w.swapaxes(-1, -2)
    return np.asarray(-(turned @ x @ turned))


def scaled_products_of(a: Array, g: Array) -> Array:
    """Return rows of R with ones on its diagonal and of the symmetric matrices, as columns."""
    upper = np.triu(a)
    product = upper @ np.triu(g).swapaxes(-1, -2)
    symmetric = np.tril(product) + np.tril(product, -1).swapaxes(-1, -2)
    scale = np.diagonal(a, axis1=-2, axis2=-1)[..., None]
    return np.concatenate([_elements(upper / scale), _elements(symmetric / scale)], 1).T


def _elements(x: Array) -> Array:
    return x.reshape((len(x), -1))
