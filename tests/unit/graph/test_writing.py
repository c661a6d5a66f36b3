"""`x.at[key]`: keys of all kinds against NumPy, masks, ties, duplicates and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from tests.support.evaluators import evaluate_loops, evaluate_reference
from tests.support.writing_cases import combined

X = np.arange(12, dtype=np.float64).reshape(3, 4)
METHODS: dict[str, Any] = {
    "set": lambda _old, new: new,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}


def _slice(rng: np.random.Generator, size: int) -> slice:
    ends = [None if rng.random() < 0.3 else int(rng.integers(-size - 1, size + 2)) for _ in "ab"]
    return slice(ends[0], ends[1], int(rng.choice([1, 1, 2, -1, -2])))


def _key(rng: np.random.Generator, shape: tuple[int, ...]) -> list[Any]:
    """Return a key of ints, slices, None, `...` and arrays of shapes that broadcast."""
    block = [(), (3,), (2, 3), (1,)][rng.integers(4)]
    key: list[Any] = []
    for size in shape[: rng.integers(len(shape) + 1)]:
        key += [None] if rng.random() < 0.15 else []
        kind = rng.random()
        if kind < 0.6:
            key.append(_slice(rng, size) if rng.random() < 0.8 else slice(None))
        elif kind < 0.75:
            key.append(int(rng.integers(-size, size)))
        else:
            key.append(rng.integers(-size, size, block if rng.random() < 0.7 else block[-1:]))
    return key if rng.random() < 0.8 else [*key, ...]


@pytest.mark.parametrize("key", [True, False, (0, np.True_), (..., True, [1, 2]), np.array(True)])
def test_a_bool_of_no_axes_chooses_all_or_nothing_as_in_numpy(key):
    want = X.copy()
    want[key] += 3.0
    x = sg.placeholder(X.shape, "float64")
    (found,) = evaluate_reference(Graph(x.at[key].add(3.0), [x]), [X])
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("seed", range(60))
def test_a_key_of_any_kind_writes_what_numpy_would(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
    key, start = _key(rng, shape), rng.normal(size=shape)
    chosen = start[tuple(key)].shape
    cut = rng.integers(len(chosen) + 1) if rng.random() < 0.5 else 0
    value = rng.normal(size=tuple(n if rng.random() < 0.7 else 1 for n in chosen)[cut:])
    name = str(rng.choice(list(METHODS)))
    x, v = sg.placeholder(shape, "float64"), sg.placeholder(value.shape, "float64")
    inputs, arrays, built = [x, v], [start, value], list(key)
    for place, item in enumerate(key):
        if isinstance(item, np.ndarray) and (item.ndim == 0 or rng.random() < 0.5):
            built[place] = sg.placeholder(item.shape, "int64")
            inputs.append(built[place])
            arrays.append(item)
    graph = Graph(getattr(x.at[tuple(built)], name)(v), inputs)
    expected = combined(start, tuple(key), value, METHODS[name])
    for evaluate in (evaluate_reference, evaluate_loops):
        (found,) = evaluate(graph, arrays)
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=f"{key} {name}")


M, ROWS, COLUMNS = X % 2 == 0, np.array([True, False, True]), np.array([False, True, True, False])


@pytest.mark.parametrize(
    ("mask", "before", "after", "value"),
    [
        (M, (), (), 7.0),
        (ROWS, (), (), np.arange(4.0)),
        (ROWS, (), (), np.arange(4.0)[None]),
        (ROWS[:, None], (), (), 5.0),
        (np.array(True), (), (), 5.0),
        (COLUMNS, (slice(None),), (), np.arange(3.0)[:, None]),
        (COLUMNS, (...,), (), 2.0),
        (COLUMNS, (1,), (), 2.0),
        (COLUMNS, (slice(None, None, 2),), (), 2.0),
        (COLUMNS, (None, slice(1, None)), (), 2.0),
        (ROWS, (), (slice(1, 3),), 2.0),
        (ROWS, (), (1,), 2.0),
    ],
)
@pytest.mark.parametrize("is_tensor", [True, False])
def test_a_mask_writes_where_it_is_true(mask, before, after, value, is_tensor):
    x, m = sg.placeholder((3, 4), "float64"), sg.placeholder(mask.shape, "bool")
    given = m if is_tensor else mask
    y = x.at[(*before, given, *after)].add(value)
    expected = X.copy()
    wide = np.broadcast_to(mask, X.shape[: mask.ndim]) if mask.shape == (3, 1) else mask
    expected[(*before, wide, *after)] += value
    arrays = [X, mask] if is_tensor else [X]
    (found,) = evaluate_loops(Graph(y, [x, m] if is_tensor else [x]), arrays)
    np.testing.assert_array_equal(found, expected)


def _key_with_mask(
    rng: np.random.Generator, shape: tuple[int, ...]
) -> tuple[list[Any], int, tuple[int, ...]]:
    """Return a key of a mask, ints, slices, None and `...`, the mask's place, what it faces."""
    axis = int(rng.integers(len(shape)))
    count = int(rng.integers(1, len(shape) - axis + 1))
    others = [int(rng.integers(n)) if rng.random() < 0.4 else _slice(rng, n) for n in shape]
    key: list[Any] = [*others[:axis], None, *others[axis + count :]]
    place = axis
    for kind in (None, ...):
        if rng.random() < 0.3 and (at := int(rng.integers(len(key) + 1))) != place:
            key.insert(at, kind)
            place += at < place
    if ... in key and isinstance(key[-1], int | slice) and rng.random() < 0.5:
        key.pop()
    return key, place, shape[axis : axis + count]


