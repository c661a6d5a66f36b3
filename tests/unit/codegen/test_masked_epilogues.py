"""What is left of the rows of a product behind whole vectors: lanes of one more, or elements."""

from collections.abc import Callable

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.native.jit import emit_object, optimize
from symgrad.codegen.target import Target, target_named
from symgrad.compiler import emit_linkable

Activation = Callable[[sg.Tensor], sg.Tensor]
ACTIVATIONS: dict[str, Activation] = {
    "tanh": sg.tanh,
    "exp": lambda y: sg.exp(-(y * y)),
    "gelu": lambda y: y * (1.0 + sg.erf(y)),
    "two": lambda y: sg.log(sg.exp(y) + 1.0) / (y + 3.0),
    "chosen": lambda y: sg.where(y > 0.0, sg.exp(y), y),
}


def emitted(columns: int, target: str, activation: Activation = sg.tanh) -> str:
    x, w, b = (sg.placeholder(shape) for shape in ((16, 128), (128, columns), (columns,)))
    step = sg.compile([x, w, b], activation(x @ w + b), target=target, threads=1, cache=False)
    return step.ir("llvm")


def test_what_is_left_of_a_row_is_a_vector_under_a_mask():
    text = emitted(120, "x86-64-v4")
    assert text.count('call void @"llvm.masked.store.v16f32.p0"') == 1
    # Of the tile and of the bias; no element is loaded or stored alone.
    assert text.count('@"llvm.masked.load.v16f32.p0"(ptr %') == 2
    assert "store float" not in text
    assert '@"sg.tanh.f32"' not in text


@pytest.mark.parametrize(
    ("columns", "target", "activation"),
    [
        (128, "x86-64-v4", sg.tanh),  # nothing is left
        (1000, "x86-64-v4", sg.tanh),  # most vectors are whole
        (120, "x86-64-v4", lambda y: sg.maximum(y, 0.0)),  # an element takes no time
        (120, "x86-64-v3", sg.tanh),  # masks do
        (120, "aarch64", sg.tanh),
    ],
)
def test_where_masks_gain_nothing_there_are_none(columns, target, activation):
    assert "llvm.masked" not in emitted(columns, target, activation)


def test_what_is_stored_in_columns_has_no_mask():
    x, w = sg.placeholder((16, 128)), sg.placeholder((128, 120))
    y = sg.tanh(x @ w)
    step = sg.compile([x, w], [y.T, y], target="x86-64-v4", threads=1, cache=False)
    text = step.ir("llvm")
    for line in text.splitlines():
        if "llvm.masked.store" in line and "call" in line:
            assert "<16 x i1>" in line
    assert emit_object(optimize(text, target_named("x86-64-v4"), 3), target_named("x86-64-v4"), 3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("columns", [3, 10, 37, 40, 100, 120])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_results_are_the_same_bits_with_masks_and_without(monkeypatch, name, columns, dtype):
    rng = np.random.default_rng(columns)
    x, w = sg.placeholder((19, 24), dtype), sg.placeholder((24, columns), dtype)
    b = sg.placeholder((columns,), dtype)
    bias = rng.standard_normal(columns)
    bias[-1], bias[columns // 2] = np.nan, np.inf
    drawn = [rng.standard_normal((19, 24)), rng.standard_normal((24, columns)), bias]
    given = [array.astype(x.dtype.numpy) for array in drawn]

    def run() -> np.ndarray:
        step = sg.compile([x, w, b], ACTIVATIONS[name](x @ w + b), cache=False)
        return np.asarray(step(*given)).view(np.uint8)

    masked = run()
    monkeypatch.setattr(Target, "masks_lanes", False)
    np.testing.assert_array_equal(masked, run())


def test_nothing_behind_a_result_is_written():
    """The last vector of the last row ends behind the result, and so do those of the bias."""
    x, w, b = (sg.placeholder(shape) for shape in ((5, 24), (24, 40), (40,)))
    step = sg.compile([x, w, b], sg.tanh(x @ w + b), cache=False)
    rng = np.random.default_rng(0)
    x_, w_, b_ = (rng.standard_normal(t.shape).astype(np.float32) for t in (x, w, b))
    memory = np.full(5 * 40 + 64, 7.0, np.float32)
    result = memory[: 5 * 40].reshape(5, 40)
    step(x_, w_, b_, out=result)
    np.testing.assert_allclose(result, np.tanh(x_ @ w_ + b_), rtol=2e-5, atol=2e-6)
    np.testing.assert_array_equal(memory[5 * 40 :], 7.0)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_a_microkernel_that_calls_pass_is_called_in_one_place(target):
    """Microkernels of high and low tiles, wide and narrow ones: one of them is selected."""
    x, w = sg.placeholder((31, 128)), sg.placeholder((128, 120))
    program = sg.compile([x, w], x @ w, target=target, threads=1, cache=False).executable.program
    module = emit_linkable(program, target_named(target))
    assert len(module.leaves) > 1
    assert module.text(module.kernels).count("call void %") == 1


def test_large_products_call_their_microkernels_by_name():
    x, w = sg.placeholder((500, 700)), sg.placeholder((700, 500))
    text = sg.compile([x, w], x @ w, target="x86-64-v4", threads=1, cache=False).ir("llvm")
    assert "call void %" not in text
    assert 'call void @"contract.tile' in text
