"""Weight prepacking: which factors of products in loops are packed before them."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.print import print_program
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LoopView
from symgrad.graph.node import Node, Tensor
from symgrad.passes.loops import prepack as prepack_module
from symgrad.passes.loops.prepack import prepack
from symgrad.passes.rewrites.rewrite import Rewrites
from symgrad.runtime.function import compile
from tests.support.floors import compile_for, optimized_once, program_for
from tests.support.loop_parts import changed_by, ops_by_depth, reasons, scan_of

ROWS, TERMS, COLUMNS = 4, 64, 1024
H = sg.placeholder((ROWS, TERMS), name="h")
W = sg.placeholder((TERMS, COLUMNS), name="w")
V = sg.placeholder((COLUMNS, TERMS), name="v")
RNG = np.random.default_rng(0)
ARRAYS = [RNG.normal(size=t.type.static_shape).astype("f") * 0.1 for t in (H, W, V)]


def _step(h: Tensor) -> list[Tensor]:
    return [sg.tanh(sg.tanh(h @ W) @ V)]


def _loop(graph: Graph) -> Node:
    (loop,) = (node for node in graph.nodes if node.op in ("scan", "while"))
    return loop


def test_a_weight_whose_rows_lie_a_page_apart_is_packed_before_the_loop():
    graph = Graph(scan_of(_step, [H], trips=4).outputs, [H, W, V])
    after = changed_by(prepack, graph, ARRAYS)
    found = ops_by_depth(after)
    assert (found[0, "permute_dims"], found[1, "permute_dims"]) == (1, 0)
    shapes = [t.type.static_shape for t in LoopView(_loop(after)).body.inputs[1:]]
    assert sorted(shapes) == [(16, 64, 64), (1024, 64)]
    assert prepack(after, Rewrites()) is after


def test_a_weight_that_is_multiplied_transposed_is_transposed_into_panels_before_the_loop():
    wide = sg.placeholder((ROWS, COLUMNS), name="wide")

    def step(g: Tensor) -> list[Tensor]:
        return [sg.tanh(sg.matmul(g @ V, W))]

    def transposed(g: Tensor) -> list[Tensor]:
        return [sg.tanh(sg.matmul(sg.matmul(g, W, transpose_b=True), V, transpose_b=True))]

    given = [RNG.normal(size=(ROWS, COLUMNS)).astype("f"), *ARRAYS[1:]]
    graph = Graph(scan_of(transposed, [wide], trips=4).outputs, [wide, W, V])
    after = changed_by(prepack, graph, given)
    shapes = [t.type.static_shape for t in LoopView(_loop(after)).body.inputs[1:]]
    assert sorted(shapes) == [(1, 1024, 64), (1024, 64)]
    assert prepack(after, Rewrites()) is after
    # What is multiplied both ways has panels of either kind.
    graph = Graph(scan_of(lambda h: step(transposed(h)[0]), [wide], trips=4).outputs, [wide, W, V])
    shapes = [
        t.type.static_shape
        for t in LoopView(_loop(changed_by(prepack, graph, given))).body.inputs[1:]
    ]
    assert sorted(shapes) == [(1, 1024, 64), (16, 64, 64), (1024, 64)]


@pytest.mark.parametrize(
    ("target", "width"),
    [("x86-64", 8), ("x86-64-v3", 16), ("x86-64-v4", 64), ("aarch64", 64)],
)
def test_panels_are_as_wide_as_tiles_of_two_vectors_where_registers_are_few(target, width):
    outputs = scan_of(_step, [H], trips=4).outputs
    text = compile([H, W, V], outputs, target=target, cache=False).ir("loops")
    assert f"f32[{COLUMNS // width}, {TERMS}, {width}]" in text


def test_floors_of_several_targets_have_the_panels_of_each():
    graph = Graph(scan_of(_step, [H], trips=4).outputs, [H, W, V])
    widths = {"x86-64": 8, "x86-64-v3": 16}
    with optimized_once():
        for target, width in widths.items():
            made = compile_for(graph, target, opt_level=0).program
            for program in (made, program_for(graph, target)):
                assert f"f32[{COLUMNS // width}, {TERMS}, {width}]" in print_program(program)


def test_narrow_panels_are_of_products_of_as_many_columns_and_terms_as_wide_ones():
    narrow = Rewrites(panel_bytes=32)
    graph = Graph(scan_of(_step, [H], trips=4).outputs, [H, W, V])
    shapes = [t.type.static_shape for t in LoopView(_loop(prepack(graph, narrow))).body.inputs[1:]]
    assert sorted(shapes) == [(128, 64, 8), (1024, 64)]
    h, w = sg.placeholder((ROWS, 63)), sg.placeholder((63, COLUMNS))
    graph = Graph(scan_of(lambda v: [(v @ w)[:, :63]], [h], trips=4).outputs, [h, w])
    assert prepack(graph, narrow) is graph


@pytest.mark.parametrize(("panel_bytes", "is_packed"), [(256, False), (64, True)])
def test_a_weight_of_which_panels_leave_columns_over_is_not_packed(panel_bytes, is_packed):
    h, w = sg.placeholder((ROWS, 96)), sg.placeholder((96, 528))
    graph = Graph(scan_of(lambda v: [sg.tanh(v @ w)[:, :96]], [h], trips=4).outputs, [h, w])
    assert (prepack(graph, Rewrites(panel_bytes=panel_bytes)) is not graph) == is_packed


def test_two_products_with_one_weight_share_its_panels():
    def step(h: Tensor) -> list[Tensor]:
        first = sg.tanh(h @ W)
        return [sg.tanh(first @ V) @ W[:, :64] + (sg.sin(h) @ W)[:, :64]]

    graph = Graph(scan_of(step, [H], trips=4).outputs, [H, W, V])
    after = changed_by(prepack, graph, ARRAYS)
    assert ops_by_depth(after)[0, "permute_dims"] == 1


def test_a_weight_that_other_ops_read_too_stays_beside_its_panels():
    graph = Graph(scan_of(lambda h: [(h @ W)[:, :64] + W[:4, :64]], [H], trips=4).outputs, [H, W])
    shapes = [t.shape for t in LoopView(_loop(changed_by(prepack, graph, ARRAYS[:2]))).body.inputs]
    assert shapes == [(4, 64), (64, 1024), (16, 64, 64)]


def test_a_transposed_product_with_several_row_axes_is_packed():
    x = sg.placeholder((2, TERMS, 3), name="x")

    def step(v: Tensor) -> list[Tensor]:
        wide = sg.einsum("atb,tc->bac", v, W)
        return [sg.tanh(sg.einsum("bac,ct->atb", wide, V))]

    graph = Graph(scan_of(step, [x], trips=4).outputs, [x, W, V])
    given = [RNG.normal(size=(2, TERMS, 3)).astype("f"), *ARRAYS[1:]]
    assert ops_by_depth(changed_by(prepack, graph, given))[0, "permute_dims"] == 1


@pytest.mark.parametrize(
    ("rows", "terms", "columns", "trips"),
    [(3, 64, 1024, 4), (4, 63, 1024, 4), (4, 64, 1000, 4), (4, 64, 64, 4), (4, 64, 1024, 3)],
    ids=["few rows", "few terms", "no whole panels", "one panel", "few iterations"],
)
def test_others_stay(rows, terms, columns, trips):
    h, w = sg.placeholder((rows, terms)), sg.placeholder((terms, columns))
    graph = Graph(scan_of(lambda v: [(v @ w)[:, :terms]], [h], trips=trips).outputs, [h, w])
    assert prepack(graph, Rewrites()) is graph


@pytest.mark.parametrize(
    "step",
    [
        lambda h, w: [h, sg.tanh(w)],
        lambda h, w: [(h @ w)[:, :64], w * 0.5],
        lambda h, w: [sg.einsum("bt,tc->cb", h, w)[:64].T, w],
        lambda h, w: [h * sg.einsum("bt,tc->t", h, w), w],
    ],
    ids=["no product", "a weight that changes", "columns that are rows", "columns that are summed"],
)
def test_what_is_no_product_with_a_fixed_matrix_stays(step):
    if step(H, W)[1] is W:
        node = scan_of(lambda h: [step(h, W)[0]], [H], trips=4)
    else:
        node = scan_of(step, [H, W], trips=4)
    graph = Graph(node.outputs, [H, W])
    assert prepack(graph, Rewrites()) is graph


def test_the_reason_has_what_was_weighed():
    graph = Graph(scan_of(_step, [H], trips=4).outputs, [H, W, V])
    packed, left = reasons(prepack, graph)
    assert "packed before the loop: 4 rows of a product with 64 rows of 4096 bytes" in packed
    assert "left: 4 rows of a product with 1024 rows of 256 bytes" in left


@pytest.mark.parametrize("target", ["native", pytest.param("x86-64-v3", marks=pytest.mark.slow)])
def test_a_recurrence_has_the_same_bits_with_panels_and_without_and_its_gradient_is_right(target):
    """A sum over rows of a transposed weight may be taken in lanes where there are no panels."""
    last, _ = sg.scan(lambda h, _: (_step(h)[0], None), H, length=5)
    outputs = [last, *sg.gradients(sg.sum(last), [H, W, V])]
    found: list[list[np.ndarray]] = []
    for is_packed in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not is_packed:
                patch.setattr(prepack_module, "PACKED_ROWS", ROWS + 1)
            step = compile([H, W, V], outputs, target=target, cache=False, opt_level=1)
        told = [str(d) for d in step.decisions if d.rule == "prepack"]
        assert any("packed before" in text for text in told) == is_packed
        found.append([np.array(a) for a in step(*ARRAYS)])
    packed, plain = found
    assert packed[0].tobytes() == plain[0].tobytes()
    for with_panels, without, exact in zip(packed[1:], plain[1:], _exact_gradients(), strict=True):
        errors = [np.sqrt(np.mean((a - exact) ** 2)) for a in (with_panels, without)]
        assert max(errors) <= 1e-6 * np.abs(exact).max()  # each sum of these rounds 1,024 times
        assert errors[0] <= 1.2 * errors[1]


def _exact_gradients() -> list[np.ndarray]:
    """Return the gradients of the recurrence in float64, by the interpreter."""
    wide = [sg.placeholder(t.type.static_shape, "float64") for t in (H, W, V)]
    h, w, v = wide
    last, _ = sg.scan(lambda h, _: (sg.tanh(sg.tanh(h @ w) @ v), None), h, length=5)
    given = dict(zip(wide, (a.astype("float64") for a in ARRAYS), strict=True))
    return list(sg.testing.interpret(sg.gradients(sg.sum(last), wide), given))


def test_the_kernel_of_a_packed_product_takes_its_bias_and_activation_along():
    bias = sg.placeholder((COLUMNS,), name="bias")
    last, _ = sg.scan(lambda h, _: (sg.tanh(h @ W + bias) @ V, None), H, length=5)
    step = compile([H, W, V, bias], last)
    packed, _ = (k.ops for k in step.kernels if "einsum" in k.ops)
    assert {"reshape", "add", "tanh"} <= set(packed)
