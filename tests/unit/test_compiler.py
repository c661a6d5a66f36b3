"""The compiler: its tables are in order, and options reach every row of all three."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad import compiler
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.program import passes as program_passes
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.passes import PROGRAM_PASSES
from symgrad.codegen.program.run import run_program
from symgrad.codegen.schedule import kernel_pool
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.schedule.passes import KERNEL_PASSES, KernelPass, Machine
from symgrad.codegen.schedule.relocate import Relocated, unmoved
from symgrad.codegen.target import target_named
from symgrad.compiler import (
    PASSES,
    CompileOptions,
    Prepared,
    lower_graph,
    prepare,
)
from symgrad.config import override
from symgrad.errors import GraphError
from symgrad.graph.graph import Graph
from symgrad.graph.verify import verify
from symgrad.passes import pipeline
from symgrad.passes.calls import inline_calls
from symgrad.passes.fusion.partition import Partition
from symgrad.passes.pipeline import FUSE, GRAPH_PASSES, rows_of
from symgrad.passes.rewrites.rewrite import Rewrite
from symgrad.passes.table import AnyPass, Options, check_order
from symgrad.runtime.executable import Executable
from symgrad.single_passes import parse_level, print_level, run_passes
from tests.support.control_programs import gradient
from tests.support.floors import run_native, run_reference

NATIVE = target_named("native")
OPTIONS = CompileOptions(NATIVE, 1, False, False, Threads(2, least_cycles=0))
MACHINE = Machine(NATIVE, OPTIONS.threads)
NAMES = [row.name for row in PASSES]
OPTIONAL = [row.name for row in PASSES if not row.is_required]
OVER_GRAPHS = [name for name in OPTIONAL if name in [row.name for row in GRAPH_PASSES]]


X = sg.placeholder((2, 3), "float64", name="x")
W = sg.placeholder((3, 3), "float64", name="w")
ROW = sg.placeholder((65,), "float64", name="row")
ARRAYS = [np.linspace(-1, 1, 6).reshape(2, 3), np.eye(3) / 3, np.linspace(0, 1, 65)]


def a_program() -> Graph:
    """Return a program in which there is work for most passes, as a user builds it.

    A function that remains one and a small one, in a gradient too; a function with a tape, a node
    that stands for another one, a long sum, products and updates.
    """

    @sg.function
    def large(v: sg.Tensor) -> sg.Tensor:
        v = sg.tanh(sg.sin(v @ W) * 0.5) + sg.exp(v)
        result: sg.Tensor = v / (1.0 + sg.sum(v * v, axis=0))
        return result

    @sg.function
    def looped(v: sg.Tensor) -> sg.Tensor:
        is_small = lambda u: sg.sum(u * u) < 40.0  # noqa: E731 - as users write it
        (end,) = sg.while_loop(is_small, lambda u: (u * 1.5 + v,), (v,))
        assert isinstance(end, sg.Tensor)
        return end

    @sg.custom_gradient
    def doubled(v: sg.Tensor) -> Any:
        return v * 2.0, lambda g: g * 2.0

    y = X
    for _ in range(3):
        y = large(y)
    total = sg.sum(doubled(looped(y) + sg.sum(ROW * 2.0)))
    return Graph([total, gradient(total, X), gradient(total, W)], [X, W, ROW])


PROGRAM = a_program()
WANTED = run_reference(PROGRAM, ARRAYS).outputs


def check(program: Program) -> None:
    found = run_program(program, ARRAYS).outputs
    for a, b in zip(found, WANTED, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.fixture(autouse=True)
def functions_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a function that is called three times remain one."""
    monkeypatch.setattr(inline_calls, "FUNCTION_GROWTH", 16)


# ------------------------------------------------------------------------------------ the tables