@pytest.mark.parametrize("seed", range(80))
def test_a_key_with_a_mask_writes_what_numpy_would(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(2, 5, rng.integers(2, 5)))
    key, place, facing = _key_with_mask(rng, shape)
    mask, one = rng.random(facing) < 0.6, np.zeros(facing, bool)
    one.flat[0] = True
    is_tensor, start = rng.random() < 0.5, rng.normal(size=shape)
    built, named = list(key), list(key)
    named[place] = mask
    key[place] = one if is_tensor or rng.random() < 0.5 else mask
    chosen = start[tuple(key)].shape
    value = rng.normal(size=chosen[rng.integers(len(chosen) + 1) if rng.random() < 0.5 else 0 :])
    name = str(rng.choice(list(METHODS)))
    m = sg.placeholder(facing, "bool")
    x, v = sg.placeholder(shape, "float64"), sg.placeholder(value.shape, "float64")
    built[place] = m if is_tensor else mask
    graph = Graph(getattr(x.at[tuple(built)], name)(v), [x, v, m])
    expected = combined(start, tuple(named), value, METHODS[name])
    for evaluate in (evaluate_reference, evaluate_loops):
        (found,) = evaluate(graph, [start, value, mask])
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=f"{key} {name}")


def test_an_array_of_bools_takes_a_value_for_each_true_element():
    x = sg.placeholder((3, 4), "float64")
    values = -np.arange(float(M.sum()))
    (found,) = evaluate_loops(Graph(x.at[M].set(values), [x]), [X])
    np.testing.assert_array_equal(found[M], values)
    np.testing.assert_array_equal(found[~M], X[~M])


def test_the_last_of_several_stays_and_has_the_gradient():
    v = sg.placeholder((4,), "float64")
    y = sg.zeros((3,), "float64").at[[0, 2, 0, 0]].set(v)
    g: Any = sg.gradients(y, [v])[0]
    found = evaluate_reference(Graph([y, g], [v]), [np.array([1.0, 2, 3, 4])])
    assert [f.tolist() for f in found] == [[4, 0, 2], [0, 1, 0, 1]]


@pytest.mark.parametrize(("name", "sign"), [("max", 1.0), ("min", -1.0)])
def test_of_equals_the_base_has_the_gradient_or_else_the_first_update(name, sign):
    x, v = sg.placeholder((4,), "float64"), sg.placeholder((6,), "float64")
    y = getattr(x.at[[0, 0, 1, 1, 2, 2]], name)(v)
    arrays = [sign * np.array([3.0, 1, 5, 0]), sign * np.array([3.0, 3, 2, 2, 9, np.nan])]
    gradients: Any = sg.gradients(y, [x, v])
    found = evaluate_reference(Graph(gradients, [x, v]), arrays)
    assert [f.tolist() for f in found] == [[1, 0, 0, 1], [0, 0, 1, 0, 0, 1]]


