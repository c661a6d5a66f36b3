"""Loop tiling of products: the marks of the loop language that say how a product is computed.

They stand in a `Product` of `language.py`; what they mean for a machine is in `codegen/contract/`.
"""

from __future__ import annotations

from typing import Literal

from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class Blocking:
    """`tile(14, 32) block(168, 1024, 384) pack(lhs) along(n)`: how a product is computed.

    `tile` is what the registers hold, `block` the part of m, n and k between two passes over an
    operand, `pack` which operands are copied first, `along` the axis of the result that lies in
    vector registers, `scratch` the bytes of scratch memory that takes. The generator of products
    chooses it from shapes and strides, and chooses the same whenever it is asked.
    """

    tile: tuple[int, int]
    block: tuple[int, int, int]
    pack: tuple[str, ...]
    along: Literal["m", "n"]
    scratch: int


PLAIN = Blocking((1, 1), (1, 1, 1), (), "n", 0)  # one element at a time: not scheduled yet


@dataclass(frozen=True, slots=True)
class Share:
    """`parallel(m, 12 of 30)`: 30 tiles of a product along an axis of its result, 12 to a part.

    How many tiles there are is said by the generator of products, as their size is: where windows
    are packed, runs of rows are shorter than they are in memory, and each may end in a low tile.
    `parallel(n, 6 of 12 by 256)`: the result is cut every 256 elements, where tiles begin anew, so
    that all parts are equal though the result is no even number of tiles.
    """

    axis: Literal["m", "n"]
    tiles: int
    of: int
    by: int | None = None

    @property
    def parts(self) -> int:
        """Into how many parts the result is cut."""
        return max(1, -(-self.of // self.tiles))
