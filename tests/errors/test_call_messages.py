"""Calling a step: inputs by name, Python's numbers, and what is said of dtypes and new sizes."""

from __future__ import annotations

import logging
import pickle  # noqa: TID251 - what it refuses is tested
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.config import override
from symgrad.graph import promotion_warning
from tests.support.refusals import assert_refused, line_of

F32 = np.float32
X = sg.placeholder((2,), name="x")
LABELS = sg.placeholder((2,), "int64", name="labels")
STEP = sg.compile([X, LABELS], X * 10 + LABELS, name="step")
ARRAY = np.ones(2, F32)


# ------------------------------------------------------------------------------ inputs by name


def test_inputs_are_given_by_name_in_any_order_and_after_others_by_place():
    np.testing.assert_array_equal(STEP(labels=[1, 2], x=[3.0, 4]), [31, 42])
    np.testing.assert_array_equal(STEP([3, 4.0], labels=np.array([1, 2])), [31, 42])
    out = np.empty(2, F32)
    assert STEP(x=ARRAY, labels=[1, 2], out=out) is out
    np.testing.assert_array_equal(out, [11, 12])
    assert str(STEP.profile(x=ARRAY, labels=[1, 2], repeat=1))


def test_a_nest_has_no_name_and_what_stands_beside_it_has():
    weights = {"w": sg.placeholder((2,), name="w")}
    step = sg.compile([weights, X], X * weights["w"], name="nested")
    np.testing.assert_array_equal(step({"w": [2, 3]}, x=[1, 1]), [2, 3])
    assert_refused(lambda: step(x=[1, 1]), ValueError, """
        nested: input 0 was not given
          --> <here>
    """)  # fmt: skip


def test_a_loaded_step_takes_names_too(tmp_path: Path) -> None:
    STEP.export(tmp_path / "net", formats=("so",))
    loaded = sg.load(tmp_path / "net")
    np.testing.assert_array_equal(loaded(labels=[1, 2], x=ARRAY), [11, 12])
    np.testing.assert_array_equal(loaded["step"](ARRAY, labels=[1, 2]), [11, 12])


def test_a_name_that_no_input_has():
    assert_refused(lambda: STEP(x=ARRAY, label=[1, 2]), sg.ArgumentError, """
        step: no argument is called 'label'; there are x, labels
          --> <here>
          hint: did you mean labels=?
    """)  # fmt: skip


