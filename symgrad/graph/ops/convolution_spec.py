"""Labels of a convolution: einsum notation in which two labels walk through one axis.

`n(2o+i)(2p+j)c,ijcf->nopf` is a convolution over two axes with stride 2: at place o, element i of a
window is element 2 * o + i of the axis.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from symgrad.errors import ShapeError


class Window(NamedTuple):
    """`(2o+3i)`: an axis walked through by where a window is, and by a place inside of it."""

    outer: str
    stride: int
    inner: str
    dilation: int

    def __str__(self) -> str:
        first, second = ("" if c == 1 else str(c) for c in (self.stride, self.dilation))
        return f"({first}{self.outer}+{second}{self.inner})"


# One an axis of the left operand: a label, or two.
ConvolutionAxis = str | Window
_AXIS = re.compile(r"([A-Za-z])|\((\d*)([A-Za-z])\+(\d*)([A-Za-z])\)")


class ConvolutionSpec(NamedTuple):
    """The axes of the left operand, and the labels of the right one and of the result."""

    lhs: tuple[ConvolutionAxis, ...]
    rhs: str
    out: str

    def __str__(self) -> str:
        return f"{''.join(map(str, self.lhs))},{self.rhs}->{self.out}"

    @property
    def windows(self) -> list[Window]:
        return [axis for axis in self.lhs if isinstance(axis, Window)]

    @property
    def lhs_labels(self) -> str:
        pairs = (axis if isinstance(axis, str) else axis.outer + axis.inner for axis in self.lhs)
        return "".join(pairs)

    def is_valid(self) -> bool:
        """Return whether there are windows, and every label has its place.

        Of the two labels of windows one is of the right operand and one of the result, in all
        windows the same.
        """
        sides = (self.lhs_labels, self.rhs, self.out)
        repeated = any(len(set(labels)) != len(labels) for labels in sides)
        lhs, rhs, out = map(set, sides)
        lone = (lhs ^ rhs) - out
        outer = {w.outer for w in self.windows}
        inner = {w.inner for w in self.windows}
        is_split = any(
            one <= rhs and not one & out and other <= out and not other & rhs
            for one, other in ((outer, inner), (inner, outer))
        )
        steps = [c for w in self.windows for c in (w.stride, w.dilation)]
        return not (repeated or out - lhs - rhs or lone) and is_split and min(steps, default=0) > 0


def parsed_spec(spec: str) -> ConvolutionSpec:
    """Return what `str` of it is `spec`; raise `ShapeError` if there is none."""
    operands, _, out = spec.partition("->")
    lhs, _, rhs = operands.partition(",")
    axes = [
        label or Window(outer, int(stride or 1), inner, int(dilation or 1))
        for label, stride, outer, dilation, inner in _AXIS.findall(lhs)
    ]
    found = ConvolutionSpec(tuple(axes), rhs, out)
    if str(found) != spec or not found.is_valid():
        raise ShapeError("convolution", f"{spec!r} is no product of windows and an operand")
    return found
