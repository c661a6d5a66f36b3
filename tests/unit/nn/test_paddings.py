"""Forms of padding: what is given as ints, as PyTorch's layers take it, and as pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg

nn = sg.nn

X = {space: sg.placeholder((2, *(7, 6, 5)[:space], 4), name="x") for space in (1, 2, 3)}


def _kernel(space: int) -> Any:
    return sg.ones((*(3, 2, 3)[:space], 4, 4))


LAYERS: dict[str, Callable[..., Any]] = {
    "conv": lambda x, **p: nn.conv(x, _kernel(x.ndim - 2), **p),
    "conv_transpose": lambda x, **p: nn.conv_transpose(x, _kernel(x.ndim - 2), **p),
    "max_pool": lambda x, **p: nn.max_pool(x, 3, **p),
    "max_pool_indices": lambda x, **p: list(nn.max_pool_with_indices(x, 3, **p)),
    "avg_pool": lambda x, **p: nn.avg_pool(x, 3, **p),
    "lp_pool": lambda x, **p: nn.lp_pool(x, 2, 3, **p),
    "unfold": lambda x, **p: nn.unfold(x, 3, **p),
    "fold": lambda x, **p: nn.fold(nn.unfold(x, 3, padding=1), x.shape[1:-1], 3, **p),
}


def _text(y: Any) -> str:
    return str(sg.Graph(y if isinstance(y, list) else [y]))


@pytest.mark.parametrize("name", LAYERS)
def test_an_int_pads_each_axis_before_and_after(name):
    for space, x in X.items():
        pairs = _text(LAYERS[name](x, padding=[(1, 1)] * space))
        assert _text(LAYERS[name](x, padding=1)) == pairs
        assert _text(LAYERS[name](x, padding=np.int64(1))) == pairs
        assert _text(LAYERS[name](x, padding=(1,) * space)) == pairs
        assert _text(LAYERS[name](x, padding=np.ones((space, 2), int))) == pairs


def test_each_axis_has_an_int_or_a_pair_of_its_own():
    for layer in (LAYERS["conv"], LAYERS["conv_transpose"], LAYERS["max_pool"]):
        wanted = _text(layer(X[2], padding=[(1, 1), (0, 0)]))
        assert _text(layer(X[2], padding=(1, 0))) == wanted
        assert _text(layer(X[2], padding=[1, (0, 0)])) == wanted
        assert _text(layer(X[2], padding=0)) == _text(layer(X[2], padding="VALID"))


def test_layers_of_one_two_and_three_axes_take_an_int():
    layers = (nn.conv1d, nn.conv2d, nn.conv3d)
    for (space, x), layer in zip(X.items(), layers, strict=True):
        y = layer(x, sg.ones((*(3,) * space, 4, 8)), padding=1)
        assert y.shape == (*x.shape[:-1], 8)
