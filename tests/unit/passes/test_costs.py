"""What computing is taken to cost."""

from __future__ import annotations

import numpy as np

from symgrad.graph.dtypes import float32
from symgrad.graph.leaf import placeholder
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.branches import branch
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.indexing import take
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import broadcast_to, reduce_sum, reshape
from symgrad.graph.ops.transcendental import exp, tanh
from symgrad.graph.structures import Contract
from symgrad.graph.types import UNBOUNDED, TensorType
from symgrad.passes.costs import (
    bytes_of,
    flops_of_contract,
    kernel_spec,
    picoseconds,
    picoseconds_fused,
)

X = placeholder((8, 16))
W = placeholder((16, 4))


def test_a_product_has_two_flops_for_each_pair():
    node = matmul(X, W).node
    spec = kernel_spec(node)
    assert isinstance(spec, Contract)
    assert flops_of_contract(node, spec) == 2 * 8 * 16 * 4
    assert picoseconds(matmul(placeholder((16, 16)), W).node) > 1.5 * picoseconds(node)


def test_leaves_and_what_only_renames_elements_cost_nothing():
    free = [X, broadcast_to(W, (3, 16, 4)), reshape(W, (64,))]
    assert [picoseconds(t.node) for t in free] == [0, 0, 0]
    costly = [tanh(X), reduce_sum(X, (0,)), take(X, placeholder((3,), "int64"), axis=0)]
    assert all(picoseconds(t.node) > 0 for t in costly)


def test_pieces_cost_less_where_only_maps_read_them():
    pieces = concat([X, X]).node
    readers = [tanh(pieces.output).node, exp(pieces.output).node]
    assert picoseconds_fused(pieces, readers) < picoseconds(pieces)
    product = matmul(pieces.output, W).node
    assert picoseconds_fused(pieces, [*readers, product]) == picoseconds(pieces)
    assert picoseconds_fused(product, readers) == picoseconds(product)


def test_a_branch_costs_what_is_in_it_and_a_loop_that_as_often_as_it_may_run():
    functions = [Traced("a", ()), Traced("b", ())]
    functions[0].run(lambda: [tanh(X)])
    functions[1].run(lambda: [exp(X)])
    node = branch(placeholder((), "int64"), functions)
    once = picoseconds(tanh(X).node) + picoseconds(exp(X).node)
    assert picoseconds(node) == once
    body = Traced("body", [X.type])
    body.run(lambda v: [exp(tanh(v))])
    assert picoseconds(scan_loop(constant(np.int64(3)), [X], (), body, 5)) == 5 * once


def test_a_tape_is_counted_by_its_slices():
    assert bytes_of(X) == 8 * 16 * 4
    assert bytes_of(placeholder((3,), "float64")) == 24
    tape = TensorType(float32, (UNBOUNDED, 3))
    assert bytes_of(_Typed(tape)) == 12


class _Typed(Tensor):
    """A tensor of which only the type is looked at: no node gives a tape by itself."""

    def __init__(self, type_: TensorType) -> None:
        object.__setattr__(self, "type", type_)