def test_the_rows_of_all_tables_are_in_an_order_that_their_reasons_ask_for():
    check_order(PASSES)
    assert (*GRAPH_PASSES, *KERNEL_PASSES, *PROGRAM_PASSES) == PASSES
    named = {name for row in PASSES for name in row.after} | {r.name for r in PASSES if r.after}
    assert named == set(NAMES)


@pytest.mark.parametrize("row", [row for row in PASSES if row.after], ids=lambda row: row.name)
def test_a_pass_in_the_wrong_place_is_noticed(row):
    with pytest.raises(AssertionError, match=f"must run before {row.name}: "):
        check_order((row, *(other for other in PASSES if other is not row)))


def test_an_unknown_and_a_repeated_pass_and_a_missing_reason_are_noticed():
    with pytest.raises(AssertionError, match="unknown pass"):
        check_order((*PASSES, replace(FUSE, name="last", after={"beautify": "it is nicer"})))
    with pytest.raises(AssertionError, match="listed twice"):
        check_order((*PASSES, PASSES[0]))
    with pytest.raises(AssertionError, match="nothing says why last runs after fuse"):
        check_order((*PASSES, replace(FUSE, name="last", after={"fuse": ""})))


# ------------------------------------------------------------------------------------ the options


def lower(**passes: Any) -> Program:
    # Other tests verify what all passes make; here it would take most of the time.
    return lower_graph(PROGRAM, OPTIONS, passes=Options(**{"verify": False, **passes})).program


def test_every_pass_is_run_and_printed():
    names: dict[str, str] = {}
    lower(print_after=lambda name, text: names.update({name: text}))
    assert set(names) == {*NAMES} - {"specialize"}
    assert names["prune-loops"].startswith("graph @")
    assert names["fuse"].startswith("partition @")
    assert names["vectorize"].startswith("kernel @")
    assert names["registers"].startswith("program @")
    assert "routine @large" in names["registers"]
    assert " polls(" in names["polls"].partition("\n")[0]


@pytest.mark.parametrize("skipped", OVER_GRAPHS)
def test_a_program_is_right_without_any_pass_over_graphs_that_is_not_required(skipped):
    names: list[str] = []
    check(lower(skip=[skipped], print_after=lambda name, _: names.append(name)))
    assert skipped not in names


@pytest.mark.parametrize("name", [row.name for row in PASSES if row.is_required])
def test_a_required_pass_cannot_be_skipped(name):
    with pytest.raises(GraphError, match=f"'{name}' cannot be skipped"):
        lower(skip=[name])


@pytest.mark.parametrize("last", ["merge-loops", "cse", "vectorize", "registers"])
def test_behind_the_last_pass_only_required_ones_run_in_any_table(last):
    names: dict[str, None] = {}
    check(lower(stop_after=last, print_after=lambda name, _: names.update({name: None})))
    behind = NAMES[NAMES.index(last) + 1 :]
    assert last in names
    assert not [name for name in behind if name in names and name in OPTIONAL]
    assert "plan-memory" in names


