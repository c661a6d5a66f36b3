"""Scalarisation of calls of functions of C: complex numbers are passed as C and NumPy have them."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.graph.build import apply_node
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.extern import extern_op
from symgrad.graph.ops.slicing import stack
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.pair_rules import Parts, Split, SplitGraph, splits_node


@splits_node(extern_op)
def _extern(node: Node, operands: Sequence[Split], _split: SplitGraph) -> Sequence[Split]:
    inputs = [stack([x.re, x.im], axis=-1) if isinstance(x, Parts) else x for x in operands]
    given = [t.type for t in node.outputs]
    count = len(given) - bool(node.attrs["is_threaded"])
    types = [t.with_dtype(t.dtype.real) for t in given[:count]]
    shapes = [(*t.shape, 2) if t.dtype.is_complex else t.shape for t in given[:count]]
    attrs = {**node.attrs, "dtypes": tuple(t.dtype for t in types), "shapes": tuple(shapes)}
    outputs = apply_node(extern_op, tuple(inputs), attrs).outputs
    return [
        Parts(_part(x, 0), _part(x, 1)) if t.dtype.is_complex else x
        for x, t in zip(outputs, node.outputs, strict=True)
    ]


def _part(x: Tensor, number: int) -> Tensor:
    return reshape(narrow(x, x.ndim - 1, number, 1), x.shape[:-1])
