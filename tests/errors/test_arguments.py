"""Arguments that do not fit: left out, unknown, given twice or too many, of every public name."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import symgrad as sg
from symgrad.suggestions import MADE_BY
from tests.support.refusals import assert_refused
from tests.support.together import together
from tools.public_names import PublicName, public_names

X = sg.placeholder((3, 4), name="x")
x_any: Any = X
sg_any: Any = sg
nn_any: Any = sg.nn

# Errors, choices and results that are tuples are refused by Python, and nobody calls them.
_SIMPLE = (BaseException, enum.Enum, tuple)
# The parts of a graph are made for every op, by symgrad alone; an optimizer is one of its kinds.
_MADE_BY_US = (sg.Node, sg.Tensor, sg.optim.Optimizer)


def _is_called(name: PublicName) -> bool:
    """Return whether users call what has this name, as it is found, with arguments of their own."""
    value: Any = name.value
    if not callable(value) or name.name.endswith("__"):
        return False
    if inspect.isclass(value):
        return not issubclass(value, _SIMPLE) and value not in _MADE_BY_US
    path = name.name.split(".")[1:]
    owner: Any = functools.reduce(getattr, path[:-1], sg)
    # What is called on the class is bound by Python before anything of ours sees it.
    return not isinstance(inspect.getattr_static(owner, path[-1]), staticmethod | classmethod)


CALLED = [name for name in public_names() if _is_called(name)]


def _required(function: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind not in kinds and p.name != "self"
    ]


def _takes_any_keyword(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.kind is p.VAR_KEYWORD for p in parameters)


def _refusal(name: PublicName, **given: Any) -> sg.ArgumentError:
    takes_self = next(iter(inspect.signature(name.value).parameters), "") == "self"
    with pytest.raises(sg.ArgumentError) as caught:
        name.value(*([None] if takes_self else []), **given)
    error: sg.ArgumentError = caught.value
    assert error.subject.rpartition(".")[2] == name.value.__name__
    assert error.source is not None
    assert error.source.function == "_refusal"
    return error


@together("name", [n for n in CALLED if _required(n.value)], ids=lambda name: name.name)
def test_arguments_that_are_left_out_are_named(name):
    error = _refusal(name)
    assert error.problem.startswith("no value is given for ")
    assert all(repr(argument) in error.problem for argument in _required(name.value))


@together("name", [n for n in CALLED if not _takes_any_keyword(n.value)], ids=lambda n: n.name)
def test_a_keyword_that_nothing_has_is_named(name):
    assert _refusal(name, no_such=1).problem.startswith("no argument is called 'no_such'; there ")


def test_a_generator_that_is_left_out():
    assert_refused(lambda: nn_any.dropout(X, 0.5), sg.ArgumentError, """
        dropout: no value is given for 'generator'; there are x, rate, generator
          --> <here>
          hint: sg.random.Generator(seed) makes one, and so does sg.random.key(seed)
    """)  # fmt: skip


def test_several_that_are_left_out():
    assert_refused(lambda: sg_any.where(X), TypeError, """
        where: no value is given for 'x' and 'y'; there are condition, x, y
          --> <here>
    """)  # fmt: skip


def test_too_many_by_position():
    assert_refused(lambda: sg_any.exp(X, 1, 2), sg.ArgumentError, """
        exp: 3 arguments are given by position, which 1 can be; there are x
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: x_any.sum(0, "float32"), sg.ArgumentError, """
        sum: 2 arguments are given by position, which 1 can be; there are axis, **options
          --> <here>
    """)  # fmt: skip


def test_one_that_is_given_twice():
    assert_refused(lambda: nn_any.elu(X, 1.0, alpha=2.0), sg.ArgumentError, """
        elu: 'alpha' is given by position and by its name; there are x, alpha
          --> <here>
    """)  # fmt: skip


def test_a_class_that_something_else_makes():
    assert_refused(lambda: sg_any.Variable([1.0, 2.0]), sg.ArgumentError, """
        Variable: no value is given for 'index' and 'type'; there are node, index, type
          --> <here>
          hint: sg.variable(value) makes one
    """)  # fmt: skip


def test_a_schedule_is_named_with_its_module():
    schedules: Any = sg.optim.schedules
    assert_refused(lambda: schedules.cosine(0.1), sg.ArgumentError, """
        schedules.cosine: no value is given for 'steps'; there are rate, steps, end
          --> <here>
    """)  # fmt: skip


def test_arguments_that_fit_leave_an_error_of_a_function_of_the_user_s_as_it_is():
    def body(_i: Any, c: sg.Tensor) -> Any:
        return c + len(5)  # type: ignore[arg-type]  # its mistake

    with pytest.raises(TypeError, match="object of type 'int' has no len") as caught:
        sg.fori_loop(0, 3, body, X)
    assert not isinstance(caught.value, sg.SymgradError)


def test_what_a_hint_is_for_is_an_argument_or_a_class():
    arguments = {a for name in CALLED for a in inspect.signature(name.value).parameters}
    classes = {name.name.split(".")[-1] for name in public_names() if inspect.isclass(name.value)}
    assert set(MADE_BY) <= arguments | classes