@pytest.mark.parametrize("skipped", [*OPTIONAL[len(OVER_GRAPHS) :], None])
def test_machine_code_is_right_without_any_pass_that_is_not_required(skipped):
    x, at = sg.placeholder((40, 30), "float64"), sg.placeholder((2,), "int64")
    total = sg.while_loop(lambda v: v.sum() < 9.0, lambda v: (v + 1.0,), (x[0],))[0]
    outputs = [sg.sum(sg.tanh(x) @ x.T, axis=0), x[3:] * 2.0, sg.sum(x), sg.take(x[4], at), total]
    passes = Options(skip=OPTIONAL if skipped is None else [skipped])
    step = Executable(Graph(outputs, [x, at]), OPTIONS, passes=passes)
    array = np.linspace(-1, 1, 1200).reshape(40, 30)
    wanted = [np.sum(np.tanh(array) @ array.T, axis=0), array[3:] * 2.0, np.sum(array)]
    wanted += [array[4, [7, 2]], array[0] + np.ceil((9.0 - array[0].sum()) / 30)]
    for a, b in zip(run_native(step, [array, np.array([7, 2])]).outputs, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    with pytest.raises(sg.IndexOutOfRangeError, match="index 30 is out of range for axis 0"):
        run_native(step, [array, np.array([7, 30])])


def test_bisect_counts_through_all_tables():
    every: list[Rewrite] = []
    whole = lower(on_rewrite=every.append)
    rules = [rewrite.rule for rewrite in every]
    assert [r.number for r in every] == list(range(1, len(every) + 1))
    for name in ("inline-calls", "merge-loops", "prune-loops", "vectorize", "registers", "polls"):
        assert name in rules, f"{name} has done nothing"
    assert str(every[0]).startswith("1: inline-calls at graph @graph(%x: f64[2, 3], ")
    kernel = next(r for r in every if r.rule == "vectorize")
    assert str(kernel.place).startswith("kernel @k")
    for limit in (0, rules.index("vectorize") + 1, len(every)):
        made: list[Rewrite] = []
        partly = lower(bisect=limit, on_rewrite=made.append)
        assert [r.rule for r in made] == rules[:limit]
        assert (str(partly) == str(whole)) == (limit == len(every))


# ---------------------------------------------------------------------------------- verification


def test_what_a_pass_over_kernels_breaks_is_named(monkeypatch):
    def twice(given: Relocated, _machine: Machine) -> Relocated:
        params = given.kernel.params
        return replace(given, kernel=replace(given.kernel, params=(*params, *params)))

    wrong = (*KERNEL_PASSES[:3], KernelPass("break", twice), *KERNEL_PASSES[3:])
    monkeypatch.setattr(kernel_pool, "KERNEL_PASSES", wrong)
    monkeypatch.setattr(compiler, "PASSES", (*GRAPH_PASSES, *wrong, *PROGRAM_PASSES))
    with pytest.raises(AssertionError, match="names two parameters") as caught:
        lower(verify=True)
    assert "in pass break" in caught.value.__notes__


@pytest.mark.parametrize("is_verified", [True, False])
def test_groups_programs_and_kernels_are_verified_under_the_setting(monkeypatch, is_verified):
    verified: set[str] = set()

    def seen(row: AnyPass) -> AnyPass:
        def verify_and_note(value: Any) -> None:
            row.verify(value)
            verified.add(row.name)

        return replace(row, verify=verify_and_note)

    graph_rows = tuple(map(seen, GRAPH_PASSES))
    monkeypatch.setattr(pipeline, "GRAPH_PASSES", graph_rows)
    for module, name in ((compiler, "FUSE"), (compiler, "SPECIALIZE")):
        row = getattr(module, name)
        monkeypatch.setattr(module, name, next(r for r in graph_rows if r.name == row.name))
    monkeypatch.setattr(kernel_pool, "KERNEL_PASSES", tuple(map(seen, KERNEL_PASSES)))
    monkeypatch.setattr(program_passes, "PROGRAM_PASSES", tuple(map(seen, PROGRAM_PASSES)))
    with override(verify=is_verified):
        lower(verify=None)
    # A pass that changed nothing has nothing to verify.
    assert bool(verified) == is_verified
    if is_verified:
        assert verified > {"merge-loops", "fuse", "vectorize", "plan-memory", "registers", "polls"}


# --------------------------------------------------------------------------------- single passes


def test_a_graph_is_prepared_once_and_then_compiled_for_its_sizes():
    x = sg.placeholder(("n",), name="x")
    y = sg.while_loop(lambda v: v.sum() < 9.0, lambda v: (v * 2.0,), (x,))[0]
    graph = Graph([y, gradient(sg.sum(y), x)], [x])
    loops = [sum(node.op == "while" for node in g.nodes) for g in (graph, prepare(graph).graph)]
    assert loops == [2, 1]
    for given in (graph, prepare(graph)):
        found = lower_graph(given, OPTIONS, {"n": 4})
        assert found.graph.inputs[0].shape == (4,)
        verify(found.optimized)


def test_what_is_prepared_is_not_prepared_again():
    names: list[str] = []
    x = sg.placeholder((4,))
    passes = Options(print_after=lambda name, _: names.append(name))
    lower_graph(Prepared(Graph([sg.exp(x)], [x])), OPTIONS, passes=passes)
    assert not {row.name for row in rows_of("as built")} & {*names}
    assert "fuse" in names


TEXT = "graph @f(%x: f32[4]) -> f32[4] {\n  %0 = exp %x : f32[4]\n  return %0\n}\n"
KERNEL = "kernel @k(in x: f32[8], out y: f32[4]) { for i in 0..4 { t: f32 = x[i + 4] y[i] = t } }"


PROGRAM_TEXT = """kernel @k0(in b0: f32[4], out b1: f32[4]) {
  for i0 in 0..4 {
    t0: f32 = b0[i0]
    b1[i0] = t0
  }
}

program @p arena(0) {
  input0: f32[4]
  output0: f32[4]
  temporary0: f32[4]

  launch @k0(input0, temporary0)
  launch @k0(temporary0, output0)
}
"""


def text_after(text: str, *names: str) -> str:
    return print_level(run_passes(parse_level(text), names, MACHINE))


def test_passes_run_one_by_one_on_graphs_kernels_and_programs():
    graph = parse_level(TEXT)
    assert run_passes(graph, [], MACHINE) is graph
    assert isinstance(run_passes(graph, ["simplify"], MACHINE), Graph)
    assert isinstance(run_passes(graph, ["simplify", "fuse"], MACHINE), Partition)
    assert text_after(TEXT) == TEXT
    assert text_after(TEXT, "fuse").startswith("partition @f")
    assert text_after(KERNEL).startswith("kernel @k(in x: f32[8], out y: f32[4]) {")
    text = text_after(KERNEL, "relocate")
    assert text.startswith("kernel @k(in x: f32[4], out y: f32[4]) {")
    assert text.endswith("}\n// x begins at element 4\n")
    assert text_after(PROGRAM_TEXT, "registers") == PROGRAM_TEXT
    placed = PROGRAM_TEXT.replace("arena(0)", "arena(64)")
    placed = placed.replace("temporary0: f32[4]", "temporary0: f32[4] at 0 alive 0 to 1")
    assert text_after(PROGRAM_TEXT, "plan-memory") == placed


def test_a_pass_of_another_level_has_nothing_to_run_on():
    with pytest.raises(GraphError, match=r"'beautify' is none of inline-calls, .*plan-memory"):
        text_after(TEXT, "beautify")
    with pytest.raises(GraphError, match="plan-memory does not run on graphs"):
        text_after(TEXT, "plan-memory")
    with pytest.raises(GraphError, match="simplify does not run on partitions"):
        text_after(TEXT, "fuse", "simplify")
    with pytest.raises(GraphError, match="cse does not run on kernels"):
        text_after(KERNEL, "cse")
    with pytest.raises(GraphError, match="vectorize does not run on programs"):
        text_after(PROGRAM_TEXT, "vectorize")


@pytest.mark.parametrize("text", ["", "module @m {}", "partition @f() {\n}\n"])
def test_text_of_no_level_that_is_read_is_refused(text):
    with pytest.raises(GraphError, match="none of graph, kernel, program"):
        parse_level(text)


def test_a_kernel_that_is_not_moved_keeps_its_statuses():
    text = """kernel @k(in at: i64[2], in x: f32[9], out y: f32[2]) { for i in 0..2 {
      t: i64 = at[i] check r = t in 9 else 3 u: f32 = x[r] y[i] = u } }"""
    kernel = parse_kernel(text)
    assert unmoved(kernel) == Relocated(kernel, (0, 0, 0), (1, 2, 3))
