"""Properties of every op, tested over the table of `tests/support/cases.py`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import OPS
from symgrad.graph.ops import declare_all
from symgrad.graph.structures import Gather, Iota, Map, Place, Reshape, View
from symgrad.graph.types import Array
from tests.support.case import Case, draw, placeholders, tolerance, widened
from tests.support.cases import CASES
from tests.support.evaluators import (
    EVALUATORS,
    evaluate_compiled,
    evaluate_loops,
    evaluate_reference,
)
from tests.support.gradcheck import check_derivatives
from tests.support.special_cases import SPECIAL
from tests.support.together import together

# Rows would else be those of what happens to be imported, of which each worker has its own.
declare_all()

_LEAVES = {"placeholder", "constant", "variable"}
# These are no computation, and gone before a program has kernels.
_STAND_INS = {"custom_gradient", "recompute"}
# By name: cases are compared by all that they are made of.
_TURNS = {case.name: turn for turn, case in enumerate(CASES)}
_SPECIAL_NAMES = {case.name for case in SPECIAL}


def _name(case: Case) -> str:
    return case.name


every_case = together("case", CASES, ids=_name)
# Where each row is compiled.
few_cases = together("case", CASES, ids=_name, at_once=5)
# "compiled": machine code and the loop interpreter, both of one program.
either_way = pytest.mark.parametrize("evaluator", ["reference", "compiled"])
# Where what compiles is as good as something else that is compiled.
slow_natively = pytest.mark.parametrize(
    "evaluator",
    [pytest.param(e, marks=pytest.mark.slow) if e == "native" else e for e in EVALUATORS],
)


def _assert_agree(
    cases: Sequence[tuple[Case, DType]], evaluator: str, *, symbolic: bool = False
) -> None:
    """Assert that results have the inferred types and the expected values.

    They are those of one program: most of what it takes to run one does not depend on its length.
    """
    given = [draw(case, dtype) for case, dtype in cases]
    xs = [placeholders(case, dtype, symbolic=symbolic) for case, dtype in cases]
    results = [case.build(*of_case) for (case, _), of_case in zip(cases, xs, strict=True)]
    graph = Graph(results, [x for of_case in xs for x in of_case])
    flat = [array for arrays in given for array in arrays]
    if evaluator == "compiled":
        found = evaluate_compiled(graph, flat)
    else:
        found = {evaluator: EVALUATORS[evaluator](graph, flat)}
    for place, ((case, dtype), arrays) in enumerate(zip(cases, given, strict=True)):
        with np.errstate(all="ignore"):
            expected = np.asarray(case.expected(*widened(arrays)))
        for name, of_program in found.items():
            assert len(of_program) == len(results), name
            what = f"{name}: {case.name} of {dtype}, {[a.shape for a in arrays]}"
            _assert_close(case, results[place], of_program[place], expected, what)


def _assert_close(case: Case, result: Tensor, found: Array, expected: Array, what: str) -> None:
    assert found.dtype == result.dtype.numpy, what
    assert found.shape == expected.shape, what
    if result.dtype.is_float:
        close = tolerance(case, result.dtype)
        wide, wanted = found.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(wide, wanted, rtol=close, atol=close, err_msg=what)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=what)


def _is_of_symgrad(op: str) -> bool:
    # Tests declare ops of their own.
    return not op.startswith("test.") and OPS[op].infer.__module__.startswith("symgrad.")


def test_every_op_has_a_row():
    ops = {op for op in OPS if _is_of_symgrad(op)} - _LEAVES - _STAND_INS
    missing = ops - {case.op for case in CASES}
    assert not missing, f"ops without a row in the table: {sorted(missing)}"


@together("op", sorted(filter(_is_of_symgrad, OPS)), at_once=100)
def test_an_op_has_a_gradient_or_says_that_it_has_none(op):
    assert callable(OPS[op].grad) or OPS[op].grad == "none"


def test_names_of_rows_are_distinct():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


@every_case
def test_the_row_uses_its_op(case):
    used = set()
    for dtype in case.dtypes:
        xs = placeholders(case, dtype)
        used |= {node.op for node in Graph(case.build(*xs), xs).nodes}
    assert case.op is None or case.op in used


@every_case
def test_what_is_a_map_or_moves_elements_is_fusible(case):
    xs = placeholders(case, case.dtypes[-1])
    for node in Graph(case.build(*xs), xs).nodes:
        rule = node.definition.kernel
        if rule is None:
            continue
        structure = rule(*(operand.type for operand in node.inputs), **node.attrs)
        is_moved = isinstance(structure, View | Reshape | Place | Gather | Iota)
        is_map = isinstance(structure, Map)
        assert type(structure) is node.definition.structure, node
        assert node.definition.is_fusible == (is_moved or is_map), node


def _one_of_each_kind(case: Case) -> list[DType]:
    """Return one dtype of those of each kind that a row has, in turns of the rows.

    Compiling takes longer than all else does together. That every scalar operation is right in
    each dtype is for `tests/unit/codegen/test_scalar_ops.py`; special functions are long.
    """
    kinds: dict[str, list[DType]] = {}
    for dtype in case.dtypes:
        kinds.setdefault(_kind(case, dtype), []).append(dtype)
    turn = _TURNS[case.name]
    return [dtypes_of_kind[turn % len(dtypes_of_kind)] for dtypes_of_kind in kinds.values()]


def _kind(case: Case, dtype: DType) -> str:
    if dtype.is_half:
        return "half"
    return dtype.name if dtype.is_float and case.name not in _SPECIAL_NAMES else dtype.kind


@pytest.mark.parametrize("evaluator", ["reference", pytest.param("native", marks=pytest.mark.slow)])
@every_case
def test_values_agree_with_numpy_in_every_dtype(case, evaluator):
    _assert_agree([(case, dtype) for dtype in case.dtypes], evaluator)


def _one_in_turn(case: Case) -> DType:
    of_each_kind = _one_of_each_kind(case)
    return of_each_kind[_TURNS[case.name] % len(of_each_kind)]


@few_cases
def test_native_code_and_loops_agree_with_numpy_in_one_dtype(case):
    _assert_agree([(case, _one_in_turn(case))], "compiled")


@pytest.mark.slow
@few_cases
def test_native_code_and_loops_agree_with_numpy_in_a_dtype_of_each_kind(case):
    _assert_agree([(case, dtype) for dtype in _one_of_each_kind(case)], "compiled")


@together("case", [case for case in CASES if len(case.dtypes) > 1], ids=_name, at_once=10)
def test_loops_agree_with_numpy_in_every_other_dtype(case):
    known = _one_in_turn(case)
    _assert_agree([(case, dtype) for dtype in case.dtypes if dtype != known], "loops")


@every_case
def test_what_uses_its_result_may_be_fused_with_it(case):
    dtype = case.dtypes[-1]
    xs = placeholders(case, dtype)
    result = case.build(*xs)
    behind = sg.logical_not(result) if result.dtype.is_bool else result + result
    graph = Graph(behind, xs)
    arrays = draw(case, dtype)
    (wanted,), (found,) = evaluate_reference(graph, arrays), evaluate_loops(graph, arrays)
    close = tolerance(case, behind.dtype) if behind.dtype.is_float else 0
    np.testing.assert_allclose(found, wanted, rtol=2 * close, atol=2 * close)


@either_way
@together("case", [c for c in CASES if c.also], ids=_name, at_once=5)
def test_values_agree_with_numpy_for_empty_and_single_axes(case, evaluator):
    dtype = case.dtypes[-1]
    _assert_agree([(case.with_shapes(shapes), dtype) for shapes in case.also], evaluator)


# A program is compiled when its sizes are known.
@slow_natively
@together("case", [c for c in CASES if c.symbolic], ids=_name)
def test_values_agree_with_numpy_when_sizes_are_unknown(case, evaluator):
    _assert_agree([(case, case.dtypes[-1])], evaluator, symbolic=True)


@together("case", [c for c in CASES if c.order], ids=_name)
def test_derivatives_agree_with_differences(case):
    xs = placeholders(case, dtypes.float64)
    check_derivatives(case.build, xs, draw(case, dtypes.float64), order=case.order)


@together("case", [c for c in CASES if c.order and c.symbolic], ids=_name)
def test_derivatives_agree_with_differences_when_sizes_are_unknown(case):
    xs = placeholders(case, dtypes.float64, symbolic=True)
    check_derivatives(case.build, xs, draw(case, dtypes.float64), order=case.order)


@together("case", [c for c in CASES if c.order and c.also], ids=_name)
def test_derivatives_agree_with_differences_for_empty_and_single_axes(case):
    for shapes in case.also:
        resized = case.with_shapes(shapes)
        xs = placeholders(resized, dtypes.float64)
        check_derivatives(resized.build, xs, draw(resized, dtypes.float64), order=1)


@every_case
def test_the_graph_is_read_back_as_it_was_printed(case):
    from symgrad.graph.compare import structurally_equal
    from symgrad.graph.text.parse import parse_graph
    from symgrad.graph.text.print import print_graph

    xs = placeholders(case, case.dtypes[-1], symbolic=case.symbolic)
    graph = Graph(case.build(*xs), xs)
    text = print_graph(graph)
    again = parse_graph(text)
    assert structurally_equal(graph, again)
    assert print_graph(again) == text
