"""Partial evaluation: what is kept of a function for the linear part of it."""

from __future__ import annotations

import symgrad as sg
from symgrad.passes.gradients.partial_evaluation import cut_out_linear

X = sg.placeholder((2, 3), name="x")
T = sg.placeholder((2, 3), name="t")


def test_a_view_is_made_again_of_what_is_kept():
    turned = sg.permute_dims(X, (1, 0))
    residuals, graph = cut_out_linear([turned * sg.permute_dims(T, (1, 0)), X * T], [T])
    assert residuals == [X]
    assert [t.type for t in graph.inputs] == [X.type, T.type]


def test_a_part_is_kept_and_not_the_whole_that_it_is_of():
    part = X[:1]
    residuals, _ = cut_out_linear([part * T], [T])
    assert residuals == [part]
