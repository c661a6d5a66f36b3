"""The table of layers: a row for each, and another where an argument makes it another program.

A new part brings a file of rows, `tests/nn/<part>_layers.py`, and an import here.
"""

from __future__ import annotations

from tests.nn.attention_layers import ATTENTION
from tests.nn.basic_layers import BASIC
from tests.nn.layer import Layer
from tests.nn.loss_layers import LOSSES
from tests.nn.norm_layers import NORMS
from tests.nn.place_layers import PLACE_LAYERS
from tests.nn.spatial_layers import SPATIAL_LAYERS

LAYERS: tuple[Layer, ...] = (
    *BASIC,
    *LOSSES,
    *NORMS,
    *ATTENTION,
    *SPATIAL_LAYERS,
    *PLACE_LAYERS,
)
