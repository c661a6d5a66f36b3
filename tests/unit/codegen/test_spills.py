"""Kernels that spill vectors have an aligned stack, so that each lies in one line of the cache."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.native import jit
from symgrad.codegen.target import target_named
from tests.support.programs import program_from


def text_for(result: sg.Tensor, target: str) -> str:
    return str(emit_module(program_from(result), target_named(target)))


def determinants() -> sg.Tensor:
    return sg.linalg.det(sg.placeholder((64, 14, 14), "float64"))


@pytest.mark.parametrize(
    ("target", "nbytes"), [("x86-64-v4", 64), ("x86-64-v3", 32), ("x86-64", 0), ("aarch64", 0)]
)
def test_the_stack_is_aligned_to_vectors_that_are_wider_than_it(target, nbytes):
    found = set(re.findall(r"alignstack\((\d+)\)", text_for(determinants(), target)))
    assert found == ({str(nbytes)} if nbytes else set())


def test_what_fits_the_registers_has_no_frame():
    x = sg.placeholder((4096,))
    assert "alignstack" not in text_for(sg.tanh(x) * 2 + x, "x86-64-v4")


@pytest.mark.parametrize(("target", "register"), [("x86-64-v4", "zmm"), ("x86-64-v3", "ymm")])
def test_spilled_vectors_lie_in_one_line(target, register):
    machine = target_named(target)
    module = jit.optimize(text_for(determinants(), target), machine, 3)
    moves = re.findall(
        rf"vmov(\w+)\s+%{register}\d+, -?\d*\(%rsp\)", jit.emit_assembly(module, machine, 3)
    )
    assert len(moves) > 50
    assert {move[0] for move in moves} == {"a"}


@pytest.mark.parametrize("threads", [1, 4])
def test_results_of_functions_with_aligned_stacks_are_right(threads):
    a = np.random.default_rng(0).normal(size=(500, 16, 16))
    x = sg.placeholder(a.shape, "float64")
    step = sg.compile([x], [sg.linalg.det(x), *sg.gradients(sg.linalg.det(x), x)], threads=threads)
    det, gradient = step(a)
    np.testing.assert_allclose(det, np.linalg.det(a), rtol=1e-9)
    expected = np.linalg.det(a)[:, None, None] * np.linalg.inv(a).transpose(0, 2, 1)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)
