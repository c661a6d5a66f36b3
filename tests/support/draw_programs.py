"""Draws of a key whose bits every target, and every number of threads, must give alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import symgrad as sg

DRAWS: dict[str, Callable[[sg.Tensor], sg.Tensor]] = {
    "normal": lambda key: sg.random.normal(key, (5, 7), 1.0, 3.0),
    "normal float64": lambda key: sg.random.normal(key, (67,), dtype="float64"),
    "exponential": lambda key: sg.random.exponential(key, (67,)),
    "gumbel": lambda key: sg.random.gumbel(key, (67,), "float64"),
    "laplace": lambda key: sg.random.laplace(key, (67,)),
    "cauchy": lambda key: sg.random.cauchy(key, (67,)),
    "truncated_normal": lambda key: sg.random.truncated_normal(key, (3, 67), -1.0, [[1], [2], [9]]),
    "gamma": lambda key: sg.random.gamma(key, (67,), 0.7),
    "many gamma": lambda key: sg.random.gamma(key, (5000,), 0.7),
    "gamma float64": lambda key: sg.random.gamma(key, (67,), 3.0, "float64"),
    "beta": lambda key: sg.random.beta(key, (67,), 0.3, 2.0),
    "dirichlet": lambda key: sg.random.dirichlet(key, (7,), np.arange(1.0, 12.0)),
    "student_t": lambda key: sg.random.student_t(key, (67,), 3.0),
    "poisson": lambda key: sg.random.poisson(key, (67,), np.linspace(0.0, 100.0, 67)),
    "categorical": lambda key: sg.random.categorical(key, np.zeros((7, 9)), (11,)),
    "multinomial": lambda key: sg.random.multinomial(key, 100, [0.1, 0.5, 0.4]),
    "uniform": lambda key: sg.random.uniform(key, (5, 7), -3.0, 0.7),
    "integers": lambda key: sg.random.integers(key, -5, 1000, (67,)),
    "bernoulli": lambda key: sg.random.bernoulli(key, 0.3, (5, 7)),
    "orthogonal": lambda key: sg.random.orthogonal(key, 5, (3,)),
    "orthogonal float64": lambda key: sg.random.orthogonal(key, 7, dtype="float64"),
    "a scalar": lambda key: sg.random.gamma(key, (), 2.0),
    "nothing": lambda key: sg.random.gamma(key, (0, 3), 2.0),
    "keys": lambda key: sg.random.split(sg.random.fold_in(key, -7), 5),
}
