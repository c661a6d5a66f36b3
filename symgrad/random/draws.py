"""Draws from distributions: what generators and keys have in common.

Each method checks its arguments, takes the random bits of a draw and builds what is computed from
them. Where the bits come from is for `generator.py` and `keyed.py`; what is computed is in
`distributions.py` and the modules beside it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.frontend.creation import as_shape
from symgrad.graph.dtypes import DType, DTypeLike, as_dtype, float32, float64
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, constant
from symgrad.graph.ops.arithmetic import add, multiply, subtract
from symgrad.graph.ops.comparison import less
from symgrad.graph.ops.portable import exponential_of_bits
from symgrad.graph.types import Shape
from symgrad.random.discrete import (
    as_count,
    as_logits,
    categorical_samples,
    multinomial_counts,
    range_of,
)
from symgrad.random.distributions import (
    below,
    portable_normal,
    signed,
    unit_cauchy,
    unit_gumbel,
    unit_uniform,
)
from symgrad.random.gammas import beta_samples, dirichlet_samples, gamma_samples, student_t_samples
from symgrad.random.orders import chosen, shuffled
from symgrad.random.parameters import (
    as_float,
    as_integer,
    is_number,
    moved,
    named_parameter,
    parameter,
)
from symgrad.random.rejection import poisson_samples, truncated_normal_samples
from symgrad.random.rotations import orthogonal_matrices
from symgrad.random.streams import Stream


class Draws(ABC):
    """Draws from distributions, of the random bits that `_stream` hands out."""

    @abstractmethod
    def _stream(self, op: str, shape: Shape) -> Stream:
        """Return the bits of the draw `op` of `shape`."""

    def _unit_normal(self, words: Tensor, other_words: Tensor, dtype: DType) -> Tensor:
        """Return normal samples of bits; those of generators were settled before these."""
        return portable_normal(words, other_words, dtype)

    def bits(self, shape: Any, dtype: DTypeLike = "uint32") -> Tensor:
        """Return unsigned integers, of which every bit is set with a chance of 1/2.

        Raises `DTypeError` for another dtype.

        >>> sg.run(sg.random.Generator(0).bits((2,), "uint8")).dtype
        dtype('uint8')
        """
        wanted = as_dtype(dtype)
        if wanted.kind != "unsigned":
            problem = f"dtype {wanted.name} is no unsigned integer"
            raise DTypeError("bits", problem, source=user_source())
        words, _ = self._words("bits", as_shape("bits", shape))
        return cast(words, wanted)

    def uniform(
        self, shape: Any, low: Any = 0.0, high: Any = 1.0, dtype: DTypeLike = "float32"
    ) -> Tensor:
        """Return floats spread evenly over [low, high).

        They are `low + (high - low) * u`, where u is a multiple of 2**-24 in float32 and of 2**-53
        in float64: rounding can give `high` where `low` is not 0. The limits are numbers or
        tensors that broadcast to `shape`, through which gradients flow. Raises `DTypeError` for
        another dtype, `GraphError` for numbers of which the first is not the lesser.

        >>> x = sg.run(sg.random.Generator(0).uniform((1000,), -1.0, 1.0))
        >>> bool((x >= -1).all() and (x < 1).all())
        True
        """
        sizes, wanted = as_shape("uniform", shape), as_float("uniform", dtype)
        if is_number(low) and is_number(high) and not -math.inf < low < high < math.inf:
            problem = f"low {low} is not below high {high}, both finite"
            raise GraphError("uniform", problem, source=user_source())
        words, _ = self._words("uniform", sizes)
        u = unit_uniform(words, wanted)
        if is_number(low) and is_number(high):
            return moved(u, high - low, low)
        first, last = (parameter(limit, sizes, wanted) for limit in (low, high))
        return add(multiply(u, subtract(last, first)), first)

    def normal(
        self, shape: Any, mean: Any = 0.0, std: Any = 1.0, dtype: DTypeLike = "float32"
    ) -> Tensor:
        """Return floats of the normal distribution, by the method of Box and Muller.

        `mean` and `std`, the standard deviation, are numbers or tensors that broadcast to `shape`,
        through which gradients flow. No sample of a generator is further than 5.77 `std` from the
        mean in float32 and 8.58 in float64; of a key, 7.54 and 9.5. Raises `DTypeError` for
        another dtype, `GraphError` for a negative number `std`.

        >>> x = sg.run(sg.random.Generator(0).normal((10_000,), mean=5.0))
        >>> x.mean().round(1)
        np.float32(5.0)
        """
        sizes, wanted = as_shape("normal", shape), as_float("normal", dtype)
        if is_number(std) and not 0 <= std < math.inf:
            raise GraphError("normal", f"std {std} is no deviation", source=user_source())
        z = self._unit_normal(*self._words("normal", sizes), wanted)
        if is_number(mean) and is_number(std):
            return moved(z, std, mean)
        return add(multiply(z, parameter(std, sizes, wanted)), parameter(mean, sizes, wanted))

    def integers(self, low: int, high: int, shape: Any, dtype: DTypeLike = "int32") -> Tensor:
        """Return integers from `low` to `high - 1`, all equally likely but for 2**-32.

        Raises `DTypeError` for a dtype that is no integer, `GraphError` for limits it does not
        hold, an empty range, or one of more than 2**32 integers.

        >>> sorted(set(sg.run(sg.random.Generator(0).integers(1, 7, (100,))).tolist()))
        [1, 2, 3, 4, 5, 6]
        """
        sizes, wanted = as_shape("integers", shape), as_dtype(dtype)
        low, high = range_of(low, high, wanted)
        words, _ = self._words("integers", sizes)
        # Wrapping arithmetic: what does not fit in between does in the end.
        return add(cast(below(words, high - low), wanted), constant(low, wanted))

    def bernoulli(self, p: Any, shape: Any) -> Tensor:
        """Return bools that are true with the chance `p`, a number or tensor of floats.

        A tensor broadcasts to `shape`. Chances are multiples of 2**-24, of 2**-53 for a float64
        tensor. Raises `GraphError` for a number that is no chance, `DTypeError` for no floats.

        >>> sg.run(sg.random.Generator(0).bernoulli(1.0, (3,)))
        array([ True,  True,  True])
        """
        sizes = as_shape("bernoulli", shape)
        if is_number(p) and not 0 <= p <= 1:
            raise GraphError("bernoulli", f"p {p} is not from 0 to 1", source=user_source())
        chance = constant(p, float32) if is_number(p) else as_tensor(p)
        if not chance.dtype.is_float:
            raise DTypeError("bernoulli", f"p: {chance.type} is no float", source=user_source())
        wide = float64 if chance.dtype == float64 else float32
        words, _ = self._words("bernoulli", sizes)
        return less(unit_uniform(words, wide), parameter(chance, sizes, wide))

    def exponential(self, shape: Any, dtype: DTypeLike = "float32") -> Tensor:
        """Return floats of the exponential distribution of rate 1: multiply by a scale.

        Both ends are as fine as floats are: the least sample is about 2**-41 in float32 and 2**-65
        in float64, the greatest 28.4 and 45.1. Raises `DTypeError` for another dtype.

        >>> rng = sg.random.Generator(0)
        >>> sg.run(rng.exponential((10_000,)).mean()).round(1)
        np.float32(1.0)
        """
        sizes, wanted = as_shape("exponential", shape), as_float("exponential", dtype)
        return exponential_of_bits(self._words("exponential", sizes)[0], wanted)

    def gumbel(self, shape: Any, dtype: DTypeLike = "float32") -> Tensor:
        """Return floats of the standard Gumbel distribution, of greatest values.

        They are `-log(e)` for e of the exponential distribution, from -3.4 to 28.4 in float32 and
        from -3.9 to 45 in float64. Raises `DTypeError` for another dtype.

        >>> sg.argmax(sg.random.Generator(0).gumbel((3,)) + [0.0, 1.0, 2.0]).dtype
        symgrad.int64
        """
        sizes, wanted = as_shape("gumbel", shape), as_float("gumbel", dtype)
        return unit_gumbel(self._words("gumbel", sizes)[0], wanted)

    def laplace(self, shape: Any, dtype: DTypeLike = "float32") -> Tensor:
        """Return floats of the Laplace distribution of mean 0 and scale 1, density e**-|x| / 2.

        They are samples of the exponential distribution with a sign. Raises `DTypeError` for
        another dtype.

        >>> sg.random.Generator(0).laplace((2, 3)).shape
        (2, 3)
        """
        sizes, wanted = as_shape("laplace", shape), as_float("laplace", dtype)
        words, other_words = self._words("laplace", sizes)
        return signed(exponential_of_bits(words, wanted), other_words)

    def cauchy(self, shape: Any, dtype: DTypeLike = "float32") -> Tensor:
        """Return floats of the Cauchy distribution of location 0 and scale 1.

        They are `tan(pi (u - 1/2))` for a uniform u; the greatest are about 2**40 in float32 and
        2**64 in float64. Raises `DTypeError` for another dtype.

        >>> sg.random.Generator(0).cauchy((2, 3)).shape
        (2, 3)
        """
        sizes, wanted = as_shape("cauchy", shape), as_float("cauchy", dtype)
        return unit_cauchy(*self._words("cauchy", sizes), wanted)

    def truncated_normal(
        self, shape: Any, low: Any = -2.0, high: Any = 2.0, dtype: DTypeLike = "float32"
    ) -> Tensor:
        """Return floats of the normal distribution of mean 0 and deviation 1 from `low` to `high`.

        The limits are numbers or tensors that broadcast to `shape`, and may be infinite or far out
        in a tail; where `low` is not the lesser, samples are nan. They get no gradient. Samples
        are exact in distribution: they are rejected until they fit (C. P. Robert, "Simulation of
        truncated normal variables", 1995). Raises `DTypeError` for another dtype, `ShapeError` for
        limits that do not broadcast to `shape`.

        >>> x = sg.run(sg.random.Generator(0).truncated_normal((1000,), 3.0, 4.0))
        >>> bool((x >= 3).all() and (x <= 4).all())
        True
        """
        op = "truncated_normal"
        sizes, wanted = as_shape(op, shape), as_float(op, dtype)
        first = named_parameter(op, "low", low, sizes, wanted)
        last = named_parameter(op, "high", high, sizes, wanted)
        return truncated_normal_samples(self._stream(op, sizes), first, last)

    def gamma(self, shape: Any, concentration: Any, dtype: DTypeLike = "float32") -> Tensor:
        """Return floats of the gamma distribution of scale 1: divide by a rate.

        `concentration`, the shape parameter, is a number or a tensor that broadcasts to `shape`.
        Where it is negative, infinite or nan, so are samples nan; where it is 0 they are 0. Its
        gradient is implicit (M. Figurnov, S. Mohamed, A. Mnih, "Implicit reparameterization
        gradients", 2018). Samples are exact in distribution (G. Marsaglia, W. W. Tsang, "A simple
        method for generating gamma variables", 2000). Raises `DTypeError` for another dtype,
        `ShapeError` for a parameter that does not broadcast to `shape`.

        >>> x = sg.random.Generator(0).gamma((200,), 3.0)
        >>> sg.run(x.mean()).round(0)
        np.float32(3.0)
        """
        sizes, wanted = as_shape("gamma", shape), as_float("gamma", dtype)
        a = named_parameter("gamma", "concentration", concentration, sizes, wanted)
        return gamma_samples(self._stream("gamma", sizes), a)[0]

    def beta(self, shape: Any, a: Any, b: Any, dtype: DTypeLike = "float32") -> Tensor:
        """Return floats of the beta distribution, from 0 to 1, of density x**(a-1) (1-x)**(b-1).

        `a` and `b` are numbers or tensors that broadcast to `shape`; where one is not positive,
        samples are nan. Both have gradients, those of the gamma draws that samples are made of.
        Raises `DTypeError` for another dtype, `ShapeError` for parameters that do not broadcast.

        >>> x = sg.random.Generator(0).beta((200,), 1.0, 3.0)
        >>> sg.run(x.mean()).round(2)
        np.float32(0.25)
        """
        sizes, wanted = as_shape("beta", shape), as_float("beta", dtype)
        first = named_parameter("beta", "a", a, sizes, wanted)
        second = named_parameter("beta", "b", b, sizes, wanted)
        return beta_samples(self._stream("beta", sizes), first, second)

    def dirichlet(self, shape: Any, alpha: Any, dtype: DTypeLike = "float32") -> Tensor:
        """Return floats of the Dirichlet distribution, which add up to 1 along the last axis.

        `alpha` has the concentrations along its last axis, and axes before it that broadcast to
        `shape`: the result has `shape` and that last axis. Where one is not positive, all that it
        adds up with are nan. It has gradients, those of the gamma draws that samples are made of.
        Raises `DTypeError` for another dtype, `ShapeError` for a parameter that does not fit.

        >>> x = sg.random.Generator(0).dirichlet((5,), [1.0, 2.0, 3.0])
        >>> x.shape
        (5, 3)
        """
        sizes, wanted = as_shape("dirichlet", shape), as_float("dirichlet", dtype)
        categories = as_logits("dirichlet", "alpha", alpha).shape[-1]
        whole = (*sizes, categories)
        concentrations = named_parameter("dirichlet", "alpha", alpha, whole, wanted)
        return dirichlet_samples(self._stream("dirichlet", whole), concentrations)

    def student_t(self, shape: Any, df: Any, dtype: DTypeLike = "float32") -> Tensor:
        """Return floats of Student's t distribution with `df` degrees of freedom.

        `df` is a number or a tensor that broadcasts to `shape`; where it is not positive and
        finite, samples are nan. It has a gradient, that of the gamma draws which samples are made
        of. Raises `DTypeError` for another dtype, `ShapeError` for one that does not broadcast.

        >>> sg.random.Generator(0).student_t((2, 3), 4.0).shape
        (2, 3)
        """
        sizes, wanted = as_shape("student_t", shape), as_float("student_t", dtype)
        freedom = named_parameter("student_t", "df", df, sizes, wanted)
        return student_t_samples(self._stream("student_t", sizes), freedom)

    def poisson(self, shape: Any, rate: Any, dtype: DTypeLike = "int32") -> Tensor:
        """Return integers of the Poisson distribution.

        `rate` is a number or a tensor that broadcasts to `shape`; where it is negative, infinite
        or nan, samples are -1, and what `dtype` does not hold stops at its limit. They have no
        gradient. Below a rate of 10 samples are made by inversion, in multiples of 2**-53; from
        there on they are rejected (W. Hoermann, "The transformed rejection method for generating
        Poisson random variables", 1993). Raises `DTypeError` for a dtype that is no integer,
        `ShapeError` for a rate that does not broadcast to `shape`.

        >>> x = sg.random.Generator(0).poisson((10_000,), 5.0)
        >>> float(sg.run(x.astype("float32").mean()).round(1))
        5.0
        """
        sizes, wanted = as_shape("poisson", shape), as_integer("poisson", dtype)
        rates = named_parameter("poisson", "rate", rate, sizes, float64)
        known = float(rate) if is_number(rate) else None
        counts = poisson_samples(self._stream("poisson", sizes), rates, known)
        return cast(counts, wanted)

    def categorical(self, logits: Any, shape: Any = (), dtype: DTypeLike = "int32") -> Tensor:
        """Return positions along the last axis of `logits`, with chances of softmax(logits).

        `logits` are logarithms of chances that need not add up to 1; one of -inf is never drawn.
        The result has `shape` and then the other axes of `logits`. It has no gradient. Noise of
        the Gumbel distribution is added to the logits, and the greatest taken; nothing of that is
        in memory. Raises `DTypeError` for a dtype that is no integer, `ShapeError` for logits
        without categories.

        >>> logits = sg.constant([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
        >>> sg.random.Generator(0).categorical(logits, (8,)).shape
        (8, 3)
        """
        sizes, wanted = as_shape("categorical", shape), as_integer("categorical", dtype)
        scores = as_logits("categorical", "logits", logits)
        stream = self._stream("categorical", (*sizes, *scores.shape))
        return cast(categorical_samples(stream, scores, sizes), wanted)

    def multinomial(self, n: int, p: Any, dtype: DTypeLike = "int32") -> Tensor:
        """Return how often each category is among `n` draws, with chances `p` along the last axis.

        The counts have the shape of `p` and add up to `n` along the last axis. The chances are
        scaled to add up to 1. They get no gradient. Each of the `n` draws is made, as by
        `categorical`, so time grows with `n`. Raises `DTypeError` for an n that is no int and a
        dtype that is no integer, `GraphError` for a negative n, `ShapeError` for chances without
        categories.

        >>> counts = sg.random.Generator(0).multinomial(100, [0.2, 0.3, 0.5])
        >>> int(sg.run(counts.sum()))
        100
        """
        op = "multinomial"
        wanted, times, chances = as_integer(op, dtype), as_count(op, "n", n), as_logits(op, "p", p)
        stream = self._stream(op, (times, *chances.shape))
        return multinomial_counts(stream, times, chances, wanted)

    def permutation(self, x: Any) -> Tensor:
        """Return `x` in a random order along axis 0; of an int, the integers below it, int64.

        Every order has the same chance: 64 random bits an element are sorted. A gradient flows to
        the elements of `x`. Raises `ShapeError` for a tensor without axes.

        >>> order = sg.run(sg.random.Generator(0).permutation(5))
        >>> sorted(order.tolist())
        [0, 1, 2, 3, 4]
        """
        return shuffled("permutation", self._stream, x)

    def choice(self, a: Any, shape: Any = (), *, replace: bool = True, p: Any = None) -> Tensor:
        """Return elements of `a` along axis 0; of an int, integers below it, int64.

        The result has `shape` and then the other axes of `a`. With `p` along one axis they have
        these chances, which are scaled to add up to 1. Without `replace` no element comes twice:
        the first of a permutation, or with `p` what is drawn one after the other from what is
        left. Elements of chance 0 come last then. A gradient flows to the elements of `a`, not
        to `p`. Raises `ShapeError` for chances that do not fit `a`, `GraphError` for nothing to
        choose from, or fewer elements than are wanted without `replace`.

        >>> x = sg.run(sg.random.Generator(0).choice(10, (3,), replace=False))
        >>> len(set(x.tolist()))
        3
        """
        sizes = as_shape("choice", shape)
        return chosen("choice", self._stream, a, sizes, bool(replace), p)

    def orthogonal(self, n: int, shape: Any = (), dtype: DTypeLike = "float32") -> Tensor:
        """Return orthogonal matrices of the Haar distribution: all rotations alike, and mirrored.

        The result has `shape` and then n x n. Half of the matrices have the determinant 1 and half
        -1. They are products of n reflections of normal vectors (G. W. Stewart, "The efficient
        generation of random orthogonal matrices with an application to condition estimators",
        1980). Raises `DTypeError` for an n that is no int and another dtype, `GraphError` for a
        negative n.

        >>> q = sg.run(sg.random.Generator(0).orthogonal(3))
        >>> bool(np.allclose(q @ q.T, np.eye(3), atol=1e-6))
        True
        """
        op = "orthogonal"
        sizes, wanted, size = as_shape(op, shape), as_float(op, dtype), as_count(op, "n", n)
        return orthogonal_matrices(self._stream(op, (*sizes, size, size)), size, sizes, wanted)

    def _words(self, op: str, shape: Shape) -> tuple[Tensor, Tensor]:
        return self._stream(op, shape).words(shape)
