"""Covariances and correlations of variables; no op is declared here."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, called, user_source
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.given_arrays import require_size
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, promote_operands
from symgrad.graph.ops.arithmetic import divide, multiply, subtract
from symgrad.graph.ops.complex_parts import complex_op, conj, imag, real
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.diagonals import diag
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.ops.extrema import clip, maximum
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import accumulator_dtype, expand_dims, reshape
from symgrad.graph.ops.transcendental import sqrt
from symgrad.graph.ops.views import matrix_transpose
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim


@public(functions=[np.cov])
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None,
) -> Tensor:  # fmt: skip
    """Covariance matrix: for each two variables the mean product of their deviations.

    The rows of `m` are variables and its columns observations, without `rowvar` the other way
    round; a vector is one variable. `y` has more variables of the same observations. The sum of
    products is divided by n - `ddof`, where `ddof` is 1 if not given, or 0 with `bias`. `fweights`
    says how often each observation counts, integers, and `aweights` how much. Integers are
    computed as float32; the second factor of a product of complex numbers is conjugated. The result
    is a matrix, for one variable a scalar, and has a gradient. Raises `ShapeError` for more
    than two axes, or weights that are no vector.

    >>> sg.run(sg.cov([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    with called("cov"):
        x, dtype = _variables("cov", m, y, rowvar)
        weights = _weights(x, fweights, aweights)
        freedom = (0 if bias else 1) if ddof is None else require_size("cov", "ddof", ddof)
        return cast(_covariance(x, weights, aweights, freedom), dtype)


@public(functions=[np.corrcoef])
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Tensor:
    """Correlation coefficients (Pearson): covariances divided by both standard deviations.

    What `x`, `y` and `rowvar` are is said of `cov`, and so are the result and the errors. They are
    from -1 to 1, and nan for a variable that is constant.

    >>> sg.run(sg.corrcoef([1.0, 2.0, 3.0], [6.0, 4.0, 2.0]))
    array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    with called("corrcoef"):
        variables, dtype = _variables("corrcoef", x, y, rowvar)
        found = _covariance(variables, None, None, 1)
        if found.ndim == 0:
            return cast(divide(found, found), dtype)
        deviation = sqrt(real(diag(found)))
        scaled = divide(divide(found, expand_dims(deviation, 1)), deviation)
        return cast(_limited(scaled), dtype)


def _limited(x: Tensor) -> Tensor:
    """Limit numbers, or the parts of complex ones, to those from -1 to 1."""
    if not x.dtype.is_complex:
        return clip(x, -1, 1)
    return apply(complex_op, clip(real(x), -1, 1), clip(imag(x), -1, 1))


def _variables(op: str, m: Any, y: Any, rowvar: bool) -> tuple[Tensor, DType]:
    """Return variables as rows, in the dtype they are computed in, and the one of the result."""
    parts = [float_operand(part) for part in (m, *(() if y is None else (y,)))]
    parts = promote_operands(op, *parts)
    for name, part in zip(("x", "y"), parts, strict=False):
        if part.ndim > 2:
            problem = f"{name}: {part.type} has more axes than variables and observations"
            raise ShapeError(op, problem, source=user_source())
    rows = [
        matrix_transpose(part)
        if part.ndim == 2 and not rowvar
        else reshape(part, (1, -1))
        if part.ndim < 2
        else part
        for part in parts
    ]
    joined = concat(rows, axis=0) if len(rows) > 1 else rows[0]
    return cast(joined, accumulator_dtype(joined.dtype)), joined.dtype


def _weights(x: Tensor, fweights: Any, aweights: Any) -> Tensor | None:
    """Return the weight of each observation, or None for none."""
    found: Tensor | None = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        weights = as_tensor(given)
        if weights.ndim != 1:
            raise ShapeError("cov", f"{name}: {weights.type} is no vector", source=user_source())
        if name == "fweights" and not weights.dtype.is_integer:
            problem = f"{name}: {weights.type} is no integer"
            raise DTypeError("cov", problem, source=user_source())
        weights = cast(weights, x.dtype.real)
        found = weights if found is None else multiply(found, weights)
    return found


def _covariance(x: Tensor, weights: Tensor | None, aweights: Any, freedom: Dim) -> Tensor:
    count = size_of(x.shape[1], x.dtype.real)
    if weights is None:
        total, left = count, subtract(count, freedom)
        weighted = x
    else:
        total = left = sum_over(weights)
        share: Any = 1
        if aweights is not None:
            scale = cast(as_tensor(aweights), x.dtype.real)
            share = divide(sum_over(multiply(weights, scale)), total)
        if freedom:
            left = subtract(total, multiply(share, freedom))
        weighted = multiply(x, weights)
    deviation = subtract(x, divide(sum_over(weighted, 1, keepdims=True), total))
    scaled = deviation if weights is None else multiply(deviation, weights)
    products = matmul(deviation, conj(scaled), transpose_b=True)
    found = divide(products, maximum(left, 0))
    return reshape(found, ()) if found.shape == (1, 1) else found
