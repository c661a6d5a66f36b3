"""In the body of a loop, groups that read the same tensor are one kernel, the record included."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg

START = np.linspace(0.5, 1.5, 8).astype(np.float32)


def body_calls(step: sg.Step, loop: int = 0) -> list[tuple[str, str]]:
    """Return the calls in the loop of that number, up to its closing brace."""
    text = step.ir("loops")
    start = re.search(rf"\n( *)(?:while|scan) loop {loop}\b.*\n", text)
    assert start, text
    body = text[start.end() :].split(f"\n{start[1]}}}\n")[0]
    return re.findall(r"launch @\w+\(([^\n]*)\)  // ([^\n]*)", body)


def accumulate(f: Callable[..., Any], *start: sg.Tensor) -> Any:
    """Return a scan of eight iterations that carries `start`."""
    return sg.scan(lambda carry, _: (f(*carry), None), start, length=8)[0]


def test_loop_variables_that_read_each_other_are_computed_by_one_kernel():
    x = sg.placeholder((8,))
    step = sg.compile([x], list(accumulate(lambda a, b: (a * 0.5 + b, b + a * a), x, x)))
    assert len(body_calls(step)) == 1
    a = b = START
    for _ in range(8):
        a, b = a * np.float32(0.5) + b, b + a * a
    for got, wanted in zip(step(START), (a, b), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_loop_variables_that_change_places_keep_their_values():
    x = sg.placeholder((8,))
    step = sg.compile([x], list(accumulate(lambda a, b: (b + 1.0, a * 2.0), x, -x)))
    a, b = START, -START
    for _ in range(8):
        a, b = b + 1, a * 2
    for got, wanted in zip(step(START), (a, b), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_groups_of_other_sizes_or_without_a_common_operand_stay_apart():
    x, y, z = sg.placeholder((8,)), sg.placeholder((8,)), sg.placeholder((5,))
    step = sg.compile([x, y, z], list(accumulate(lambda a, b, c: (a + a, b * b, c - 1.0), x, y, z)))
    assert len(body_calls(step)) == 3


def test_a_group_that_needs_the_other_one_stays_behind_it():
    x = sg.placeholder((8,))

    def body(a):
        total = sg.sum(sg.exp(a))
        return (a / total + sg.sin(a),)

    step = sg.compile([x], accumulate(body, x)[0])
    wanted = START.astype(np.float64)
    for _ in range(8):
        wanted = wanted / np.exp(wanted).sum() + np.sin(wanted)
    np.testing.assert_allclose(step(START), wanted, rtol=1e-4)


def test_groups_that_wait_for_each_other_through_a_third_are_not_merged():
    x = sg.placeholder((8,))

    def body(a):
        grown = sg.exp(a)
        scaled = sg.matmul(sg.reshape(grown, (2, 4)), sg.ones((4, 4)))
        return (a - 0.01 * sg.reshape(scaled, (8,)) + 0.001 * grown,)

    step = sg.compile([x], accumulate(body, x)[0])
    wanted = START.astype(np.float64)
    for _ in range(8):
        grown = np.exp(wanted)
        wanted = wanted - 0.01 * (grown.reshape(2, 4) @ np.ones((4, 4))).ravel() + 0.001 * grown
    np.testing.assert_allclose(step(START), wanted, rtol=1e-4)


def test_a_loop_variable_is_recorded_by_the_kernel_that_computes_the_next_one():
    x = sg.placeholder((8,))
    y = accumulate(lambda a: (sg.sin(a) * a,), x)[0]
    step = sg.compile([x], sg.gradients(sg.sum(y), x))
    calls = body_calls(step)
    assert len(calls) == 1
    assert "iteration of loop 0" in calls[0][0]
    assert "copy of a result" not in step.ir("loops").split("scan loop 1")[0].split("scan")[1]


def test_a_loop_variable_read_elsewhere_is_recorded_by_a_copy():
    x = sg.placeholder((8,))
    ys = sg.scan(lambda a, _: (sg.flip(a) * 2.0, a), x, length=4)[1]
    step = sg.compile([x], ys)
    wanted = [START]
    for _ in range(3):
        wanted.append(wanted[-1][::-1] * 2)
    np.testing.assert_allclose(step(START), np.stack(wanted), rtol=1e-6)
    assert "copy of a result" in [label for _, label in body_calls(step)]


@pytest.mark.parametrize(("size", "is_copied"), [(64, True), (1 << 15, False)])
def test_a_small_loop_variable_is_aligned_and_copied_to_its_output_at_the_end(size, is_copied):
    x = sg.placeholder((size,))
    step = sg.compile([x], accumulate(lambda a: (a * 0.5,), x)[0])
    array = np.ones(size, np.float32)
    np.testing.assert_array_equal(step(array), array / 256)
    arguments, _ = body_calls(step)[0]
    assert arguments.startswith("temporary" if is_copied else "output0")


def test_tapes_grow_and_keep_what_is_on_them():
    x, n = sg.placeholder((7,)), sg.placeholder((), "int64")
    y = sg.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, sg.sin(v)), (0, x))[1]
    step = sg.compile([x, n], sg.gradients(sg.sum(y), x))
    start = START[:7]
    for trips in (1, 3000, 10):
        value, slope = start.astype(np.float64), np.ones(7)
        for _ in range(trips):
            value, slope = np.sin(value), slope * np.cos(value)
        (got,) = step(start, trips)
        np.testing.assert_allclose(got, slope, rtol=2e-3)
