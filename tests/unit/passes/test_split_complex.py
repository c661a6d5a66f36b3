"""Complex numbers as pairs of real ones: what the pass makes, and what comes of it."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.opdef import OPS
from symgrad.graph.ops import declare_all
from symgrad.graph.pair_rules import PAIR_RULES
from symgrad.graph.reference import evaluate
from symgrad.graph.verify import verify
from symgrad.passes.calls.split_complex import split_complex
from tests.support.evaluators import evaluate_compiled
from tests.support.floors import run_everywhere

_RNG = np.random.default_rng(0)


def _numbers(*shape: int, dtype: str = "complex64") -> np.ndarray:
    return (_RNG.normal(size=shape) + 1j * _RNG.normal(size=shape)).astype(dtype)


def test_every_op_that_has_a_rule_for_pairs_has_one():
    declare_all()
    stated = {op for op in OPS.values() if op.of_pairs == "rule"}
    assert stated == PAIR_RULES.keys()


def test_no_complex_tensor_is_left():
    z = sg.placeholder((3,), "complex64", name="z")
    w = sg.variable(np.ones(3, np.complex64), name="w")
    graph = Graph([sg.sum(z * w)], [z], [sg.Update(w, w + z)])
    made = split_complex(graph)
    verify(made)
    assert not [t for n in made.nodes for t in n.outputs if t.dtype.is_complex]
    assert str(made.inputs[0].type) == "f32[3, 2]"
    assert str(made.outputs[0].type) == "f32[2]"
    assert str(made.updates[0].variable.type) == "f32[3, 2]"
    assert made.updates[0].variable.state.whole is w.state


def test_a_program_without_complex_numbers_stays_the_same():
    x = sg.placeholder((3,))
    graph = Graph([sg.exp(x)], [x])
    assert split_complex(graph) is graph


def test_what_is_handed_through_is_not_taken_apart():
    z = sg.placeholder((3,), "complex64")
    made = split_complex(Graph([z, sg.real(z)], [z]))
    assert made.outputs[0] is made.inputs[0]


def test_pairs_become_complex_numbers_and_pairs_again_at_no_cost():
    x, y = sg.placeholder((3,)), sg.placeholder((3,))
    z = sg.complex(x, y)
    made = split_complex(Graph([sg.real(z), sg.imag(z)], [x, y]))
    assert made.outputs == made.inputs


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_arithmetic_is_that_of_numpy(dtype):
    z, w = (sg.placeholder((4,), dtype) for _ in range(2))
    a, b = _numbers(4, dtype=dtype), _numbers(4, dtype=dtype)
    graph = Graph([z + w, z - w, z * w, z / w, -z, sg.conj(z), abs(z), z == w, z + 1j], [z, w])
    wanted = [a + b, a - b, a * b, a / b, -a, a.conj(), abs(a), a == b, a + 1j]
    for outputs in evaluate_compiled(graph, [a, b]).values():
        for found, expected in zip(outputs, wanted, strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=8 * np.finfo(dtype).eps)


def test_a_variable_is_updated_in_its_own_memory():
    w = sg.variable(np.array([1 + 2j, 3j], np.complex64), name="w")
    step = sg.compile([], [], updates=[(w, w * w)], opt_level=0)
    step()
    np.testing.assert_allclose(w.value, [-3 + 4j, -9])


def test_the_gradient_of_a_real_loss_is_that_by_the_real_part_less_i_times_that_by_the_imaginary():
    z = sg.placeholder((3,), "complex128")
    loss = sg.sum(sg.real(z * z * sg.conj(z)) + sg.abs(z))
    (g,) = sg.gradients(loss, [z])
    value = _numbers(3, dtype="complex128")

    def at(point: np.ndarray) -> float:
        return float((point * point * point.conj()).real.sum() + abs(point).sum())

    steps = np.eye(3) * 1e-6
    by_real = [(at(value + h) - at(value - h)) / 2e-6 for h in steps]
    by_imag = [(at(value + 1j * h) - at(value - 1j * h)) / 2e-6 for h in steps]
    found = sg.run(g, {z: value})
    np.testing.assert_allclose(found, np.array(by_real) - 1j * np.array(by_imag), rtol=1e-7)


def test_the_gradients_of_modulus_and_sign_at_zero_are_zero():
    z = sg.placeholder((1,), "complex64")
    (of_abs,) = sg.gradients(sg.abs(z), [z])
    (of_sign,) = sg.gradients(sg.sign(z), [z], [sg.constant([1j])])
    found = sg.run([of_abs, of_sign], {z: np.zeros(1, np.complex64)})
    assert not np.any(found)


def test_loops_branches_and_functions_carry_complex_numbers():
    z = sg.placeholder((2,), "complex64")

    def body(carry, x):
        return carry * x, carry + x

    last, stack = sg.scan(body, z, sg.stack([z, z + 1, z - 1j]))
    _, powers = sg.while_loop(lambda i, w: i < 3, lambda i, w: (i + 1, w * z), (sg.constant(0), z))
    chosen = sg.cond(sg.abs(z)[0] > 0, lambda: z * 2, lambda: sg.conj(z))
    loss = sg.sum(sg.abs(last)) + sg.real(sg.sum(stack * powers * chosen))
    (g,) = sg.gradients(loss, [z])
    assert g is not None
    graph = Graph([last, stack, powers, chosen, g], [z])
    a = _numbers(2)
    assert run_everywhere(graph, [a], targets=["native"]) is None
    carry, kept = a, []
    for x in (a, a + 1, a - 1j):
        kept.append(carry + x)
        carry = carry * x
    for one, expected in zip(evaluate(graph, [a])[0], (carry, kept, a**4, 2 * a), strict=False):
        np.testing.assert_allclose(one, np.asarray(expected), rtol=1e-5)
