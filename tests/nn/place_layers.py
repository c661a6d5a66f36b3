"""Rows of the table of layers: those whose operands say which elements they take."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import symgrad as sg
from tests.nn.layer import Layer
from tests.support.case import Real, Whole

_TABLE = Real((5, 4))
_STARTS = [0, 2, 2]
_IMAGES, _GRID = Real((2, 5, 4, 3)), Real((2, 3, 4, 2), -1.5, 1.5)


def _bags(reduction: Any, **arguments: Any) -> Any:
    return partial(sg.nn.embedding_bag, reduction=reduction, **arguments)


def _weighted_bags(indices: Any, table: Any, weights: Any) -> Any:
    return sg.nn.embedding_bag(indices, table, _STARTS, reduction="sum", weights=weights)


def _unpooled(x: Any) -> Any:
    arguments: Any = {"layout": "NCHW", "padding": [(1, 0), (0, 1)]}
    y, indices = sg.nn.max_pool_with_indices(x, 2, **arguments)
    return sg.nn.max_unpool(y, indices, (4, 4), layout="NCHW")


PLACE_LAYERS = (
    Layer("embedding_bag", _bags("mean", padding_index=1), (Whole((3, 4), 0, 5), _TABLE)),
    Layer("embedding_bag_of_maxima", _bags("max", padding_index=1), (Whole((3, 4), 0, 5), _TABLE)),
    Layer("embedding_bag_with_offsets", _bags("mean", offsets=_STARTS),
          (Whole((6,), 0, 5), _TABLE)),
    Layer("embedding_bag_of_maxima_with_offsets", _bags("max", offsets=_STARTS, padding_index=1),
          (Whole((6,), 0, 5), _TABLE)),
    Layer("embedding_bag_weighted", _weighted_bags, (Whole((6,), 0, 5), _TABLE, Real((6,))),
          (0, 2)),
    Layer("pdist", sg.nn.pdist, (Real((3, 4, 2)),)),
    Layer("pdist_of_the_batch", partial(sg.nn.pdist, p=3), (Real((4, 3)),), slack=4),
    Layer("affine_grid", lambda t: sg.nn.affine_grid(t, (3, 2)), (Real((2, 2, 3)),)),
    Layer("grid_sample", sg.nn.grid_sample, (_IMAGES, _GRID), (0, 1), slack=8),
    Layer("grid_sample_cubic",
          lambda x, grid: sg.nn.grid_sample(x, grid, method="cubic", padding="reflection"),
          (_IMAGES, _GRID), (0, 1), slack=16),
    Layer("grid_sample_nearest_channels_first",
          lambda x, grid: sg.nn.grid_sample(x, grid, method="nearest", layout="NCHW"),
          (_IMAGES, _GRID), (0, 1)),
    Layer("grid_sample_of_volumes",
          lambda x, grid: sg.nn.grid_sample(x, grid, padding="border", align_corners=True),
          (Real((2, 3, 4, 2, 2)), Real((2, 2, 1, 3, 3), -1.5, 1.5)), (0, 1), slack=8),
    Layer("max_unpool", _unpooled, (_IMAGES,)),
    Layer("max_unpool_where_windows_meet",
          lambda x: sg.nn.max_unpool(*sg.nn.max_pool_with_indices(x, 3, strides=1), (5, 4)),
          (_IMAGES,)),
    Layer("fractional_max_pool",
          lambda x, samples: sg.nn.fractional_max_pool(x, 2, (3, 2), samples=samples),
          (_IMAGES, Real((2, 3, 2), 0.0, 0.9)), (0, 1)),
    Layer("fractional_max_pool_channels_first",
          lambda x: sg.nn.fractional_max_pool(x, (2, 1), 3, sg.random.key(0), layout="NCHW"),
          (Real((2, 3, 5, 4)),)),
    Layer("pdist_infinite", partial(sg.nn.pdist, p=math.inf), (Real((3, 4, 2)),)),
)  # fmt: skip
