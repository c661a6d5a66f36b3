"""Panel width: how wide the panels are that weights are packed in before a loop.

Passes over graphs make these panels, and are told the width of a machine.
"""

from __future__ import annotations

from symgrad.codegen.target import Target
from symgrad.cost_model.products import PANEL_BYTES


def panel_bytes(target: Target) -> int:
    """Return the bytes of a row of a panel of weights.

    With 16 registers it is as wide as a tile of two vectors: what a tile reads then lies side by
    side, with nothing between. More registers have tiles of several widths, for most of which a
    panel has room.
    """
    return 2 * target.vector_bytes if target.vector_registers <= 16 else PANEL_BYTES