def test_gradients_of_products_are_exact_at_zeros_to_the_second_order():
    x, v = sg.placeholder((2,), "float64"), sg.placeholder((3,), "float64")
    y = x.at[[0, 0, 0]].multiply(v)[0]
    first: Any = sg.gradients(y, [v])[0]
    second = sg.jacobian(first, v)
    arrays = [np.array([2.0, 1.0]), np.array([0.0, 0.0, 5.0])]
    by_v, by_both = evaluate_reference(Graph([first, second], [x, v]), arrays)
    assert by_v.tolist() == [0, 0, 0]
    assert by_both.tolist() == [[0, 10, 0], [10, 0, 0], [0, 0, 0]]


I = sg.placeholder((), "int32", name="i")  # noqa: E741 - an index
F = sg.placeholder((3, 4), name="f")
NO_COUNT: Any = 1.5  # what a type checker would refuse first
B = sg.placeholder((3, 4), "bool", name="b")
N = sg.placeholder((3,), "int32", name="n")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.at[5].set(1), sg.IndexOutOfRangeError, "index 5 is outside of axis 0 of size 3"),
        (lambda: F.at[0].set(sg.zeros((3,))), sg.ShapeError, "at: shapes do not broadcast: 3 in"),
        (lambda: F.at[0].set(np.zeros((2, 4), "f")), sg.ShapeError, "at: v: f32[2, 4] does not"),
        (lambda: F.at[0].set(np.zeros(4)), sg.DTypeError, "at: f64[4] is not written to x: f32[3,"),
        (lambda: N.at[0].set(1.5), sg.DTypeError, "at: 1.5 is not written to x: i32[3]"),
        (lambda: B.at[0].set(1), sg.DTypeError, "at: 1 is not written to x: bool[3, 4]"),
        (lambda: B.at[0].add(True), sg.DTypeError, "at: add: x: bool[3, 4] is no number"),
        (lambda: N.at[0].divide(2), sg.DTypeError, "at: the quotients of x: i32[3] are floats"),
        (lambda: F.at[B].set(F), sg.ShapeError, "at: v: f32[3, 4] has a value for each true"),
        (lambda: F.at[B[0]].set(0), sg.ShapeError, "at: shapes do not broadcast: 4 in axis -2 of"),
        (lambda: F.at[B[0], [0]].set(0), sg.DTypeError, "at: mask: bool[4] stands beside arrays"),
        (lambda: F.at[F].set(0), sg.DTypeError, "index: f32[3, 4] is of no integer"),
        (lambda: F.at[0, 0, 0].set(0), sg.ShapeError, "getitem: 3 indices for x: f32[3, 4]"),
        (lambda: F.at["a"].set(0), sg.DTypeError, "getitem: 'a' is no index"),
        (lambda: F.at[I:].set(0), sg.DTypeError, "a slice from i32[] on would depend on data"),
        (lambda: sg.dynamic_slice(F, [0], [1, 1]), sg.ShapeError, "dynamic_slice: 1 starts for x"),
        (lambda: sg.dynamic_slice(F, I, [1, 1]), sg.ShapeError, "dynamic_slice: starts: i32[] is"),
        (lambda: sg.dynamic_slice(F, [0, 0], [1]), sg.ShapeError, "dynamic_slice: 1 sizes for x"),
        (lambda: sg.dynamic_slice(F, [0, 0.5], [1, 1]), sg.DTypeError, "start: f32[] is no"),
        (lambda: sg.dynamic_slice(F, [I, 0], [4, 1]), sg.ShapeError, "4 elements of axis 0 of x"),
        (lambda: sg.dynamic_update_slice(F, N, [I, 0]), sg.ShapeError, "ranks differ: 2 of x"),
        (lambda: sg.dynamic_update_slice(N, F[0], [I]), sg.DTypeError, "f32[4] is not written to"),
        (lambda: sg.segment_sum(B, N, 3), sg.DTypeError, "segment_sum: data: bool[3, 4] are no"),
        (lambda: sg.segment_max(F, F, 3), sg.DTypeError, "segment_max: segment_ids: f32[3, 4] are"),
        (lambda: sg.segment_sum(F, [0, 1], 3), sg.ShapeError, "segment_sum: sizes differ: 2 in"),
        (lambda: sg.segment_sum(F, N, -1), sg.ShapeError, "segment_sum: num_segments -1 is neg"),
        (lambda: sg.segment_sum(F, N, NO_COUNT), sg.DTypeError, "num_segments must be an int"),
        (lambda: sg.gather_nd(F, np.zeros((2, 3), int)), sg.ShapeError, "gather_nd: indices: i64"),
        (lambda: sg.gather_nd(F, 1), sg.ShapeError, "gather_nd: indices: i64[] are no vectors"),
        (lambda: sg.scatter_nd([[0]], F, (3, 4)), sg.ShapeError, "scatter_nd: sizes differ: 3 in"),
        (lambda: sg.put_along_axis(F, [0], 1.0, 0), sg.ShapeError, "put_along_axis: ranks differ"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused_at_the_users_line(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


@pytest.mark.parametrize("start", [-1, 2, 99])
def test_a_slice_that_leaves_its_axis_stops_the_program_and_leaves_the_state(start):
    w = sg.variable(np.ones(3, np.float32), name="w")
    step = sg.compile([I], w[I : I + 2], updates=[(w, w.at[I : I + 2].set(0.0))])
    step(1)
    with pytest.raises(
        sg.IndexOutOfRangeError, match=rf"index {start} is out of range for slices of sizes \[2\]"
    ):
        step(start)
    assert w.value.tolist() == [1, 0, 0]


def test_an_empty_segment_is_what_changes_nothing_and_ids_outside_are_dropped():
    x, ids = sg.placeholder((4,), "float32"), sg.placeholder((4,), "int32")
    names = ("sum", "prod", "max", "min", "mean")
    ys = [getattr(sg, f"segment_{name}")(x, ids, 3) for name in names]
    least = sg.segment_max(sg.astype(x, "int8"), ids, 3)
    arrays = [np.array([2, 3, 5, 7], np.float32), np.array([0, 9, -1, 0], np.int32)]
    *found, of_integers = evaluate_loops(Graph([*ys, least], [x, ids]), arrays)
    inf = np.inf
    wanted = [[9, 0, 0], [14, 1, 1], [7, -inf, -inf], [2, inf, inf], [4.5, 0, 0]]
    assert [f.tolist() for f in found] == wanted
    assert of_integers.tolist() == [7, -128, -128]


def test_no_segments_at_all_are_none():
    x = sg.placeholder((4, 2))
    (found,) = evaluate_loops(
        Graph(sg.segment_sum(x, [0, 1, 2, 3], 0), [x]), [np.ones((4, 2), np.float32)]
    )
    assert found.shape == (0, 2)


def test_segments_of_a_size_that_only_a_run_tells_may_be_none():
    x, sized = sg.placeholder((4, 3)), sg.placeholder(("n",))
    count = sized.shape[0]
    names = ("sum", "prod", "max", "min", "mean")
    found = [getattr(sg, f"segment_{name}")(x, [0, 1, -1, 2], count) for name in names]
    (slope,) = sg.gradients(found[0], [x])
    step = sg.compile([x, sized], [*found, slope])
    given = np.arange(12, dtype=np.float32).reshape(4, 3)
    for n in (0, 1, 5):
        *results, slopes = step(given, np.zeros(n, np.float32))
        known = sg.run([getattr(sg, f"segment_{name}")(x, [0, 1, -1, 2], n) for name in names],
                       {x: given})  # fmt: skip
        for one, other in zip(results, known, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
        np.testing.assert_array_equal(slopes[:, 0], [n > 0, n > 1, False, n > 2])


@pytest.mark.parametrize("indices", [[1, 2], [[[1, 2], [0, 0]], [[2, 3], [1, 1]]]])
def test_vectors_of_indices_are_along_the_last_axis(indices):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = sg.run(sg.gather_nd(sg.constant(values), indices))
    each = np.asarray(indices)
    np.testing.assert_array_equal(found, values[each[..., 0], each[..., 1]])


def test_bounds_converted_twice_from_one_number_are_as_far_apart_as_is_added():
    number = sg.placeholder((), "float32")

    def bound() -> sg.Tensor:
        return sg.astype(number, "int32")

    assert sg.zeros(10)[bound() : bound() + 2].shape == (2,)


def test_vectors_of_no_indices_name_the_whole():
    assert sg.gather_nd(F, np.zeros((2, 0), int)).shape == (2, *F.shape)
