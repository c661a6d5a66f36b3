"""Random programs of linear algebra: factorisations and what is solved by them, of random matrices.

Some matrices are of full rank and some not, with elements that are whole, so that elimination meets
columns without a pivot and exact zeros. What needs an inverse, a definite matrix or values that lie
apart is given one that is made of them. Of vectors that are known but for their sign, the squares
are taken. Functions stand in one another's results, and in functions, branches and loops.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import DType
from symgrad.graph.types import Array
from tests.support.drawing import Drawing, Layer, Tensor, sizes_of, within

_MAX_ELEMENTS = 2000  # of what a function is given
_SIZES = (1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 11, 12, 14, 16, 17)

# ------------------------------------------------------------------------------ matrices drawn


def _matrices(net: Drawing) -> Tensor:
    """Return square matrices, one or a batch, as a new input."""
    n = _SIZES[net.integer(0, len(_SIZES) - 1)]
    most = max(1, min(9, _MAX_ELEMENTS // (n * n)))
    batch = [(), (net.integer(1, most),), (net.integer(1, 2), net.integer(1, max(1, most // 2)))]
    shape = batch[net.integer(0, 2)]
    kind = net.integer(0, 4)
    if kind < 2:
        return net.input(*shape, n, n)
    whole = net.rng.integers(-2, 3, (*shape, n, n)).astype(np.float64)
    return net.given(whole if kind == 2 else _of_lower_rank(net, whole))


def _of_lower_rank(net: Drawing, whole: Array) -> Array:
    """Return whole matrices in which rows and columns are those of others, or are zeros."""
    n = whole.shape[-1]
    i, j, k = (net.integer(0, n - 1) for _ in range(3))
    kind = net.integer(0, 3)
    if kind == 0:
        whole[..., i, :] = whole[..., j, :] * net.integer(-1, 1) * (i != j)
    if kind == 1:
        whole[..., :, i] = whole[..., :, j] * net.integer(-1, 1) * (i != j)
    if kind == 2:
        whole[..., i, :], whole[..., :, k] = 0, 0
    if kind == 3:
        whole = whole[..., : n // 2] @ whole[..., : n // 2, :]
    return whole


def _ones(x: Tensor) -> Tensor:
    return sg.eye(sizes_of(x)[-1], dtype=x.dtype)


def _regular(net: Drawing, x: Tensor) -> Tensor:
    """Return matrices with an inverse, mostly such that elimination must exchange rows."""
    near = x / sizes_of(x)[-1] + _ones(x) * 2.5
    return sg.roll(near, net.integer(0, 3), axis=-2)


def _definite(x: Tensor) -> Tensor:
    return sg.matmul(x, sg.matrix_transpose(x)) / sizes_of(x)[-1] + _ones(x)


def _spread(x: Tensor) -> Tensor:
    """Return symmetric matrices with eigenvalues that lie apart."""
    n = sizes_of(x)[-1]
    apart = _ones(x) * sg.arange(1, n + 1).astype(x.dtype)
    return (x + sg.matrix_transpose(x)) * (0.1 / n) + apart


def _tall(net: Drawing, x: Tensor) -> Tensor:
    """Return matrices of full rank with at least as many rows as columns."""
    return sg.concat([_regular(net, x), x[..., : net.integer(0, 3), :]], axis=-2)


def _columns(net: Drawing, x: Tensor) -> Tensor:
    """Return right hand sides: some columns, an input or made of `x`."""
    if net.chance():
        return x[..., : net.integer(1, 3)]
    return net.input(sizes_of(x)[-1], net.integer(1, 4))


# ------------------------------------------------------------------------------ functions


def _det(_net: Drawing, x: Tensor) -> Tensor:
    return sg.linalg.det(x) + 1  # away from 0, of which each last bit is another


def _slogdet(net: Drawing, x: Tensor) -> Tensor:
    sign, logarithm = sg.linalg.slogdet(_regular(net, x))
    return sign * logarithm


def _inv(net: Drawing, x: Tensor) -> Tensor:
    return sg.linalg.inv(_regular(net, x))


def _solve(net: Drawing, x: Tensor) -> Tensor:
    return sg.linalg.solve(_regular(net, x), _columns(net, x))


def _cholesky(net: Drawing, x: Tensor) -> Tensor:
    factor = sg.linalg.cholesky(_definite(x), upper=net.chance(3))
    return factor + x if net.chance() else factor


def _cho_solve(net: Drawing, x: Tensor) -> Tensor:
    return sg.linalg.cho_solve(sg.linalg.cholesky(_definite(x)), _columns(net, x))


def _triangular_solve(net: Drawing, x: Tensor) -> Tensor:
    near = x / sizes_of(x)[-1] + _ones(x) * 2.5
    given = {name: net.chance() for name in ("lower", "transpose", "unit_diagonal")}
    return sg.linalg.triangular_solve(near, _columns(net, x), **given)


def _lu(net: Drawing, x: Tensor) -> Tensor:
    _, lower, upper = sg.linalg.lu(_regular(net, x))
    return sg.matmul(lower, upper * 0.5) + lower


def _qr(net: Drawing, x: Tensor) -> Tensor:
    q, r = sg.linalg.qr(_tall(net, x))
    return sg.matmul(sg.square(q), sg.square(r))


def _eigh(net: Drawing, x: Tensor) -> Tensor:
    if net.chance(3):
        return sg.linalg.eigvalsh(_spread(x))
    values, vectors = sg.linalg.eigh(_spread(x))
    return sg.square(vectors) * values[..., None, :]


def _svd(net: Drawing, x: Tensor) -> Tensor:
    given = _spread(x)
    if net.chance():
        given = sg.concat([given, x[..., : net.integer(0, 2), :] * 0.05], axis=-2)
    if net.chance(3):
        return sg.linalg.svdvals(given)
    u, values, vh = sg.linalg.svd(given, full_matrices=False)
    return sg.matmul(sg.square(u) * values[..., None, :], sg.square(vh))


def _pinv(net: Drawing, x: Tensor) -> Tensor:
    return sg.linalg.pinv(_tall(net, x))


def _lstsq(net: Drawing, x: Tensor) -> Tensor:
    tall = _tall(net, x)
    return sg.linalg.lstsq(tall, tall[..., :1] * 0.5 + 1)[0]


def _expm(_net: Drawing, x: Tensor) -> Tensor:
    return sg.linalg.expm(x / sizes_of(x)[-1])


def _sqrtm(_net: Drawing, x: Tensor) -> Tensor:
    return sg.linalg.sqrtm(_spread(x))


def _power(net: Drawing, x: Tensor) -> Tensor:
    return sg.linalg.matrix_power(x / sizes_of(x)[-1], net.integer(0, 4))


def _norm(net: Drawing, x: Tensor) -> Tensor:
    orders: tuple[Literal["fro", "nuc"] | int, ...] = ("fro", "nuc", 2, -2)
    return sg.linalg.matrix_norm(_spread(x), ord=orders[net.integer(0, 3)])


_FUNCTIONS: tuple[Layer, ...] = (
    _det, _det, _det, _slogdet, _inv, _inv, _solve, _solve, _cholesky, _cho_solve,
    _triangular_solve, _lu, _qr, _eigh, _svd, _pinv, _lstsq, _expm, _sqrtm, _power, _norm,
)  # fmt: skip


def _function(net: Drawing, x: Tensor) -> Tensor:
    """Return what a random function makes of square matrices, between elementwise ones."""
    if net.chance(3):
        x = sg.where(x > net.integer(-1, 0), x, 0.0)
    y = _FUNCTIONS[net.integer(0, len(_FUNCTIONS) - 1)](net, x)
    return sg.tanh(y) if net.chance(4) else y


def _square(y: Tensor) -> Tensor:
    """Return square matrices made of what a function returned."""
    if y.ndim < 2:
        return sg.reshape(y, (-1, 1, 1))
    rows, columns = sizes_of(y)[-2:]
    if rows == columns:
        return y
    least = min(rows, columns, 16)
    return y[..., :least, :least]


# ------------------------------------------------------------------------------ programs


def random_matrices(seed: int, dtype: DType) -> tuple[sg.Graph, list[Array]]:
    """Return functions of matrices with first gradients, of one in eight second ones."""
    net = Drawing(np.random.default_rng(seed), dtype)
    y = within(net, _matrices(net), _function)
    results = [y]
    if net.chance():
        results.append(within(net, _square(y), _function))
    loss = _total([sg.mean(sg.square(result)) for result in results])
    found = [g for g in sg.gradients(loss, net.inputs) if g is not None]
    outputs = [*results, loss, *found]
    if net.chance(8) and found:
        total = _total([sg.sum(sg.square(g)) for g in found])
        outputs += [g for g in sg.gradients(total, net.inputs[:2]) if g is not None]
    return sg.Graph(outputs, net.inputs, name="matrices"), net.arrays


def _total(terms: list[Tensor]) -> Tensor:
    return sum(terms[1:], terms[0])
