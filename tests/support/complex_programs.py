"""Random programs on complex numbers: rows of the tables that have a meaning there, and their own.

Values are kept where functions are smooth: away from branch cuts, poles and angles of zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import placeholder, variable_node
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array, State
from tests.support.control_strategies import CONTROL
from tests.support.pool import Pool, Recipe, Row
from tests.support.strategies import TABLE

_SHARED = {
    *(
        "add",
        "subtract",
        "multiply",
        "divide",
        "square",
        "sum",
        "prod",
        "mean",
        "cumsum",
        "cumprod",
    ),
    *(
        "cumprod",
        "matmul",
        "tensordot",
        "reshape",
        "transpose",
        "broadcast_to",
        "slice",
        "strided_slice",
    ),
    *("flip", "pad", "concat", "roll", "repeat", "ramp", "take_known", "scatter_add_known"),
    *("scatter_set_known", "dynamic_slice_known", "dynamic_update_slice_known"),
}
_NESTED = {
    *("switch_case", "while_loop", "fori_loop", "scan", "map", "map_of_nothing", "function"),
}


def _row(name: str, recipe: Recipe) -> Row:
    return Row(name, recipe, is_float_only=True, is_smooth=True)


def _unary(function: Callable[[Tensor], Tensor]) -> Recipe:
    return lambda pool: function(pool.any())


def _with_parts(pool: Pool) -> Tensor:
    x = pool.any()
    return sg.complex(sg.imag(x), sg.sin(sg.real(x)))


def _of_real_factor(pool: Pool) -> Tensor:
    x = pool.any()
    return sg.multiply(x, 1 + sg.abs(x))


OWN = (
    _row("conj", _unary(sg.conj)),
    _row("parts", _with_parts),
    _row("real_factor", _of_real_factor),
    _row("modulus", _unary(lambda z: sg.astype(sg.abs(4 + z), z.dtype))),
    _row("direction", _unary(lambda z: sg.sign(4 + z))),
    _row("angle", _unary(lambda z: z * sg.angle(4 + z))),
    _row("exp", _unary(lambda z: sg.exp(z / 2))),
    _row("expm1", _unary(lambda z: sg.expm1(z / 2))),
    _row("log", _unary(lambda z: sg.log(4 + z))),
    _row("log1p", _unary(lambda z: sg.log1p(z / 4))),
    _row("sqrt", _unary(lambda z: sg.sqrt(4 + z))),
    _row("pow", _unary(lambda z: sg.pow(4 + z, z / 4))),
    _row("power", _unary(lambda z: sg.pow(z / 2, 3))),
    _row("sin", _unary(lambda z: sg.sin(z / 2))),
    _row("cosh", _unary(lambda z: sg.cosh(z / 2))),
    _row("tanh", _unary(lambda z: sg.tanh(z / 4))),
    _row("asin", _unary(lambda z: sg.asin(z / 4))),
    _row("atan", _unary(lambda z: sg.atan(z / 4))),
    _row("acosh", _unary(lambda z: sg.acosh(4j + z))),
    _row("vecdot", lambda pool: sg.vecdot(x := pool.any(1), x)),
)


def _rows(*, control: bool) -> list[Row]:
    rows = [*OWN, *(row for row in TABLE if row.name in _SHARED)]
    return rows + 8 * [row for row in CONTROL if row.name in _NESTED] if control else rows


def random_complex_graph(
    rng: np.random.Generator, dtype: DType, size: int, *, control: bool
) -> tuple[Graph, list[Array]]:
    """Return a graph of about `size` ops on complex numbers of `dtype`, and inputs for it."""
    pool = Pool(rng, dtype, _rows(control=control))
    arrays = [pool.array(pool.shape()) for _ in range(pool.integer(1, 2))]
    inputs = [placeholder(a.shape, dtype, pool.name()) for a in arrays]
    variable = variable_node(State(pool.array(pool.shape()), name="w", trainable=True), "w")
    pool.tensors += [*inputs, variable]
    pool.grow(size)
    outputs = [pool.any() for _ in range(pool.integer(1, 3))] + pool.tensors[-1:]
    fitting = [t for t in pool.tensors if t.shape == variable.shape]
    updates = [Update(variable, fitting[-1])] if pool.chance() else []
    return Graph(outputs, inputs, updates, name="random"), arrays


def total_of(tensors: tuple[Tensor, ...]) -> Tensor:
    """Return a real number that depends on all parts of all elements."""
    sums = [sg.sum(t) for t in tensors]
    return sum((sg.real(s) + 2 * sg.imag(s) for s in sums[1:]), sg.real(sums[0]))