def test_an_input_that_is_given_twice_and_one_that_is_not_given():
    assert_refused(lambda: STEP(ARRAY, x=ARRAY), TypeError, """
        step: input x was given twice
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: STEP(labels=[1, 2]), ValueError, """
        step: input 0 (x) was not given
          --> <here>
    """)  # fmt: skip


# ----------------------------------------------------------------------- dtypes, and hints of them


def test_numbers_and_lists_of_python_feed_any_float_input():
    rows = sg.placeholder((None, 2), name="rows")
    step = sg.compile([rows], rows + 1, name="rows")
    np.testing.assert_array_equal(step([[0.5, 1], (2, True)]), [[1.5, 2], [3, 2]])
    assert step([[0.5, 1]]).dtype == F32


def test_the_hint_fits_what_was_given():
    assert_refused(lambda: STEP(np.ones(2, "int64"), [1, 2]), TypeError, """
        step: input 0 (x): int64 was given, float32 is needed
          --> <here>
          hint: convert it: .astype('float32')
    """)  # fmt: skip
    assert_refused(lambda: STEP(ARRAY, [1.5, 2]), TypeError, """
        step: input 1 (labels): float64 was given, int64 is needed
          --> <here>
          hint: convert it: np.asarray(x).astype('int64')
    """)  # fmt: skip
    assert_refused(lambda: STEP(["a", "b"], [1, 2]), TypeError, """
        step: input 0 (x): str32 was given, float32 is needed
          --> <here>
    """)  # fmt: skip


def _warned(call: Any) -> str:
    promotion_warning._SHOWN.clear()
    with override(warn_float64=True), pytest.warns(sg.PromotionWarning) as caught:
        call()
    (warning,) = caught
    assert Path(warning.filename) == Path(__file__)
    assert warning.lineno == call.__code__.co_firstlineno
    return str(warning.message).replace(line_of(call, 0), "<here>")


def test_a_float64_array_beside_a_float32_tensor_warns_with_the_line():
    assert _warned(lambda: X * np.ones(2)) == (
        "multiply: an array of shape [2] makes float64 of x: f32[2]\n"
        "  --> <here>\n"
        "  hint: convert it: .astype('float32'); SYMGRAD_WARN_FLOAT64=off turns this warning off"
    )


@pytest.mark.parametrize("name", ["less", "greater_equal", "equal", "not_equal"])
def test_a_comparison_with_a_float64_array_warns(name):
    text = _warned(lambda: getattr(sg, name)(X, np.ones(2)))
    assert text.startswith(f"{name}: an array of shape [2] makes float64 of x: f32[2]")


def test_a_float64_variable_beside_a_float32_tensor_warns():
    weight = sg.variable(np.ones(2), name="weight")
    assert _warned(lambda: X + weight) == (
        "add: the variable weight: f64[2] makes float64 of x: f32[2]\n"
        "  --> <here>\n"
        "  hint: sg.variable(value, 'float32') makes it float32; "
        "SYMGRAD_WARN_FLOAT64=off turns this warning off"
    )


def test_a_float64_array_that_feeds_a_float32_input_is_rounded_with_a_warning():
    wanted = STEP(ARRAY, [1, 2])
    found = []
    for given in (ARRAY.astype("float64"), [np.float64(ARRAY[0]), float(ARRAY[1])]):
        with override(warn_float64=False), warnings.catch_warnings():
            warnings.simplefilter("error")
            found.append(STEP(given, [1, 2]))
    assert _warned(lambda: found.append(STEP(x=np.ones(2), labels=[1, 2]))) == (
        "step: input 0 (x): float64 was given, and is rounded to float32\n"
        "  --> <here>\n"
        "  hint: convert it: .astype('float32'); SYMGRAD_WARN_FLOAT64=off turns this warning off"
    )
    for values in found:
        assert values.dtype == wanted.dtype == F32
    np.testing.assert_array_equal(found[:2], [wanted] * 2)
    with override(warn_float64=True), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            STEP(np.ones(2), [1, 2])
    assert len(caught) == 1


def test_numbers_of_numpy_that_are_floats_of_python_feed_without_a_warning():
    rate = sg.placeholder((), name="rate")
    step = sg.compile([rate], rate * 2)
    with override(warn_float64=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert step(np.float64(0.1)) == np.float32(0.1) * 2


def test_float64_arrays_feed_no_input_of_fewer_bits_or_of_integers():
    half = sg.placeholder((2,), "float16")
    step = sg.compile([half], half)
    with pytest.raises(sg.DTypeError, match="float64 was given, float16 is needed"):
        step(np.ones(2))
    with pytest.raises(sg.DTypeError, match="float64 was given, int64 is needed"):
        STEP(ARRAY, np.ones(2))


def test_a_line_warns_once_and_the_switch_turns_it_off():
    with override(warn_float64=True), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            X * np.ones(2)
        assert len(caught) == 1
    with override(warn_float64=False), warnings.catch_warnings():
        warnings.simplefilter("error")
        X * np.ones(2)


def test_what_is_float64_throughout_and_python_numbers_do_not_warn():
    wide = sg.placeholder((2,), "float64")
    with override(warn_float64=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        wide * np.ones(2) + sg.variable(np.ones(2))
        X * np.sqrt(2) + [1.0, 2.0]
        X.astype("float64") * np.ones(2)


# ------------------------------------------------------------------------------- other messages


def test_compiling_again_for_other_sizes_is_logged(caplog, monkeypatch):
    # Tools that configure logging, as import-linter does in another test, turn loggers off.
    monkeypatch.setattr(logging.getLogger("symgrad"), "disabled", False)
    rows = sg.placeholder(("n",), name="rows")
    with caplog.at_level(logging.DEBUG, "symgrad"):
        step = sg.compile([rows], rows + 1, name="again")
        for size in (3, 4, 3, 4):
            step(np.ones(size, F32))
    first, again = caplog.records
    assert (first.levelno, again.levelno) == (logging.DEBUG, logging.INFO)
    assert first.name == again.name == "symgrad"
    assert again.args is not None
    assert again.getMessage() == (
        f"again: compiled for n=4 in {again.args[2]:.3f} s (program 2 of this step)"
    )


def test_a_value_that_is_read_is_no_place_to_write_to():
    weight = sg.variable(np.zeros(2, F32), name="weight")
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        weight.value[0] = 1
    weight.value.copy()[0] = 1
    sg.variable_data(weight)[0] = 1
    weight.value = weight.value + 1
    np.testing.assert_array_equal(weight.value, [1, 1])


def test_pickling_says_what_to_use_instead():
    variable = sg.variable(1.0, name="v")
    assert_refused(lambda: pickle.dumps(variable), TypeError, """
        pickle: a Variable is compared by identity, and a pickled one would be another
          --> <here>
          hint: pickle its value, or write it with sg.save(path, variables)
    """)  # fmt: skip
    assert_refused(lambda: pickle.dumps(STEP), TypeError, """
        pickle: a Step is compared by identity, and a pickled one would be another
          --> <here>
          hint: step.export(path) writes what sg.load runs, or pickle step.graph
    """)  # fmt: skip
