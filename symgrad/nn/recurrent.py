"""Recurrent layers: RNN, GRU and LSTM cells, and scans of the latter two over time.

All are compositions of ops, with the formulas and the order of gates of PyTorch. Weights are
(inputs, outputs), and those of all gates lie side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.errors import GraphError, ShapeError, user_source
from symgrad.frontend.iteration import scan
from symgrad.graph.node import Tensor
from symgrad.graph.operands import promote_operands
from symgrad.graph.ops.arithmetic import add, multiply, subtract
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.ops.transcendental import sigmoid, tanh
from symgrad.graph.ops.views import split
from symgrad.graph.public_ops import public

_WEIGHTS = ("w", "u", "b", "d")


@public(known_as=["SimpleRNN", "SimpleRNNCell"])
def rnn_cell(x: Any, h: Any, w: Any, u: Any, b: Any = None, d: Any = None) -> Tensor:
    """Elman cell: return the state after the inputs `x`, where `h` was the state before.

        tanh(x @ w + b + h @ u + d)

    `x` is (..., inputs), `h` and the result (..., units), `w` (inputs, units), `u` (units, units),
    `b` and `d` (units,), in the float dtype that all promote to. The gradient reaches all of them.

        >>> x, h, w = sg.ones((2, 3)), sg.zeros((2, 4)), sg.ones((3, 4))
        >>> sg.run(sg.nn.rnn_cell(x, h, w, sg.eye(4))).shape
        (2, 4)

    Raises `ShapeError` for what does not fit.
    """
    x, weights, (h,) = _operands("rnn_cell", 1, x, {"h": h}, (w, u, b, d))
    return tanh(add(_gates(x, weights["w"], weights.get("b")), _of_state(h, weights)))


@public()
def gru_cell(x: Any, h: Any, w: Any, u: Any, b: Any = None, d: Any = None) -> Tensor:
    """Gated recurrent unit, GRU: return the state after the inputs `x`.

        r = sigmoid(x @ w_r + b_r + h @ u_r + d_r)
        z = sigmoid(x @ w_z + b_z + h @ u_z + d_z)
        n = tanh(x @ w_n + b_n + r * (h @ u_n + d_n))
        h = (1 - z) * n + z * h

    `x` is (..., inputs), `h` and the result (..., units), `w` (inputs, 3 * units), `u` (units,
    3 * units), `b` and `d` (3 * units,), the gates side by side in the order r, z, n, in the float
    dtype that all promote to. The gradient reaches all of them.

        >>> x, h, w = sg.ones((2, 3)), sg.zeros((2, 4)), sg.ones((3, 12))
        >>> sg.run(sg.nn.gru_cell(x, h, w, sg.ones((4, 12)))).shape
        (2, 4)

    Raises `ShapeError` for what does not fit.

    K. Cho and others, "Learning phrase representations using RNN encoder-decoder", 2014; with the
    reset gate behind the product, as in PyTorch.
    """
    x, weights, (h,) = _operands("gru_cell", 3, x, {"h": h}, (w, u, b, d))
    return _gru_step(h, _gates(x, weights["w"], weights.get("b")), weights)


@public()
def lstm_cell(
    x: Any, state: Any, w: Any, u: Any, b: Any = None, d: Any = None
) -> tuple[Tensor, Tensor]:
    """Long short-term memory, LSTM: return the `state` (h, c) after the inputs `x`.

        i, f, g, o = sigmoid(_i), sigmoid(_f), tanh(_g), sigmoid(_o)   of x @ w + b + h @ u + d
        c = f * c + i * g
        h = o * tanh(c)

    `x` is (..., inputs), `h` and `c` (..., units), `w` (inputs, 4 * units), `u` (units, 4 * units),
    `b` and `d` (4 * units,), the gates side by side in the order i, f, g, o, in the float dtype
    that all promote to. The gradient reaches all of them.

        >>> x, h, w = sg.ones((2, 3)), sg.zeros((2, 4)), sg.ones((3, 16))
        >>> h, c = sg.nn.lstm_cell(x, (h, h), w, sg.ones((4, 16)))
        >>> h.shape
        (2, 4)

    Raises `ShapeError` for what does not fit, `GraphError` for a state that is no pair.

    S. Hochreiter and J. Schmidhuber, "Long short-term memory", 1997; with the forget gate of
    F. A. Gers and others, 2000.
    """
    h, c = _pair("lstm_cell", state)
    x, weights, (h, c) = _operands("lstm_cell", 4, x, {"h": h, "c": c}, (w, u, b, d))
    return _lstm_step((h, c), _gates(x, weights["w"], weights.get("b")), weights)


@public()
def lstm(x: Any, state: Any, weights: Any) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Scan `lstm_cell` over time: return h of each step, and the last state (h, c).

    `x` is (time, ..., inputs), `state` is (h, c), each (..., units), and `weights` are (w, u, b, d)
    as in `lstm_cell`, of which b and d may be None or left out. The first result is (time, ...,
    units). One layer, in one direction: `sg.flip` of `x` and of the result is the other. The inputs
    of all steps are projected by one product. The gradient reaches `x`, `state` and `weights`.

        >>> x, h = sg.ones((5, 2, 3)), sg.zeros((2, 4))
        >>> ys, (h, c) = sg.nn.lstm(x, (h, h), (sg.ones((3, 16)), sg.ones((4, 16))))
        >>> ys.shape
        (5, 2, 4)

    Raises `ShapeError` for what does not fit, `GraphError` for a state that is no pair and for
    weights that are no tuple of two to four.
    """
    h, c = _pair("lstm", state)
    given = _as_weights("lstm", weights)
    x, named, start = _operands("lstm", 4, x, {"h": h, "c": c}, given, has_time=True)

    def step(carry: tuple[Tensor, Tensor], projected: Tensor) -> Any:
        h, c = _lstm_step(carry, projected, named)
        return (h, c), h

    last, ys = scan(step, tuple(start), _gates(x, named["w"], named.get("b")))
    return ys, last


