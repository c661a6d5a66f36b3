"""Blocks that begin where data says: one check, whole rows moved, in place where nothing reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

LAYERS, LENGTH, WIDTH = 2, 512, 64


def _loops(step: Any) -> str:
    text: str = step.ir("loops")
    return text


def test_a_dynamic_slice_is_one_clamp_and_then_rows():
    x, i = sg.placeholder((100, 64)), sg.placeholder((), "int64")
    step = sg.compile([x, i], sg.dynamic_slice(x, [i, 0], (8, 64)))
    text = _loops(step)
    assert text.count("clamp ") == 1
    assert "for i1 in 0..512 vector(" in text  # rows behind each other are one
    assert " else " not in text  # and nothing fails


def test_a_checked_slice_is_checked_once():
    x, i = sg.placeholder((100, 64)), sg.placeholder((), "int64")
    text = _loops(sg.compile([x, i], x[i : i + 8]))
    assert "check i0 = t0 in 0..93 else 1" in text
    assert "for i1 in 0..512 vector(" in text


def test_rows_are_added_in_vectors_after_one_check_each():
    x, i, u = sg.placeholder((10, 64)), sg.placeholder((5,), "int64"), sg.placeholder((5, 64))
    text = _loops(sg.compile([x, i, u], x.at[i].add(u)))
    assert text.index("check ") < text.index("for i3 in 0..64 vector(")


def test_positions_beside_an_index_have_no_order_and_no_check():
    x, i, u = sg.placeholder((8, 10, 4)), sg.placeholder((), "int64"), sg.placeholder((8, 4))
    text = _loops(sg.compile([x, i, u], x.at[::-1, i].set(u)))
    assert text.count("check ") == 1
    assert "ordered" not in text


def _cache_step(write: Any) -> Any:
    """Return a scan that writes rows of a cache, two in each iteration, and reads one."""
    cache, rows = sg.placeholder((LAYERS, LENGTH, WIDTH)), sg.placeholder((LENGTH, WIDTH))

    def body(carry: Any, row: Any) -> Any:
        keys, i = carry
        for layer in range(LAYERS):
            keys = write(keys, layer, i, row + layer)
        return (keys, i + 1), sg.sum(keys[1, i])

    (keys, _), sums = sg.scan(body, (cache, sg.constant(0, "int64")), rows)
    return sg.compile([cache, rows], [keys, sums])


def _by_at(keys: Any, layer: int, i: Any, row: Any) -> Any:
    return keys.at[layer, i].set(row)


def _by_slices(keys: Any, layer: int, i: Any, row: Any) -> Any:
    return sg.dynamic_update_slice(keys, row[None, None], [layer, i, 0])


def _by_bounds(keys: Any, layer: int, i: Any, row: Any) -> Any:
    return keys.at[layer, i : i + 1].set(row)


@pytest.mark.parametrize("write", [_by_at, _by_slices, _by_bounds])
def test_a_cache_that_a_loop_writes_is_copied_before_the_loop_and_never_in_it(write):
    step = _cache_step(write)
    program = _loops(step).partition("program @")[2]
    _, _, body = program.partition("scan loop")
    # All memory is the caller's: there is no second cache beside the result.
    assert f"[{LAYERS}, {LENGTH}, {WIDTH}]" not in program.partition("launch")[0].replace(
        f"input0: f32[{LAYERS}, {LENGTH}, {WIDTH}]", ""
    ).replace(f"output0: f32[{LAYERS}, {LENGTH}, {WIDTH}]", "")
    assert "copy" not in body.partition("}")[0]
    rng = np.random.default_rng(0)
    start = rng.normal(size=(LAYERS, LENGTH, WIDTH)).astype(np.float32)
    rows = rng.normal(size=(LENGTH, WIDTH)).astype(np.float32)
    keys, sums = step(start, rows)
    np.testing.assert_array_equal(keys, np.stack([rows, rows + 1]))
    np.testing.assert_allclose(sums, (rows + 1).sum(1), rtol=1e-4)


def test_writes_of_a_variable_in_a_chain_are_in_its_place():
    w, u = sg.variable(np.zeros((100, 8), np.float32), name="w"), sg.placeholder((8,))
    new = w.at[3].set(u).at[4:6].add(u).at[5, 2].set(9.0)
    step = sg.compile([u], u.sum(), updates=[(w, new)])
    assert "f32[100, 8]" not in _loops(step).replace("variable0: f32[100, 8]", "")
    step(np.arange(8, dtype=np.float32))
    expected = np.zeros((100, 8), np.float32)
    expected[3] = expected[4] = expected[5] = np.arange(8)
    expected[5, 2] = 9
    np.testing.assert_array_equal(w.value, expected)


def test_what_is_read_later_is_not_written_over():
    x, u = sg.placeholder((100, 8)), sg.placeholder((8,))
    y = sg.exp(x).at[3].set(u)
    z = y.at[4].set(u)
    step = sg.compile([x, u], [y, z])
    found = step(np.zeros((100, 8), np.float32), np.arange(8, dtype=np.float32))
    assert found[0][4].tolist() == [1] * 8
    assert found[1][3:5].tolist() == [list(range(8))] * 2


def test_an_update_made_of_what_it_writes_over_is_computed_before():
    w = sg.variable(np.arange(6, dtype=np.float32).reshape(3, 2), name="w")
    first = w.at[0].set(w[2] * 2)
    step = sg.compile([], first.sum(), updates=[(w, first.at[1:].set(first[:2] + 1))])
    step()
    assert w.value.tolist() == [[8, 10], [9, 11], [3, 4]]


@pytest.mark.parametrize("key", [slice(None, None, 2), [0, 3, 3], (slice(None), [1, 1])])
def test_a_variable_is_written_in_its_place_at_what_is_seen_to_be_in_range(key):
    w, u = sg.variable(np.ones((6, 4), np.float32), name="w"), sg.placeholder(())
    step = sg.compile([u], u * 2, updates=[(w, w.at[key].add(u))])
    assert "copy of a new value" not in _loops(step)
    assert "temporary" not in _loops(step)
    step(1.0)
    expected = np.ones((6, 4), np.float32)
    np.add.at(expected, key, 1)
    np.testing.assert_array_equal(w.value, expected)


def test_a_variable_that_an_index_may_leave_is_written_beside_its_old_value():
    w, i = sg.variable(np.ones(6, np.float32), name="w"), sg.placeholder((2,), "int64")
    step = sg.compile([i], i * 2, updates=[(w, w.at[i].add(1.0))])
    assert "copy of a new value" in _loops(step)
    with pytest.raises(sg.IndexOutOfRangeError):
        step(np.array([0, 6]))
    assert w.value.tolist() == [1] * 6


def test_the_gradient_at_positions_needs_no_table_of_who_wrote_last():
    v: Any = sg.placeholder((3, 4))
    y = sg.zeros((6, 4)).at[::2, [1, 0, 2, 3]].set(v)
    g: Any = sg.gradients(sg.sum(y[:, :2]), [v])[0]
    assert "scatter_set" in {n.op for n in sg.Graph([g]).nodes}  # what an array says may meet
    z = sg.zeros((6, 4)).at[::2].set(v)
    h: Any = sg.gradients(sg.sum(z), [v])[0]
    assert "scatter_set" not in {n.op for n in sg.Graph([h]).nodes}
