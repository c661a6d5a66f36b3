"""What an op runs a nested graph on has the types of the inputs of the graph."""

import pytest

from symgrad.errors import DTypeError, ShapeError
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder
from symgrad.graph.ops.scan import kept_type
from symgrad.graph.ops.subgraph import check_operands
from symgrad.graph.types import TensorType

VECTOR = TensorType(dtypes.float32, (3,))
INNER = Graph([], [placeholder((3,)), placeholder((3,))], name="inner")


def test_operands_of_the_types_of_the_inputs_pass():
    check_operands("call", INNER, [VECTOR, VECTOR])


@pytest.mark.parametrize(
    ("second", "error", "text"),
    [
        (VECTOR.with_dtype(dtypes.int32), DTypeError, "operand 1 of inner: i32[3], not f32[3]"),
        (
            VECTOR.with_shape((4,)),
            ShapeError,
            "sizes differ: 4 in axis 0 of operand 1: f32[4], 3 in axis 0 of that of inner: f32[3]",
        ),
        (
            VECTOR.with_shape(()),
            ShapeError,
            "ranks differ: 0 of operand 1: f32[], 1 of that of inner: f32[3]",
        ),
    ],
)
def test_an_operand_of_another_type_is_refused_by_its_position(second, error, text):
    with pytest.raises(error) as caught:
        check_operands("call", INNER, [VECTOR, second])
    assert str(caught.value) == f"call: {text}"


def test_a_loop_variable_that_grows_is_refused_with_both_sizes_in_the_cause():
    with pytest.raises(ShapeError) as caught:
        kept_type(2, VECTOR, VECTOR.with_shape((4,)))
    assert str(caught.value.__cause__) == (
        "while_loop: sizes differ: 3 in axis 0 of it: f32[3], 4 in axis 0 of the next: f32[4]"
    )
