"""Random numbers as graph: draws of generators, whose state is in variables, and of keys."""

from symgrad.frontend.publication import publish as _publish
from symgrad.random.generator import Generator
from symgrad.random.keyed import (
    bernoulli,
    beta,
    bits,
    categorical,
    cauchy,
    choice,
    dirichlet,
    exponential,
    gamma,
    gumbel,
    integers,
    laplace,
    multinomial,
    normal,
    orthogonal,
    permutation,
    poisson,
    student_t,
    truncated_normal,
    uniform,
)
from symgrad.random.streams import fold_in, key, split

__all__ = [
    "Generator",
    "bernoulli",
    "beta",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "gumbel",
    "integers",
    "key",
    "laplace",
    "multinomial",
    "normal",
    "orthogonal",
    "permutation",
    "poisson",
    "split",
    "student_t",
    "truncated_normal",
    "uniform",
]

_publish(globals())
