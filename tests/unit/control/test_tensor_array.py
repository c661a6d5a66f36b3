"""TensorArray: slots, sizes, gradients, loops. A number in a test's name is that of the rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError, IndexOutOfRangeError, ShapeError
from symgrad.graph.node import Tensor
from symgrad.graph.ops.gathering import set_rows
from symgrad.runtime.function import compile
from symgrad.runtime.step import Step
from tests.support.control_programs import check_derivatives, gradient, keep, run, value

POINT = np.array([0.9, -0.8, 1.1])
ROWS = np.arange(6.0).reshape(3, 2)


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


@pytest.fixture
def rows() -> Tensor:
    return sg.placeholder((3, 2), "float64", name="rows")


@pytest.fixture
def n() -> Tensor:
    return sg.placeholder((), "int64", name="n")


def array(size: int, *shape: int, dynamic_size: bool = False) -> sg.TensorArray:
    return sg.TensorArray(size, shape, "float64", dynamic_size)


def powers(x: Tensor, n: Tensor, size: int = 5) -> sg.TensorArray:
    """Return an array whose slot i is x ** (i + 1), for i below n."""
    start = (sg.constant(0, "int64"), x, array(size, 3))
    body = lambda i, v, a: (i + 1, v * x, a.write(i, v))  # noqa: E731 - what a user writes
    filled: sg.TensorArray = sg.while_loop(lambda i, _v, _a: i < n, body, start)[2]
    return filled


# ----------------------------------------------------------------------------- what it holds


def test_what_is_written_is_read_and_the_rest_is_0(x, n):
    written = array(4, 3).write(2, x).write(n, x * 2.0)
    found = run([written.stack(), written.read(2), written.read(n)], {x: POINT, n: 1})
    np.testing.assert_array_equal(found[0], [POINT * 0, POINT * 2, POINT, POINT * 0])
    np.testing.assert_array_equal(found[1], POINT)
    np.testing.assert_array_equal(found[2], POINT * 2)


def test_writing_gives_a_new_array_and_leaves_the_old_one(x):
    old = array(1, 3)
    new = old.write(0, x)
    found = run([old.stack(), new.stack()], {x: POINT})
    np.testing.assert_array_equal(found, [[POINT * 0], [POINT]])


def test_a_scalar_of_python_and_a_negative_index_are_taken(x):
    written = sg.TensorArray(3, (), "float64").write(-1, 2).write(0, 1.5)
    np.testing.assert_array_equal(value(written.stack(), {}), [1.5, 0.0, 2.0])
    np.testing.assert_array_equal(value(written.read(-1), {}), 2.0)


def test_unstack_and_split_fill_and_concat_joins(rows):
    given = {rows: ROWS}
    np.testing.assert_array_equal(value(array(3, 2).unstack(rows).stack(), given), ROWS)
    np.testing.assert_array_equal(value(array(4, 2).unstack(rows).read(3), given), [0, 0])
    np.testing.assert_array_equal(value(array(3, 2).unstack(rows).concat(), given), ROWS.ravel())
    pieces = array(3, 1, 2).split(rows, [1, 1, 1])
    np.testing.assert_array_equal(value(pieces.stack(), given), ROWS[:, None])
    np.testing.assert_array_equal(value(pieces.concat(), given), ROWS)


def test_gather_and_scatter_take_many_slots_and_the_last_one_stays(rows, n):
    scattered = array(4, 2).scatter([3, 1, 3], rows)
    expected = [[0, 0], ROWS[1], [0, 0], ROWS[2]]
    np.testing.assert_array_equal(value(scattered.stack(), {rows: ROWS}), expected)
    taken = scattered.gather(sg.stack([n, n]))
    np.testing.assert_array_equal(value(taken, {rows: ROWS, n: 3}), [ROWS[2], ROWS[2]])


def test_a_program_gives_an_array_back_as_one_of_numpy(x):
    step = compile([x], {"kept": array(2, 3).write(1, x)})
    np.testing.assert_array_equal(step(POINT)["kept"], [POINT * 0, POINT])


def test_an_array_says_what_it_is():
    made = sg.TensorArray(4, (2, 3), "int32")
    assert (made.size, made.element_shape, made.dtype) == (4, (2, 3), sg.int32)
    assert repr(made) == "<TensorArray i32[4, 2, 3]>"


# --------------------------------------------------------------------------------- mistakes


def test_what_does_not_fit_a_slot_is_refused(x):
    with pytest.raises(ShapeError, match=r"write: value is f64\[3\], and its shape must be \[2\]"):
        array(2, 2).write(0, x)
    with pytest.raises(DTypeError, match=r"write: value is f64\[3\], and slots are float32"):
        sg.TensorArray(2, (3,)).write(0, x)
    with pytest.raises(ShapeError, match=r"scatter: value is f64\[3\]"):
        array(2, 3).scatter([0, 1], x)
    with pytest.raises(ShapeError, match=r"index i64.* is not of 0 axes"):
        array(2, 3).write([0, 1], x)
    with pytest.raises(ShapeError, match="is not of 1 axes"):
        array(2, 3).gather(0)
    with pytest.raises(ShapeError, match=r"split: lengths are \[1, 2\], and slots hold 1 each"):
        array(2, 1).split(x, [1, 2])
    with pytest.raises(ShapeError, match=r"concat: .* has slots without axes"):
        array(2).concat()
    with pytest.raises(ShapeError, match="element_shape"):
        sg.TensorArray(2, (None,))


def test_rows_of_another_dtype_or_shape_are_not_written(rows, x):
    places = [sg.constant(np.array([0, 1]))]
    with pytest.raises(DTypeError, match=r"scatter_set: updates: f32\[3, 2\] are not written"):
        set_rows(rows, sg.astype(rows, "float32"), places, 0)
    with pytest.raises(ShapeError, match=r"scatter_set: .* in axis 0"):
        set_rows(rows, rows, places, 0)


def test_an_index_that_is_known_is_checked_now(x, rows):
    with pytest.raises(
        IndexOutOfRangeError, match=r"write: index 2 is outside of axis 0 of size 2"
    ):
        array(2, 3).write(2, x)
    with pytest.raises(IndexOutOfRangeError, match="index 5"):
        array(2, 3).read(5)
    with pytest.raises(IndexOutOfRangeError, match="unstack: there are 2 slots, and 3 are needed"):
        array(2, 2).unstack(rows)


@pytest.mark.parametrize("method", ["write", "read"])
def test_an_index_of_the_run_names_its_op_and_its_line(x, n, method):
    written = array(2, 3).write(0, x)
    outside = written.write(n, x).stack() if method == "write" else written.read(n)
    step = compile([x, n], outside)
    with pytest.raises(IndexOutOfRangeError, match=r"index 2 is out of range .* size 2") as raised:
        step(POINT, 2)
    op = {"write": "scatter_set", "read": "gather"}[method]
    assert raised.value.subject == op
    assert "test_tensor_array.py" in str(raised.value)
    step(POINT, 1)


def test_r14_5_a_dynamic_array_grows_while_the_graph_is_built(x):
    grown = array(0, 3, dynamic_size=True)
    for i in range(3):
        grown = grown.write(i, x * float(i))
    assert grown.size == 3
    assert grown.scatter([4, 5], sg.stack([x, x])).size == 6
    assert grown.unstack(sg.stack([x] * 5)).size == 5
    check_derivatives(grown.stack(), x, {x: POINT})


def test_r14_5_a_size_only_the_run_could_tell_is_refused(x, n):
    with pytest.raises(
        ValueError, match=r"write: index is .* only the run could tell how many slot"
    ):
        array(0, 3, dynamic_size=True).write(n, x)
    size: Any = n
    with pytest.raises(GraphError, match=r"TensorArray: size is .* only the run could tell"):
        sg.TensorArray(size, (3,))


# -------------------------------------------------------------------------------- gradients


def test_r14_2_a_slot_written_again_takes_the_gradient_of_the_earlier_value(x):
    first, second = x * 2.0, x * 3.0
    y = array(2, 3).write(0, first).write(0, second).stack().sum()
    found = run([gradient(y, first), gradient(y, second)], {x: POINT})
    np.testing.assert_array_equal(found, [[0, 0, 0], [1, 1, 1]])


def test_r14_2_of_slots_scattered_to_twice_only_the_last_one_has_a_gradient(rows):
    weights = np.array([[1.0, 2], [3, 4]])
    i = sg.placeholder((3,), "int64")
    y = (array(2, 2).scatter(i, rows).stack() * weights).sum()
    found = value(gradient(y, rows), {rows: ROWS, i: [1, 0, -1]})
    np.testing.assert_array_equal(found, [[0, 0], [1, 2], [3, 4]])


def test_r14_3_reads_of_one_slot_add(x):
    written = array(2, 3).write(1, x)
    y = (written.read(1) * 2.0 + written.read(1) * 3.0).sum()
    np.testing.assert_array_equal(value(gradient(y, x), {x: POINT}), [5, 5, 5])


def test_r14_3_repeated_indices_of_a_gather_add(rows):
    y = array(3, 2).unstack(rows).gather([1, 1, 0]).sum()
    found = value(gradient(y, rows), {rows: ROWS})
    np.testing.assert_array_equal(found, [[1, 1], [2, 2], [0, 0]])


def test_r14_3_every_method_has_its_derivatives(rows):
    squares = rows * rows
    filled = array(4, 2).unstack(squares).scatter([3, 0], squares[1:])
    split = array(3, 1, 2).split(sg.sin(rows), [1, 1, 1])
    y = sg.concat([filled.concat(), filled.gather([0, 3, 3]).sum(axis=1), filled.read(1)])
    check_derivatives(y * y, rows, {rows: ROWS})
    check_derivatives(split.stack() * split.read(1), rows, {rows: ROWS})


def test_r14_4_slots_never_read_have_a_gradient_of_zeros(rows, x):
    y = array(3, 2).unstack(rows).read(1).sum()
    np.testing.assert_array_equal(value(gradient(y, rows), {rows: ROWS}), [[0, 0], [1, 1], [0, 0]])
    unread = array(2, 3).write(0, x).read(1).sum()
    np.testing.assert_array_equal(value(gradient(unread, x), {x: POINT}), [0, 0, 0])


def test_r14_6_two_gradients_of_one_array_are_independent(x, n):
    filled = powers(x, n)
    first = gradient(filled.read(0).sum(), x)
    second = gradient(filled.stack().sum(), x)
    found = run([first, second], {x: POINT, n: 2})
    np.testing.assert_allclose(found, [np.ones(3), 1 + 2 * POINT])


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_r14_7_a_loop_fills_an_array_and_another_with_a_branch_reads_it(x, n, trips):
    filled = powers(x, n)

    def add(i: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        item = sg.cond(i < 2, lambda: filled.read(i), lambda: filled.read(i) * 3.0)
        return i + 1, total + sg.sin(item)

    start = (sg.constant(0, "int64"), x * 0.0)
    total = sg.while_loop(lambda i, _t: i < n, add, start)[1]
    check_derivatives(total, x, {x: POINT, n: trips})


def test_r14_7_a_branch_gives_an_array(x, n):
    chosen = sg.cond(n > 0, lambda: array(2, 3).write(0, x), lambda: array(2, 3).write(1, x * x))
    assert isinstance(chosen, sg.TensorArray)
    check_derivatives(chosen.stack(), x, {x: POINT, n: 1}, {x: POINT, n: 0})


def test_r14_7_a_loop_reads_what_it_has_written(n):
    one = sg.placeholder((), "float64")
    start = array(8).write(0, one).write(1, one * one)
    _i, filled = sg.while_loop(
        lambda i, _a: i < n,
        lambda i, a: (i + 1, a.write(i, a.read(i - 1) * a.read(i - 2))),
        (sg.constant(2, "int64"), start),
    )
    check_derivatives(filled.stack(), one, {one: 1.1, n: 2}, {one: 1.1, n: 5})


def test_r14_8_the_gradient_by_stack_does_not_enter_the_array(x, n):
    filled = powers(x, n)
    stacked = filled.stack()
    y = (stacked * stacked).sum() + filled.read(0).sum()
    found, expected = run([gradient(y, stacked), stacked * 2.0], {x: POINT, n: 3})
    np.testing.assert_array_equal(found, expected)


def test_r14_9_an_array_of_integers_has_no_gradient(x):
    whole = sg.TensorArray(2, (3,), "int32").write(0, sg.astype(x, "int32")).stack()
    assert sg.gradients(sg.astype(whole, "float64").sum(), x) == [None]


# ------------------------------------------------------------------------------------- loops


def _in_loop(step: Step) -> str:
    """Return the part of the program that runs at each iteration."""
    program = step.ir("loops").partition("program @")[2]
    return program.partition("while loop")[2].partition("\n  }\n")[0]


def _kernels_in_loop(step: Step) -> list[str]:
    names = {
        line.split("@")[1].split("(")[0] for line in _in_loop(step).splitlines() if "@" in line
    }
    return [step.ir("loops", kernel=name) for name in sorted(names)]


def test_a_loop_writes_its_slot_in_place(x, n):
    step = compile([x, n], powers(x, n, 1000).stack())
    np.testing.assert_allclose(step(POINT, 2)[:3], [POINT, POINT**2, POINT * 0])
    writing = [text for text in _kernels_in_loop(step) if "f64[3000]" in text]
    assert len(writing) == 1
    assert " in 0..3 " in writing[0]
    assert not any("0..3000" in text for text in _kernels_in_loop(step))
    assert "next loop variable" not in _in_loop(step)


def test_a_loop_that_reads_its_array_still_writes_in_place(n):
    start = sg.TensorArray(1000, (), "float64").write(0, 1.0).write(1, 1.0)
    _i, filled = sg.while_loop(
        lambda i, _a: i < n,
        lambda i, a: (i + 1, a.write(i, a.read(i - 1) + a.read(i - 2))),
        (sg.constant(2, "int64"), start),
    )
    step = compile([n], filled.stack())
    np.testing.assert_array_equal(step(7)[:8], [1, 1, 2, 3, 5, 8, 13, 0])
    assert not any("0..1000" in text for text in _kernels_in_loop(step))


def test_a_loop_variable_that_keeps_the_old_array_has_it_as_it_was(n):
    start = sg.TensorArray(100, (), "float64").write(0, 1.0)
    body = lambda i, a, _b: (i + 1, a.write(i, a.read(i - 1) * 2.0), a)  # noqa: E731
    loop = sg.while_loop(lambda i, _a, _b: i < n, body, (sg.constant(1, "int64"), start, start))
    step = compile([n], [loop[1].stack(), loop[2].stack()])
    new, old = step(4)
    np.testing.assert_array_equal(new[:5], [1, 2, 4, 8, 0])
    np.testing.assert_array_equal(old[:5], [1, 2, 4, 0, 0])


def test_slots_that_swap_are_read_before_either_is_written(n):
    start = sg.TensorArray(2, (), "float64").write(0, 1.0).write(1, 2.0)
    swapped = sg.while_loop(
        lambda i, _a: i < n,
        lambda i, a: (i + 1, a.scatter([0, 1], a.gather([1, 0]))),
        (sg.constant(0, "int64"), start),
    )[1].stack()
    np.testing.assert_array_equal(value(swapped, {n: 3}), [2, 1])
    np.testing.assert_array_equal(value(swapped, {n: 4}), [1, 2])


def test_rows_added_in_a_loop_are_added_in_place(n):
    start = sg.zeros((1000,), "float64")
    total = sg.while_loop(
        lambda i, _t: i < n,
        lambda i, t: (i + 1, sg.scatter_add(t, sg.reshape(i, (1,)), 2.0)),
        (sg.constant(0, "int64"), start),
    )[1]
    step = compile([n], total)
    np.testing.assert_array_equal(step(2)[:3], [2, 2, 0])
    assert not any("0..1000" in text for text in _kernels_in_loop(step))


def test_an_index_out_of_range_within_a_loop_is_an_error_and_the_next_run_is_right(x, n):
    step = compile([x, n], powers(x, n, 2).stack())
    with pytest.raises(IndexOutOfRangeError, match="scatter_set: index 2"):
        step(POINT, 4)
    np.testing.assert_allclose(step(POINT, 1), [POINT, POINT * 0])


def test_a_scan_carries_an_array(x):
    def keep_both(carry: Any, item: Tensor) -> tuple[Any, Tensor]:
        i, kept = carry
        return (i + 1, kept.write(i, item * item)), item

    carry, _ = sg.scan(keep_both, (sg.constant(0, "int64"), array(3)), x)
    check_derivatives(carry[1].stack(), x, {x: POINT})


# --------------------------------------------------------------------------- arrays that grow


def growing(*shape: int) -> sg.TensorArray:
    return array(0, *shape, dynamic_size=True)


def zero() -> Tensor:
    return sg.constant(0, "int64")


def bounded(x: Tensor, n: Tensor, bound: int, **options: Any) -> sg.TensorArray:
    """Return x ** (i + 1) in slot i for i below n, in a loop of at most `bound` iterations."""
    body = lambda i, v, a: (i + 1, v * x, a.write(i, v))  # noqa: E731 - what a user writes
    start = (zero(), x, growing(3))
    filled: sg.TensorArray = sg.while_loop(
        lambda i, _v, _a: i < n, body, start, maximum_iterations=bound, **options
    )[2]
    return filled


@pytest.mark.parametrize(
    ("lower", "upper", "slot", "size"),
    [
        (0, 4, lambda i: i, 4),
        (2, 5, lambda i: i, 5),
        (0, 4, lambda i: 2 * i + 1, 8),
        (0, 4, lambda i: 6 - i, 7),
        (-2, 2, lambda i: sg.maximum(i * 3, 0), 4),
        (0, 3, lambda i: sg.minimum(i, 1) - 0, 2),
        (0, 3, lambda i: sg.astype(i, "int32"), 3),
        (0, 0, lambda i: i + 5, 0),
    ],
)
def test_r14_5_a_loop_of_known_length_grows_an_array_by_what_it_can_write(
    x, lower, upper, slot, size
):
    filled = sg.fori_loop(lower, upper, lambda i, a: a.write(slot(i), x), growing(3))
    assert filled.size == size
    full = sg.fori_loop(lower, upper, lambda i, a: a.write(slot(i), x), array(size, 3))
    if size:
        found, wanted = run([filled.stack(), full.stack()], {x: POINT})
        np.testing.assert_array_equal(found, wanted)
        check_derivatives(filled.stack() * filled.stack(), x, {x: POINT})


def test_r14_5_a_loop_grows_an_array_that_has_slots_and_leaves_a_large_one(x):
    small, large = (array(size, 3, dynamic_size=True).write(0, x * 7.0) for size in (2, 9))
    filled = [sg.fori_loop(1, 5, lambda i, a: a.write(i, x), a) for a in (small, large)]
    assert [a.size for a in filled] == [5, 9]
    found = value(filled[0].stack(), {x: POINT})
    np.testing.assert_array_equal(found, [POINT * 7, *[POINT] * 4])


@pytest.mark.parametrize("checkpoint", [None, 2])
def test_r14_5_a_while_loop_grows_an_array_to_its_bound(x, n, checkpoint):
    filled = bounded(x, n, 4, checkpoint=checkpoint)
    assert filled.size == 4
    for trips in (0, 3, 9):
        expected = [POINT ** (i + 1) if i < trips else POINT * 0 for i in range(4)]
        np.testing.assert_allclose(value(filled.stack(), {x: POINT, n: trips}), expected)
    check_derivatives(filled.stack(), x, {x: POINT, n: 3}, {x: POINT, n: 0})


def test_r14_5_an_int_needs_no_bound_of_the_loop(x, n):
    start = (zero(), growing(3))
    filled = sg.while_loop(lambda i, _a: i < n, lambda i, a: (i + 1, a.write(2, x)), start)[1]
    assert filled.size == 3
    check_derivatives(filled.stack(), x, {x: POINT, n: 2}, {x: POINT, n: 0})


def test_r14_5_counters_may_count_down_and_by_several(x):
    start = (sg.constant(6, "int64"), growing(3))
    filled = sg.while_loop(
        lambda i, _a: i > 0, lambda i, a: (i - 2, a.write(i, x)), start, maximum_iterations=3
    )[1]
    assert filled.size == 7
    rows = [POINT * (i in (2, 4, 6)) for i in range(7)]
    np.testing.assert_array_equal(value(filled.stack(), {x: POINT}), rows)


def test_r14_5_a_scan_grows_an_array_by_the_indices_it_is_given(x):
    places = np.array([3, 0, 5])
    filled, _ = sg.scan(lambda a, i: (a.write(i, x), i), growing(3), sg.constant(places))
    assert filled.size == 6
    check_derivatives(filled.stack(), x, {x: POINT})
    counted, _ = sg.scan(lambda c, _: ((c[0] + 1, c[1].write(c[0], x)), ()), (zero(), growing(3)),
                         length=4)  # fmt: skip
    assert counted[1].size == 4


def test_r14_5_loops_that_nest_grow_an_array_together(x):
    def outer(i: Tensor, kept: Any) -> Any:
        return sg.fori_loop(
            0, 3, lambda j, a: a.write(i * 3 + j, x * sg.astype(i, "float64")), kept
        )

    filled = sg.fori_loop(0, 2, outer, growing(3))
    assert filled.size == 6
    np.testing.assert_array_equal(value(filled.stack(), {x: POINT}), [POINT * 0] * 3 + [POINT] * 3)
    check_derivatives(filled.stack(), x, {x: POINT})


def test_r14_5_a_branch_that_grows_an_array_grows_it_in_all(x, n):
    both = sg.cond(n > 0, lambda: growing(3).write(2, x), lambda: growing(3).write(0, x * 2.0))
    assert both.size == 3
    np.testing.assert_array_equal(
        value(both.stack(), {x: POINT, n: 0}), [POINT * 2, POINT * 0, POINT * 0]
    )
    body = lambda i, a: sg.cond(i < n, lambda: a.write(i, x * x), lambda: a)  # noqa: E731
    filled = sg.fori_loop(0, 4, body, growing(3))
    assert filled.size == 4
    check_derivatives(filled.stack(), x, {x: POINT, n: 2}, {x: POINT, n: 0})


def test_r14_5_a_function_and_a_scatter_grow_an_array(x):
    put = sg.function(lambda a, v: a.write(1, v))
    assert put(growing(3), x).size == 2
    pairs = lambda i, a: a.scatter(sg.stack([2 * i, 2 * i + 1]), sg.stack([x, -x]))  # noqa: E731
    filled = sg.fori_loop(0, 3, pairs, growing(3))
    assert filled.size == 6
    check_derivatives(filled.stack(), x, {x: POINT})


def test_r14_5_the_writes_of_a_loop_that_grew_an_array_are_in_place(x, n):
    step = compile([x, n], bounded(x, n, 50).stack())
    fixed = compile([x, n], powers(x, n, 50).stack())
    assert len(step.kernels) <= len(fixed.kernels) + 1


def test_r14_5_what_has_no_known_length_is_refused(x, n):
    def while_(i: Any, **options: Any) -> Any:
        return sg.while_loop(
            lambda i, _a: i < n, lambda i, a: (i + 1, a.write(i, x)), (i, growing(3)), **options
        )

    calls: list[Any] = [
        lambda: while_(zero()),
        lambda: while_(zero(), maximum_iterations=n),
        lambda: while_(n, maximum_iterations=4),
        lambda: sg.fori_loop(0, n, lambda i, a: a.write(i, x), growing(3)),
        lambda: sg.fori_loop(0, 3, lambda i, a: a.write(i * n, x), growing(3)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="only the run could tell how many slots"):
            call()


def test_r14_5_an_array_that_grows_whatever_its_size_is_refused(x):
    with pytest.raises(GraphError, match="grows in every iteration, from 1 slots to 2"):
        sg.fori_loop(0, 3, lambda _i, a: a.write(a.size, x), growing(3))


def test_r14_5_an_array_of_fixed_size_is_traced_once_and_does_not_grow(x):
    traced: list[Any] = []
    fixed = sg.fori_loop(0, 3, lambda i, a: keep(traced, a.write(i, x)), array(2, 3))
    assert (fixed.size, len(traced)) == (2, 1)
    with pytest.raises(IndexOutOfRangeError):
        compile([x], fixed.stack())(POINT)


def test_r14_5_an_array_of_unknown_size_goes_through_a_loop_as_it_is():
    start = sg.placeholder(("n", 2), "float64")
    kept = sg.TensorArray(start.shape[0], (2,), "float64", dynamic_size=True).unstack(start)
    last = sg.fori_loop(0, 2, lambda i, c: (c[0] + 1.0, c[1]), (sg.zeros(()), kept))[1]
    given = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(value(last.stack(), {start: given}), given)
