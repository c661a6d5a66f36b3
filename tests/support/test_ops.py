"""Two ops that only tests have, so that a graph of a test states what it is about and no more.

`test.source` gives tensors of any types from nothing; `test.sink` takes any tensors, and any value
as the attribute `tag`. They compute nothing, so a graph that has them is not compiled, and nothing
is folded, merged or fused through them but by a bug.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.build import apply_node
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.types import Array, Attr, Shape, TensorType


def source(*types: TensorType, name: str | None = None) -> tuple[Tensor, ...]:
    """Return tensors of the given types."""
    attrs: dict[str, Attr] = {
        "dtypes": tuple(t.dtype for t in types),
        "shapes": tuple(t.shape for t in types),
    }
    return apply_node(source_op, (), attrs, name=name).outputs


def _source_infer(
    *, dtypes: tuple[DType, ...], shapes: tuple[Shape, ...]
) -> tuple[TensorType, ...]:
    return tuple(TensorType(dtype, shape) for dtype, shape in zip(dtypes, shapes, strict=True))


source_op = define("test.source", infer=_source_infer, reference=None, grad="none", kernel=None)


def sink(operands: Sequence[Tensor], tag: Attr = None, name: str | None = None) -> Tensor:
    """Use `operands`; the result is a bool to be returned from a graph."""
    attrs = {} if tag is None else {"tag": tag}
    return apply_node(sink_op, tuple(operands), attrs, name=name).output


def _sink_infer(*_operands: TensorType, tag: Attr = None) -> TensorType:
    return TensorType(dtypes.bool_, ())


def _sink_reference(*_operands: Array, tag: Attr = None) -> Array:
    return np.array(False)


sink_op = define(
    "test.sink", infer=_sink_infer, reference=_sink_reference, grad="none", kernel=None
)
