"""The values of a kernel: what cannot be computed in it is named."""

from __future__ import annotations

import pytest

import symgrad as sg
from symgrad.graph.node import Tensor
from symgrad.graph.types import TensorType
from symgrad.passes.fusion import merge
from tests.support.programs import lowered_from
from tests.support.test_ops import source

X = sg.placeholder((3, 4), name="x")


@pytest.mark.parametrize(
    ("result", "op"),
    [
        (sg.pad(X, 1), "pad"),
        (sg.concat([X, X]), "concat"),
        (sg.scatter_add(X, [0, 2], X[:2]), "scatter_add"),
    ],
)
def test_what_was_fused_behind_an_op_that_allows_none_names_the_op(
    result: Tensor, op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the fuse pass knew nothing of the structure.
    monkeypatch.setattr(merge, "_obstacle", lambda *_: None)
    with pytest.raises(AssertionError, match=f"<Tensor {op}: .* is no result"):
        lowered_from(result * 2.0)


def test_an_operand_that_nothing_gives_names_the_op():
    (given,) = source(TensorType(sg.float32, (3, 4)))
    with pytest.raises(AssertionError, match=r"<Tensor test\.source: .* no kernel leaves it there"):
        lowered_from(given * 2.0)
