"""Products that walk through tiles: functions LLVM does not optimize, with epilogues apart."""

import re
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.native.jit import emit_object, optimize
from symgrad.codegen.target import target_named
from symgrad.compiler import emit_linkable

TARGETS = ["x86-64-v3", "x86-64-v4", "aarch64"]
X, Y = sg.placeholder((400, 800)), sg.placeholder((800, 200))
BIAS = sg.placeholder((200,))


def functions_of(step: Any, name: str = "native") -> tuple[dict[str, str], str]:
    """Return the headers of the functions of a step's kernels by name, and the whole text."""
    module = emit_linkable(step.executable.program, target_named(name))
    text = module.text(module.kernels)
    return dict(re.findall(r'^define .*@"([^"]*)"\(.*\) (.*) \{$', text, re.MULTILINE)), text


def walks_of(step: Any, name: str = "native") -> list[str]:
    functions, _ = functions_of(step, name)
    return [f for f, attributes in functions.items() if "optnone" in attributes and f != "step"]


@pytest.mark.parametrize("name", TARGETS)
def test_an_epilogue_is_a_function_that_is_optimized(name):
    step = sg.compile([X, Y, BIAS], sg.tanh(X @ Y + BIAS), opt_level=1)
    functions, text = functions_of(step, name)
    assert "optnone" in functions["k0"]
    assert "optnone" not in functions["k0.epilogue"]
    walk = text[text.index('@"k0"(') :].partition("\n}")[0]
    assert not re.search(r"<\d+ x (float|double)>", walk)
    target = target_named(name)
    assert emit_object(optimize(text, target, 3), target, 3)


def test_a_product_that_is_stored_has_no_epilogue():
    x, y = sg.placeholder((128, 512)), sg.placeholder((512, 512))
    functions, _ = functions_of(sg.compile([x, y], x @ y, opt_level=1))
    assert "optnone" in functions["k0"]
    assert all("epilogue" not in name for name in functions)


def test_a_product_beside_other_code_is_cut_out_of_it():
    w = sg.variable(np.zeros((800, 200), np.float32))
    loss = ((X @ w) ** 2).mean()
    step = sg.compile([X], loss, updates=sg.optim.AdamW(0.1).minimize(loss), opt_level=1)
    functions, _ = functions_of(step)
    cut = [name for name in functions if name.endswith(".walk")]
    assert cut
    assert all("optnone" in functions[name] for name in cut)
    assert all("optnone" not in functions[name.removesuffix(".walk")] for name in cut)


def test_tiles_of_little_work_are_optimized_with_what_is_around():
    x, y = sg.placeholder((200, 8)), sg.placeholder((8, 200))
    assert not walks_of(sg.compile([x, y], sg.tanh(x @ y), opt_level=1))


def test_rows_that_are_fused_with_products_are_optimized():
    q, k, v = (sg.placeholder((8, 512, 64)) for _ in range(3))
    step = sg.compile(
        [q, k, v], sg.nn.scaled_dot_product_attention(q, k, v, causal=True), opt_level=1
    )
    fused = [f for f, _ in functions_of(step)[0].items() if f.startswith("k")]
    assert fused
    assert not walks_of(step)


def test_numbers_that_calls_pass_go_on_to_the_epilogue():
    """Kernels of two sizes are one, which is told what differs."""
    texts = []
    for rows in (60, 62):
        x, y = sg.placeholder((rows, 801)), sg.placeholder((801, 16))
        step = sg.compile([x, y], x @ y / rows, opt_level=1)
        functions, text = functions_of(step)
        assert "k0.epilogue" in functions
        texts.append(text[text.index('define internal void @"k0.epilogue"') :].partition("\n}")[0])
    assert texts[0] == texts[1]


@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_those_of_numpy(threads):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(400, 800)), random.normal(size=(800, 200))
    x, y = x.astype(np.float32), y.astype(np.float32)
    bias = random.normal(size=200).astype(np.float32)
    step = sg.compile([X, Y, BIAS], sg.maximum(X @ Y + BIAS, 0.0), threads=threads)
    expected = np.maximum(x.astype(np.float64) @ y + bias, 0)
    np.testing.assert_allclose(step(x, y, bias), expected, rtol=1e-4, atol=1e-4)
