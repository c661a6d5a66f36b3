"""An error names the function that was called, and the op that was built, and no other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import symgrad as sg
from symgrad.errors import SymgradError
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node
from symgrad.graph.types import TensorType
from tests.support.case import placeholders
from tests.support.cases import CASES
from tests.support.together import together

F = sg.placeholder((3, 4), name="f")
V = sg.placeholder((5,), name="v")
I = sg.placeholder((3, 4), "int32", name="i")  # noqa: E741 - one letter a dtype
B = sg.placeholder((3, 4), "bool", name="b")

_TWO_NUMBERS = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "pow"),
    *("maximum", "minimum", "equal", "not_equal"),
    *("less", "less_equal", "greater", "greater_equal"),
)
_TWO_INTEGERS = (
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
    *("bitwise_left_shift", "bitwise_right_shift"),
)
_TWO_BOOLS = ("logical_and", "logical_or", "logical_xor")
_AXIS = (
    *("sum", "prod", "mean", "max", "min", "argmax", "argmin", "any", "all"),
    *("expand_dims", "flip", "squeeze", "unstack"),
)
_NUMBERS_ONLY = ("abs", "ceil", "floor", "round", "negative", "positive", "sign", "square")
_CALLS = [
    *((name, (F, V), {}) for name in (*_TWO_NUMBERS, "tensordot", "matmul")),
    *((name, (I, V.astype("int32")), {}) for name in _TWO_INTEGERS),
    *((name, (I, F), {}) for name in _TWO_INTEGERS),
    *((name, (B, sg.equal(V, V)), {}) for name in _TWO_BOOLS),
    *((name, (B, F), {}) for name in _TWO_BOOLS),
    *((name, (F,), {"axis": 7}) for name in _AXIS),
    *((name, (F, I), {"axis": 7}) for name in ("take", "take_along_axis", "repeat", "roll")),
    *((name, (F, 0, 7), {}) for name in ("swapaxes", "moveaxis", "diagonal")),
    *((name, (B,), {}) for name in (*_NUMBERS_ONLY, "max", "min")),
    *((name, (F, V), {}) for name in ("dot", "vecdot", "clip", "allclose", "nan_to_num", "cov")),
    *((name, (F, V), {}) for name in ("corrcoef", "cross", "arange")),
    *((name, ([F, V],), {}) for name in ("stack", "hstack", "vstack", "dstack", "column_stack")),
    *((name, (F, 7), {}) for name in ("ptp", "nansum", "nanprod", "nanmax", "nanmin", "nancumsum")),
    *((name, (F, 7), {}) for name in ("nanargmax", "nanargmin", "nancumprod", "count_nonzero")),
    *((name, (B, B), {}) for name in ("dot", "vecdot", "outer")),
    ("vecdot", (F, F), {"axis": 7}),
    ("vecdot", (F, sg.placeholder((2, 4))), {}),
    ("trace", (V,), {}),
    ("kron", (F, "text"), {}),
    ("interp", (F, V, F), {}),
    ("bitwise_invert", (F,), {}),
    ("logical_not", (F,), {}),
    ("where", (F, F, F), {}),
    ("where", (B, F, V), {}),
    ("concat", ([F, V],), {}),
    ("split", (F, 2), {"axis": 7}),
    ("reshape", (F, 7), {}),
    ("permute_dims", (F, (0, 7)), {}),
    ("scatter_add", (F, [7], 1.0), {}),
    ("einsum", ("ij,ij->ij", F, V), {}),
]


@pytest.mark.parametrize(
    ("name", "operands", "options"), _CALLS, ids=[f"{i}-{row[0]}" for i, row in enumerate(_CALLS)]
)
def test_the_error_of_a_function_names_it(name, operands, options):
    with pytest.raises(SymgradError) as caught:
        getattr(sg, name)(*operands, **options)
    assert caught.value.subject == name


def _changed(types: list[TensorType]) -> Iterator[list[TensorType]]:
    """Yield the types of operands with another dtype or shape, all of them or one."""
    for chosen in (set(range(len(types))), *({i} for i in range(len(types)))):
        for dtype in (dtypes.bool_, dtypes.int32, dtypes.float64):
            yield [t.with_dtype(dtype) if i in chosen else t for i, t in enumerate(types)]
        for axes in ((2,), ()):
            shapes = [(*(5,) * t.ndim, *axes) for t in types]
            yield [t.with_shape(shapes[i]) if i in chosen else t for i, t in enumerate(types)]


def _refusals(node: Node) -> list[SymgradError]:
    errors = []
    for types in _changed([t.type for t in node.inputs]):
        try:
            node.definition.infer(*types, **node.attrs)
        except SymgradError as error:
            errors.append(error)
    return errors


# They take operands of every type, or none.
_REFUSE_NOTHING = {
    *("after", "astype", "dim_size", "identity", "iota", "linear_in", "prevent_gradient"),
    *("require_least", "same_on_ranks", "stop_gradient", "sum", "unfold"),
}

# They refuse to keep more elements than a row has, and nothing else.
_REFUSE_COUNTS = {"argsort", "sort"}


@together("case", [c for c in CASES if c.op], ids=lambda case: case.name)
def test_the_error_of_a_type_rule_names_its_op(case):
    xs = placeholders(case, case.dtypes[-1])
    nodes = [node for node in Graph(case.build(*xs), xs).nodes if node.op == case.op]
    errors = [error for node in nodes for error in _refusals(node)]
    assert {error.subject for error in errors} <= {case.op}
    if case.op in _REFUSE_COUNTS:
        assert all("of axis" in error.problem for error in errors)
    else:
        assert bool(errors) == (case.op not in _REFUSE_NOTHING)
