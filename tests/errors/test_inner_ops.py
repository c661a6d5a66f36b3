"""An error of a function made of others names the one that was called, whichever it came from."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradError
from symgrad.frontend.publication import is_op
from symgrad.graph import dtypes
from symgrad.graph.public_ops import PUBLIC_OPS
from tests.support.refusals import assert_refused, line_of

X = sg.placeholder((3, 4), name="x")
V = sg.placeholder((5,), name="v")
LABELS = sg.placeholder((3,), "int64", name="labels")
WEIGHT = sg.variable(np.zeros((5, 2), "float32"), name="weight")
nowhere: Any = "nowhere"


def test_a_loss():
    text = _text("cross_entropy")
    assert_refused(lambda: sg.nn.cross_entropy(nowhere, LABELS), sg.DTypeError, text)


def test_a_layer():
    assert_refused(lambda: sg.nn.linear(X, WEIGHT), sg.ShapeError, """
        linear: x: f32[3, 4] does not fit axis 0 of w: f32[5, 2]
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: sg.nn.linear(X, WEIGHT[:4], V), sg.ShapeError, """
        linear: shapes do not broadcast: 2 in axis -1 of x: f32[3, 2], 5 in axis -1 of y: f32[5]
          --> <here>
    """)  # fmt: skip


def test_dropout_without_a_generator():
    assert_refused(lambda: sg.nn.dropout(X, 0.5, None), sg.DTypeError, """
        dropout: key: None is no generator or key
          --> <here>
          hint: make one with sg.random.Generator(seed) or sg.random.key(seed)
    """)  # fmt: skip


def test_a_creation_function():
    assert_refused(lambda: sg.ones_like(nowhere), sg.DTypeError, _text("ones_like"))


def test_a_loop_names_itself_and_not_the_op_of_the_body_that_is_wrong():
    assert_refused(lambda: sg.scan(lambda c, x: (c, x), X, nowhere), sg.DTypeError, _text("scan"))

    def body(c: sg.Tensor, x: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
        return c + V, x

    with pytest.raises(sg.ShapeError) as caught:
        sg.scan(body, X, X)
    assert str(caught.value) == (
        "add: shapes do not broadcast: 4 in axis -1 of x: f32[3, 4], 5 in axis -1 of y: f32[5]\n"
        f"  --> {line_of(body)}"
    )


def test_an_error_in_a_branch_names_the_function_that_the_branch_calls():
    def branch() -> sg.Tensor:
        return sg.nn.linear(X, WEIGHT)

    with pytest.raises(sg.ShapeError) as caught:
        sg.cond(X.sum() > 0, branch, branch)
    assert str(caught.value) == (
        f"linear: x: f32[3, 4] does not fit axis 0 of w: f32[5, 2]\n  --> {line_of(branch)}"
    )


def _text(function: str) -> str:
    known = ", ".join(dtype.name for dtype in dtypes.ALL)
    return f"""
        {function}: dtype('<U7') is none of {known}
          --> <here>
          hint: 'nowhere' is no tensor, array or number
    """


def _required(function: Any) -> int | None:
    """Return how many arguments a function must be given, None if some only by keyword."""
    parameters = inspect.signature(function).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    is_by_place = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in required)
    return len(required) if is_by_place else None


def _refusal(function: Any) -> SymgradError | None:
    """Return the error of `function` for operands that nothing takes, None if it is Python's."""
    count = _required(function)
    if not count:
        return None
    try:
        function(*[object()] * count)
    except SymgradError as error:
        return error
    except (TypeError, AttributeError):  # of what is no list, no number, or not another array
        return None
    raise AssertionError(f"{function.__name__} takes any object")


@pytest.mark.parametrize("module", [sg, sg.nn, sg.linalg, sg.special], ids=lambda m: m.__name__)
def test_what_no_op_takes_is_refused_in_the_name_of_each(module):
    names = [name for name in dir(module) if name in PUBLIC_OPS]
    ops = [name for name in names if is_op(inspect.unwrap(getattr(module, name)))]
    refusals = {name: _refusal(getattr(module, name)) for name in ops}
    assert len([error for error in refusals.values() if error]) > len(ops) / 2
    wrong = {n: str(e) for n, e in refusals.items() if e and (e.subject != n or e.source is None)}
    assert not wrong


_CUT: tuple[tuple[str, Any, str], ...] = (
    ("split", lambda x: sg.split(x, [2], axis=1), "leaves axis 1 of x"),
    ("quantile", lambda x: sg.quantile(x, 0.5, axis=1), r"has no elements along \(1,\)"),
)


@pytest.mark.parametrize(("name", "function", "problem"), _CUT)
def test_rows_that_a_call_leaves_empty(name, function, problem):
    x = sg.placeholder((3, None), name="x")
    step = sg.compile([x], function(x))
    with pytest.raises(sg.ShapeError, match=f"^{name}: .* {problem}") as caught:
        step(np.zeros((3, 0), np.float32))
    assert "test_inner_ops.py" in str(caught.value)
