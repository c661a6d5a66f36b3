"""Calls of functions of C: what they are passed, what they give, what becomes of a failure."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.parse import parse_program
from symgrad.codegen.program.print import print_program
from symgrad.codegen.program.run import run_program
from symgrad.codegen.program.verify import verify_program
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, lower_graph
from symgrad.graph.compare import structurally_equal
from symgrad.graph.dtypes import float64
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.ops.extern import extern_node
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array, Attr, TensorType
from tests.support.c_programs import needs
from tests.support.foreign_library import address_of, library

pytestmark = needs("cc")


def twice(x: Any, grad: Callable[..., Any] | None = None) -> sg.Tensor:
    """Return 2 x, of four elements."""
    (y,) = sg.extern("twice4", [x], [((4,), "float64")], pointer=address_of("twice4"), grad=grad)
    return y


def work(x: sg.Tensor) -> sg.Tensor:
    (y,) = sg.extern("work", [x], [((), "float64")], pointer=library().work, workspace=100)
    return y


def every_floor(graph: sg.Graph, inputs: list[Array]) -> tuple[list[Array], ...]:
    """Return the results of the reference, of the interpreter of programs, and of native code."""
    options = CompileOptions(target_named("native"), 1, fast_math=False, cache=False)
    program = lower_graph(graph, options).program
    step = sg.compile(list(graph.inputs), list(graph.outputs), opt_level=1)
    return evaluate(graph, inputs)[0], run_program(program, inputs).outputs, step(*inputs)


def test_a_function_reads_and_writes_what_it_is_passed():
    x = sg.placeholder((4,), "float64")
    graph = sg.Graph([twice(x + 1) * 3], [x])
    for found in every_floor(graph, [np.arange(4.0)]):
        np.testing.assert_array_equal(found[0], [6.0, 12.0, 18.0, 24.0])


def test_operands_are_passed_in_row_major_order_and_results_are_several():
    x, k = sg.placeholder((3, 2)), sg.placeholder((1, 6), "int32")
    flat, total = sg.extern(
        "read23",
        [x.T, k[:, ::-1]],
        [((6,), "float64"), ((), "int64")],
        pointer=address_of("read23"),
    )
    graph = sg.Graph([flat, total + 1], [x, k])
    inputs = [np.arange(6, dtype=np.float32).reshape(3, 2), np.arange(6, dtype=np.int32)[None]]
    for found in every_floor(graph, inputs):
        np.testing.assert_array_equal(found[0], [0, 2, 4, 1, 3, 5])
        assert found[1] == 16


def test_a_workspace_is_aligned_and_its_own():
    x = sg.placeholder((), "float64")
    for found in every_floor(sg.Graph([work(x) + work(x + 1)], [x]), [np.array(2.0)]):
        assert found[0] == 7


def test_a_status_is_an_error_with_function_and_status_and_nothing_is_updated():
    x = sg.placeholder((4,), "float64", name="x")
    w, v = sg.variable(np.ones(4), name="w"), sg.variable(np.ones(4), name="v")
    y = twice(x)
    step = sg.compile([x], sg.sum(w), updates=[(w, w * 2), (v, v + y)])
    with pytest.raises(sg.ForeignCallError, match=r"extern twice4: .* status 7") as caught:
        step(np.full(4, 101.0))
    assert isinstance(caught.value, RuntimeError)
    assert (w.value.tolist(), v.value.tolist()) == ([1.0] * 4, [1.0] * 4)
    step(np.zeros(4))
    assert (w.value.tolist(), v.value.tolist()) == ([2.0] * 4, [1.0] * 4)


def test_a_negative_status_is_told_as_it_is():
    x = sg.placeholder((), "float64")
    with pytest.raises(sg.ForeignCallError, match=r"status -3\n"):
        sg.compile([x], work(x), opt_level=0)(-1.0)


def test_a_failure_in_a_loop_and_in_a_function_ends_the_step():
    xs = sg.placeholder((3, 4), "float64")
    traced = sg.function(lambda x: sg.tanh(twice(x)))
    step = sg.compile([xs], sg.map(traced, xs), opt_level=1)
    rows = np.linspace(0, 1, 12).reshape(3, 4)
    np.testing.assert_allclose(step(rows), np.tanh(2 * rows), rtol=1e-12)
    with pytest.raises(sg.ForeignCallError, match="status 7"):
        step(rows + 200)


def test_a_gradient_is_what_the_user_says():
    x = sg.placeholder((4,), "float64")
    seen = []

    def grad(node, dy):
        seen.append((node.op, len(node.inputs)))
        return dy * 2

    y = twice(x * x, grad)
    (g,) = sg.gradients(sg.sum(y * y), [x])
    value = np.array([1.0, -2.0, 0.5, 3.0])
    np.testing.assert_allclose(sg.compile([x], g)(value), 16 * value**3)
    assert seen == [("extern", 1)]


def test_a_gradient_goes_through_loops_branches_and_functions():
    x = sg.placeholder((4,), "float64")
    traced = sg.function(lambda v: twice(v, lambda _, dy: dy * 2) * 0.25)
    y = sg.fori_loop(0, 3, lambda _, v: sg.cond(v[0] > 50, lambda: v, lambda: traced(v * v)), x)
    (g,) = sg.gradients(sg.sum(y), [x])
    value = np.array([1.0, 1.1, 0.9, 2.0])
    step = sg.compile([x], [y, g], opt_level=1)
    moved = [step(value + d * 1e-6)[0] for d in (1, -1)]
    np.testing.assert_allclose(step(value)[1], (moved[0] - moved[1]) / 2e-6, rtol=1e-5)


def test_tangents_and_batches_follow():
    def f(x):
        return twice(x, lambda _, dy: dy * 2) * x

    value = np.arange(4.0)
    _, tangent = sg.jvp(f, (value,), (np.ones(4),))
    np.testing.assert_allclose(tangent, 4 * value)
    rows = np.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(sg.vmap(f)(rows), 2 * rows**2)


def test_a_tangent_goes_through_a_function_that_calls_it():
    x = sg.placeholder((4,), "float64")
    function = sg.function(lambda v: twice(v, grad=lambda _, dy: dy * 2) * 3)
    (tangent,) = sg.jvp(function(x), x, sg.ones((4,), dtype="float64"))
    np.testing.assert_array_equal(evaluate(sg.Graph([tangent], [x]), [np.arange(4.0)])[0][0], 6.0)


def test_without_a_gradient_to_ask_for_one_is_a_lookup_error():
    x = sg.placeholder((4,), "float64")
    with pytest.raises(LookupError, match="extern twice4: the function has no gradient"):
        sg.gradients(twice(x), [x])


def test_sizes_may_be_unknown_until_a_call():
    x = sg.placeholder(("n",), "float64")
    node = extern_node(
        ForeignFunction("memcpy"),
        [x],
        [x.type],
        layout=[("out", 0), ("in", 0), ("int64", 8 * x.shape[0]), ("status*",)],
    )
    step = sg.compile([x], node.output + 1)
    for n in (0, 1, 5):
        np.testing.assert_array_equal(step(np.arange(float(n))), np.arange(n) + 1.0)


def scaled(x: sg.Tensor, how: str, flag: int) -> sg.Tensor:
    layout: list[tuple[Attr, ...]] = [
        ("char*", how), ("int32*", 4), ("int64*", 8), ("out", 0),
        ("symbol", ForeignFunction("constant_of_library", address_of("constant_of_library"))),
        ("int32", flag), ("status*",),
    ]  # fmt: skip
    function = ForeignFunction("scale_", address_of("scale_"))
    type_ = TensorType(float64, (4,))
    return extern_node(function, [x], [type_], layout=layout, copied=[(0, 0)]).output


def test_a_layout_passes_references_numbers_text_symbols_and_a_status():
    x = sg.placeholder((4,), "float64")
    outputs = [scaled(x, "D", 4), scaled(x, "M", 4), x + 0]
    value = np.array([8.0, 16.0, 24.0, 32.0])
    for found in every_floor(sg.Graph(outputs, [x]), [value]):
        np.testing.assert_array_equal(found[0], [1, 2, 3, 4])
        np.testing.assert_array_equal(found[1], 8 * value + 0.5)
        np.testing.assert_array_equal(found[2], value)
    with pytest.raises(sg.ForeignCallError, match=r"extern scale_: .* status 5"):
        sg.compile([x], scaled(x, "D", 3), opt_level=0)(value)


def test_a_call_is_part_of_the_text_of_graphs_and_programs():
    x = sg.placeholder((4,), "float64")
    graph = sg.Graph([scaled(x, "D", 4)], [x])
    again = sg.Graph.parse(str(graph))
    assert structurally_equal(graph, again)
    assert str(again) == str(graph)
    options = CompileOptions(target_named("native"), 1, fast_math=False, cache=False)
    program = lower_graph(graph, options).program
    parsed = parse_program(print_program(program))
    verify_program(parsed)
    assert print_program(parsed) == print_program(program)
    assert [function.name for function in parsed.functions] == ["scale_", "constant_of_library"]


def test_a_pointer_is_a_function_of_ctypes_or_its_address_and_is_kept_alive():
    x = sg.placeholder((), "int64")
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.POINTER(ctypes.c_int64)] * 2)

    def add_one(number, result):
        result[0] = number[0] + 1
        return 0

    step = sg.compile([x], sg.extern("add_one", [x], [((), "int64")], pointer=kind(add_one)))
    assert step(4) == [5]


def test_a_symbol_is_looked_up_in_the_process():
    x = sg.placeholder((), "int32")
    layout = [("int32", 3), ("status*",)]
    node = extern_node(ForeignFunction("abs"), [x], [x.type], layout=layout, copied=[(0, 0)])
    assert sg.compile([x], node.output, opt_level=0)(7) == 7


def test_a_graph_at_an_address_is_not_pickled():
    x = sg.placeholder((4,), "float64")
    with pytest.raises(TypeError, match="extern twice4 is at an address of this process"):
        sg.Graph([twice(x)], [x]).__reduce_ex__(4)


def test_threads_share_kernels_around_a_call():
    x = sg.placeholder((4,), "float64")
    big = sg.sum(sg.tanh(sg.broadcast_to(twice(x), (50_000, 4)) * 0.001))
    graph = [x], big
    one, two = (sg.compile(*graph, threads=n, opt_level=1)(np.arange(4.0)) for n in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_reports_say_what_a_call_does_to_kernels_and_memory():
    x = sg.placeholder((4,), "float64")
    step = sg.compile([x], sg.tanh(twice(x + 1)), opt_level=0)
    assert step.kernels[0].boundary == ("a function of C reads it",)
    assert 'extern "twice4"' in step.ir("loops")
    assert "extern.0" in step.ir("llvm")
    assert "k0" in str(step.profile(np.arange(4.0), repeat=2))


def test_complex_numbers_are_passed_as_c_has_them():
    z = sg.placeholder((3,), "complex128")
    layout: list[tuple[Attr, ...]] = [("out", 0), ("in", 0), ("int64", 48), ("status*",)]
    node = extern_node(ForeignFunction("memmove"), [z * 2], [z.type], layout=layout, is_pure=False)
    value = np.array([1 + 2j, -3j, 4])
    reference, as_reals, native = every_floor(sg.Graph([node.output + 1j], [z]), [value])
    for found in (reference, [as_reals[0].view(np.complex128)[:, 0]], native):
        np.testing.assert_array_equal(found[0], 2 * value + 1j)


# --------------------------------------------------------------------------------- looking into it


def in_a_loop() -> sg.Step:
    x = sg.placeholder((4,), "float64")
    with sg.name_scope("outside"):
        first = twice(x + 1)
    last = sg.while_loop(
        lambda i, _: i < 3, lambda i, v: (i + 1, twice(v)), (sg.constant(0), first)
    )
    return sg.compile([x], last[1] * 3, opt_level=1)


def test_calls_of_c_are_measured_beside_kernels_by_their_line_and_scope():
    step = in_a_loop()
    found = step.profile(np.ones(4), repeat=2)
    assert [row.kernel for row in found.rows] == list(step.kernels)
    rows = [row for row in found.rows if row.kernel.name == "twice4()"]
    assert [row.runs for row in rows] == [1, 3]
    assert all(row.seconds > 0 for row in rows)
    (merged,) = (row for row in found.by_kernel if row.kernel.name == "twice4()")
    assert (merged.calls, merged.runs) == (2, 4)
    (record, _) = (row.kernel for row in rows)
    assert (record.ops, record.scopes, record.flops, record.bytes) == (
        ("extern",), ("outside",), 0, 64,
    )  # fmt: skip
    assert "test_extern.py" in record.lines[0]
    (scope,) = (group for group in found.by_scope if group.name == "outside")
    assert scope.seconds >= rows[0].seconds
    assert "twice4() x2" in str(found)


def test_calls_of_c_are_events_of_a_timeline(tmp_path: Path) -> None:
    step = in_a_loop()
    step.trace(tmp_path / "step.json", np.ones(4))
    events = json.loads((tmp_path / "step.json").read_text())["traceEvents"]
    calls = [e for e in events if e["name"].startswith("twice4()")]
    assert len(calls) == 4
    assert calls[0]["args"]["name scopes"] == "outside"
    assert calls[0]["dur"] > 0


def test_the_stages_and_the_page_show_calls_of_c(tmp_path: Path) -> None:
    step = in_a_loop()
    assert step.ir("loops", "twice4()").count('extern "twice4"') == 2
    assert "extern" in step.ir("graph", "twice4()")
    step.report(tmp_path / "step.html", np.ones(4), repeat=1)
    assert 'data-kernel="twice4()"' in (tmp_path / "step.html").read_text()