@public()
def gru(x: Any, h: Any, weights: Any) -> tuple[Tensor, Tensor]:
    """Scan `gru_cell` over time: return h of each step, and the last one.

    `x` is (time, ..., inputs), `h` (..., units), and `weights` are (w, u, b, d) as in `gru_cell`,
    of which b and d may be None or left out. The first result is (time, ..., units). One layer, in
    one direction: `sg.flip` of `x` and of the result is the other. The inputs of all steps are
    projected by one product. The gradient reaches `x`, `h` and `weights`.

        >>> x, h = sg.ones((5, 2, 3)), sg.zeros((2, 4))
        >>> ys, h = sg.nn.gru(x, h, (sg.ones((3, 12)), sg.ones((4, 12))))
        >>> ys.shape
        (5, 2, 4)

    Raises `ShapeError` for what does not fit, `GraphError` for weights that are no tuple of two to
    four.
    """
    given = _as_weights("gru", weights)
    x, named, (start,) = _operands("gru", 3, x, {"h": h}, given, has_time=True)

    def step(h: Tensor, projected: Tensor) -> Any:
        h = _gru_step(h, projected, named)
        return h, h

    last, ys = scan(step, start, _gates(x, named["w"], named.get("b")))
    return ys, last


# -------------------------------------------------------------------------------------- steps


def _gates(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    product = matmul(x, w)
    return product if b is None else add(product, b)


def _of_state(h: Tensor, weights: dict[str, Tensor]) -> Tensor:
    return _gates(h, weights["u"], weights.get("d"))


def _gru_step(h: Tensor, projected: Tensor, weights: dict[str, Tensor]) -> Tensor:
    x_r, x_z, x_n = split(projected, 3, axis=-1)
    h_r, h_z, h_n = split(_of_state(h, weights), 3, axis=-1)
    z = sigmoid(add(x_z, h_z))
    n = tanh(add(x_n, multiply(sigmoid(add(x_r, h_r)), h_n)))
    return add(multiply(subtract(1, z), n), multiply(z, h))


def _lstm_step(
    state: tuple[Tensor, Tensor], projected: Tensor, weights: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    h, c = state
    i, f, g, o = split(add(projected, _of_state(h, weights)), 4, axis=-1)
    c = add(multiply(sigmoid(f), c), multiply(sigmoid(i), tanh(g)))
    return multiply(sigmoid(o), tanh(c)), c


# ----------------------------------------------------------------------------------- operands


def _operands(
    op: str,
    gates: int,
    x: Any,
    states: dict[str, Any],
    weights: Sequence[Any],
    *,
    has_time: bool = False,
) -> tuple[Tensor, dict[str, Tensor], list[Tensor]]:
    """Return inputs, weights by name and states in one float dtype, having checked that they fit.

    A bias that is None is left out.
    """
    every = list(zip(_WEIGHTS, weights, strict=False))
    given = {n: w for i, (n, w) in enumerate(every) if i < 2 or w is not None}
    promoted = promote_operands(op, x, *states.values(), *given.values())
    x, *rest = map(float_operand, promoted)
    start = dict(zip(states, rest, strict=False))
    named = dict(zip(given, rest[len(states) :], strict=True))
    lead = 2 if has_time else 1
    if x.ndim < lead:
        wanted = "(time, ..., inputs)" if has_time else "(..., inputs)"
        raise ShapeError(op, f"x: {x.type} is not {wanted}", source=user_source())
    units = start["h"].shape[-1] if start["h"].ndim else 1
    for name, state in start.items():
        _check_shape(op, name, state, (*x.shape[lead - 1 : -1], units))
    for name, weight in named.items():
        rows = {"w": (x.shape[-1],), "u": (units,)}.get(name, ())
        _check_shape(op, name, weight, (*rows, gates * units))
    return x, named, list(start.values())


def _check_shape(op: str, name: str, x: Tensor, wanted: tuple[Any, ...]) -> None:
    """Raise unless `x` has the `wanted` shape; sizes that are unknown are checked at the call."""
    pairs = zip(x.shape, wanted, strict=False)
    differs = any(m != n for m, n in pairs if isinstance(m, int) and isinstance(n, int))
    if x.ndim != len(wanted) or differs:
        shape = f"[{', '.join(map(str, wanted))}]"
        raise ShapeError(op, f"{name}: {x.type} is not of shape {shape}", source=user_source())


def _pair(op: str, state: Any) -> tuple[Any, Any]:
    if not isinstance(state, list | tuple) or len(state) != 2:
        raise GraphError(op, f"state is no pair (h, c): {state!r}", source=user_source())
    h, c = state
    return h, c


def _as_weights(op: str, weights: Any) -> Sequence[Any]:
    if not isinstance(weights, list | tuple) or not 2 <= len(weights) <= 4:
        raise GraphError(
            op, f"weights are no tuple (w, u, b, d): {weights!r}", source=user_source()
        )
    return weights
