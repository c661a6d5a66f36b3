"""Stateless draws: functions of a key, beside the methods of generators.

The same key gives the same values in each draw of one kind and shape, on every target and for any
number of threads. What they give, and what they raise, is said of the methods in `draws.py`; that
`key` is no key, a uint64 scalar, is a `DTypeError` or a `ShapeError` too.
"""

from __future__ import annotations

from typing import Any

from symgrad.graph.dtypes import DTypeLike, uint64
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.types import Shape
from symgrad.random.draws import Draws
from symgrad.random.streams import Domain, Stream, as_key, require_count


class _Keyed(Draws):
    """The draws of a key: all of them have the same bits."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def _stream(self, op: str, shape: Shape) -> Stream:
        require_count(op, shape)
        return Stream(as_key(op, self._key), constant(int(Domain.DRAW), uint64))


def draws_of(op: str, source: Any) -> Draws:
    """Return the draws of `source`, a generator or a key; an error is one of `op`."""
    return source if isinstance(source, Draws) else _Keyed(as_key(op, source))


def bits(key: Any, shape: Any, dtype: DTypeLike = "uint32") -> Tensor:
    """Return unsigned integers of random bits, as `Generator.bits`.

    >>> sg.run(sg.random.bits(sg.random.key(0), (2,)))
    array([ 567700268, 2708966050], dtype=uint32)
    """
    return _Keyed(key).bits(shape, dtype)


def uniform(
    key: Any, shape: Any, low: Any = 0.0, high: Any = 1.0, dtype: DTypeLike = "float32"
) -> Tensor:
    """Return floats spread evenly over [low, high), as `Generator.uniform`.

    >>> sg.run(sg.random.uniform(sg.random.key(0), (2,)))
    array([0.42137623, 0.6928198 ], dtype=float32)
    """
    return _Keyed(key).uniform(shape, low, high, dtype)


def normal(
    key: Any, shape: Any, mean: Any = 0.0, std: Any = 1.0, dtype: DTypeLike = "float32"
) -> Tensor:
    """Return floats of the normal distribution, as `Generator.normal`.

    >>> sg.run(sg.random.normal(sg.random.key(0), (2,)))
    array([ 0.54696393, -1.7754282 ], dtype=float32)
    """
    return _Keyed(key).normal(shape, mean, std, dtype)


def integers(key: Any, low: int, high: int, shape: Any, dtype: DTypeLike = "int32") -> Tensor:
    """Return integers from `low` to `high - 1`, as `Generator.integers`.

    >>> sg.run(sg.random.integers(sg.random.key(0), 0, 6, (5,)))
    array([2, 4, 4, 1, 5], dtype=int32)
    """
    return _Keyed(key).integers(low, high, shape, dtype)


def bernoulli(key: Any, p: Any, shape: Any) -> Tensor:
    """Return bools that are true with the chance `p`, as `Generator.bernoulli`.

    >>> sg.run(sg.random.bernoulli(sg.random.key(0), 0.5, (4,)))
    array([ True, False, False,  True])
    """
    return _Keyed(key).bernoulli(p, shape)


def exponential(key: Any, shape: Any, dtype: DTypeLike = "float32") -> Tensor:
    """Return floats of the exponential distribution of rate 1, as `Generator.exponential`.

    >>> sg.run(sg.random.exponential(sg.random.key(0), (2,)))
    array([0.54710287, 1.6459993 ], dtype=float32)
    """
    return _Keyed(key).exponential(shape, dtype)


def gumbel(key: Any, shape: Any, dtype: DTypeLike = "float32") -> Tensor:
    """Return floats of the standard Gumbel distribution, as `Generator.gumbel`.

    >>> sg.run(sg.random.gumbel(sg.random.key(0), (2,)))
    array([ 0.6031184, -0.4983477], dtype=float32)
    """
    return _Keyed(key).gumbel(shape, dtype)


def laplace(key: Any, shape: Any, dtype: DTypeLike = "float32") -> Tensor:
    """Return floats of the Laplace distribution of mean 0 and scale 1, as `Generator.laplace`.

    >>> sg.run(sg.random.laplace(sg.random.key(0), (2,)))
    array([0.54710287, 1.6459993 ], dtype=float32)
    """
    return _Keyed(key).laplace(shape, dtype)


def cauchy(key: Any, shape: Any, dtype: DTypeLike = "float32") -> Tensor:
    """Return floats of the Cauchy distribution of location 0 and scale 1, as `Generator.cauchy`.

    >>> sg.run(sg.random.cauchy(sg.random.key(0), (2,)))
    array([1.2834533, 0.523815 ], dtype=float32)
    """
    return _Keyed(key).cauchy(shape, dtype)


def truncated_normal(
    key: Any, shape: Any, low: Any = -2.0, high: Any = 2.0, dtype: DTypeLike = "float32"
) -> Tensor:
    """Return floats of the normal distribution from `low` to `high`.

    See `Generator.truncated_normal`.

    >>> sg.run(sg.random.truncated_normal(sg.random.key(0), (2,)))
    array([-1.1114867,  1.3357817], dtype=float32)
    """
    return _Keyed(key).truncated_normal(shape, low, high, dtype)


def gamma(key: Any, shape: Any, concentration: Any, dtype: DTypeLike = "float32") -> Tensor:
    """Return floats of the gamma distribution of scale 1, as `Generator.gamma`.

    >>> sg.run(sg.random.gamma(sg.random.key(0), (2,), 5.0))
    array([2.6538398, 8.187921 ], dtype=float32)
    """
    return _Keyed(key).gamma(shape, concentration, dtype)


def beta(key: Any, shape: Any, a: Any, b: Any, dtype: DTypeLike = "float32") -> Tensor:
    """Return floats of the beta distribution, as `Generator.beta`.

    >>> sg.run(sg.random.beta(sg.random.key(0), (2,), 2.0, 3.0))
    array([0.42456272, 0.28704774], dtype=float32)
    """
    return _Keyed(key).beta(shape, a, b, dtype)


def dirichlet(key: Any, shape: Any, alpha: Any, dtype: DTypeLike = "float32") -> Tensor:
    """Return floats of the Dirichlet distribution, which add up to 1, as `Generator.dirichlet`.

    >>> sg.run(sg.random.dirichlet(sg.random.key(0), (), [1.0, 2.0, 3.0]))
    array([0.0152727 , 0.56987405, 0.41485325], dtype=float32)
    """
    return _Keyed(key).dirichlet(shape, alpha, dtype)


def student_t(key: Any, shape: Any, df: Any, dtype: DTypeLike = "float32") -> Tensor:
    """Return floats of Student's t distribution, as `Generator.student_t`.

    >>> sg.run(sg.random.student_t(sg.random.key(0), (2,), 5.0))
    array([ 0.09075997, -0.24798611], dtype=float32)
    """
    return _Keyed(key).student_t(shape, df, dtype)


def poisson(key: Any, shape: Any, rate: Any, dtype: DTypeLike = "int32") -> Tensor:
    """Return integers of the Poisson distribution, as `Generator.poisson`.

    >>> sg.run(sg.random.poisson(sg.random.key(0), (4,), 3.0))
    array([7, 4, 3, 2], dtype=int32)
    """
    return _Keyed(key).poisson(shape, rate, dtype)


def categorical(key: Any, logits: Any, shape: Any = (), dtype: DTypeLike = "int32") -> Tensor:
    """Return positions along the last axis, with chances of softmax(logits).

    See `Generator.categorical`.

    >>> sg.run(sg.random.categorical(sg.random.key(0), [0.0, 50.0, 0.0], (3,)))
    array([1, 1, 1], dtype=int32)
    """
    return _Keyed(key).categorical(logits, shape, dtype)


def multinomial(key: Any, n: int, p: Any, dtype: DTypeLike = "int32") -> Tensor:
    """Return how often each category is among `n` draws, as `Generator.multinomial`.

    >>> sg.run(sg.random.multinomial(sg.random.key(0), 10, [0.5, 0.25, 0.25]))
    array([5, 2, 3], dtype=int32)
    """
    return _Keyed(key).multinomial(n, p, dtype)


def permutation(key: Any, x: Any) -> Tensor:
    """Return `x`, or the integers below it, in a random order, as `Generator.permutation`.

    >>> sg.run(sg.random.permutation(sg.random.key(0), 5))
    array([3, 0, 1, 2, 4])
    """
    return _Keyed(key).permutation(x)


def choice(key: Any, a: Any, shape: Any = (), *, replace: bool = True, p: Any = None) -> Tensor:
    """Return elements of `a`, or integers below it, as `Generator.choice`.

    >>> sg.run(sg.random.choice(sg.random.key(0), [10, 20, 30], (4,)))
    array([20, 30, 30, 10], dtype=int32)
    """
    return _Keyed(key).choice(a, shape, replace=replace, p=p)


def orthogonal(key: Any, n: int, shape: Any = (), dtype: DTypeLike = "float32") -> Tensor:
    """Return orthogonal matrices of the Haar distribution, as `Generator.orthogonal`.

    >>> q = sg.random.orthogonal(sg.random.key(0), 3)
    >>> bool(np.allclose(sg.run(q.T @ q), np.eye(3), atol=1e-6))
    True
    """
    return _Keyed(key).orthogonal(n, shape, dtype)
