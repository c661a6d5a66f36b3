"""Gamma distribution and what is made of it: gamma, beta, Dirichlet and Student's t.

A draw has an implicit gradient by its parameter: the sample z for which P(a, z) stays what it is
moves with a by -(dP/da) / (dP/dz). M. Figurnov, S. Mohamed, A. Mnih, "Implicit reparameterization
gradients", 2018. The others are functions of gamma draws, and so are their gradients. They are
made of logarithms, since a gamma variate of a small parameter is often less than any float.
"""

from __future__ import annotations

from typing import Any

from symgrad.graph.dtypes import float64
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import add, divide, multiply, negative, subtract
from symgrad.graph.ops.comparison import greater, less, where
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.gamma import digamma
from symgrad.graph.ops.incomplete_gamma import gamma_draw_derivative
from symgrad.graph.ops.portable import portable_exp, portable_log
from symgrad.graph.ops.reduction import max as greatest
from symgrad.graph.ops.reduction import sum
from symgrad.passes.gradients.custom_gradient import custom_gradient
from symgrad.random.distributions import portable_normal
from symgrad.random.rejection import flat_parameter, gamma_parts
from symgrad.random.rotations import sum_by_halves
from symgrad.random.streams import Stream

# Parts of a stream, beside the rounds of `rejection.py` and what follows them.
_FIRST, _SECOND, _NORMAL = 1001, 1002, 1003


def gamma_samples(stream: Stream, concentration: Tensor) -> tuple[Tensor, Tensor]:
    """Return samples of the gamma distribution of scale 1, and their logarithms.

    The logarithm of one that is less than any float is finite, and has a gradient too.
    """
    # Beside the argument, for what is repeated along all axes would no longer be seen to be.
    plain = flat_parameter(concentration)

    def drawn(a: Tensor) -> Any:
        body, power = gamma_parts(stream, plain, a.shape)
        z = multiply(body, portable_exp(power))
        log_z = add(portable_log(body), power)

        def gradient(dz: Tensor, dlog_z: Tensor) -> Tensor:
            slope = _log_slope(a, z, log_z)
            return add(multiply(multiply(dz, z), slope), multiply(dlog_z, slope))

        return (z, log_z), gradient

    z, log_z = custom_gradient(drawn)(concentration)
    return z, log_z


def _log_slope(a: Tensor, z: Tensor, log_z: Tensor) -> Tensor:
    """Return the derivative by `a` of the logarithm of a gamma sample z.

    Where z is small, P(a, z) is z**a / gamma(a + 1) but for a factor 1 - z * a / (a + 1), of which
    the logarithm of z is all that is left of a z that is less than any float.
    """
    tiny = 2.0**-54 if z.dtype == float64 else 2.0**-25
    is_tiny = less(z, tiny)
    safe = where(is_tiny, 1.0, z)
    near_zero = divide(subtract(digamma(add(a, 1.0)), log_z), a)
    return where(is_tiny, near_zero, divide(gamma_draw_derivative(a, safe), safe))


def beta_samples(stream: Stream, a: Tensor, b: Tensor) -> Tensor:
    """Return x / (x + y) for gamma samples x of `a` and y of `b`."""
    _, log_x = gamma_samples(stream.part(_FIRST), a)
    _, log_y = gamma_samples(stream.part(_SECOND), b)
    gap = subtract(log_y, log_x)
    is_above = greater(gap, 0.0)
    ratio = portable_exp(where(is_above, negative(gap), gap))
    return divide(where(is_above, ratio, 1.0), add(ratio, 1.0))


def dirichlet_samples(stream: Stream, alpha: Tensor) -> Tensor:
    """Return gamma samples of `alpha` divided by their sum along the last axis."""
    _, logs = gamma_samples(stream, alpha)
    largest = stop_gradient(greatest(logs, axis=-1, keepdims=True))
    parts = portable_exp(subtract(logs, largest))
    return divide(parts, _sum_of_last(parts))


def _sum_of_last(x: Tensor) -> Tensor:
    """Return the sum along the last axis, which stays; of a known size in a portable order."""
    return sum_by_halves(x) if isinstance(x.shape[-1], int) else sum(x, axis=-1, keepdims=True)


def student_t_samples(stream: Stream, df: Tensor) -> Tensor:
    """Return n * sqrt(df / 2 / z) for normal samples n and gamma samples z of df / 2."""
    half = multiply(df, 0.5)
    _, log_z = gamma_samples(stream.part(_FIRST), half)
    exponent = multiply(subtract(portable_log(half), log_z), 0.5)
    is_above = greater(exponent, 0.0)
    factor = portable_exp(where(is_above, negative(exponent), exponent))
    words, other_words = stream.part(_NORMAL).words(df.shape)
    n = portable_normal(words, other_words, df.dtype)
    return multiply(n, where(is_above, divide(1.0, factor), factor))
