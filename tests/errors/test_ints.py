"""What is asked as an int is one: a bool, a float that is whole and a text are refused by name.

Every int of the call in the docstring of a function is replaced, and so is every int that an
argument has when it is left out: a new function needs no row of its own.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.ops.gathering import iota
from tests.errors.test_arguments import CALLED
from tests.support.absurd import Call, arguments_of, owner_of
from tests.support.together import together
from tools.public_names import PublicName

# What its examples call starts MPI, in a process of their own.
_NAMES = [name for name in CALLED if not name.name.startswith("sg.distributed.")]

# An int among numbers, which may be floats or bools, and the name of a size, which may be a text.
_NUMBERS = {
    ("sg.repeat", "repeats"),
    ("sg.gradients", "aggregation_method"),
    ("sg.placeholder", "shape"),
}


def _asks_for_int(parameter: inspect.Parameter) -> bool:
    annotation = str(parameter.annotation)
    return ("int" in annotation or "Dim" in annotation) and "float" not in annotation


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _no_ints(value: Any) -> Iterator[Any]:
    """Yield what looks like an int, or like a sequence of them, and is none."""
    if value is None:
        value = 1
    if _is_int(value):
        yield from (bool(value), np.bool_(value), float(value), np.float64(value), str(value))
        yield from (np.array(float(value)), np.array(bool(value)))
    elif isinstance(value, tuple | list) and value and all(map(_is_int, value)):
        for first in _no_ints(value[0]):
            yield type(value)([first, *value[1:]])


def _calls(name: PublicName) -> Iterator[Call]:
    arguments = arguments_of(name)
    if arguments is None:
        return
    signature = inspect.signature(name.value)
    good = signature.bind(*arguments[0], **arguments[1]).arguments
    function = getattr(owner_of(name), name.name.rpartition(".")[2])
    for parameter in signature.parameters.values():
        is_several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        is_known = parameter.name in good or parameter.default is not parameter.empty
        if is_several or not is_known or not _asks_for_int(parameter):
            continue
        for value in _no_ints(good.get(parameter.name, parameter.default)):
            every = {**good, parameter.name: value}
            ordered = {key: every[key] for key in signature.parameters if key in every}
            bound = inspect.BoundArguments(signature, ordered)
            yield Call(function, parameter.name, repr(value), bound)


@together("name", _NAMES, ids=lambda name: name.name, at_once=100)
def test_what_is_no_int_is_refused_where_one_is_asked_for(name):
    taken = []
    for call in _calls(name):
        if (name.name, call.parameter) in _NUMBERS:
            continue
        with contextlib.suppress(sg.SymgradError):
            with contextlib.redirect_stdout(io.StringIO()):
                call.run()
            taken.append(str(call))
    assert not taken, f"{name.name} takes {taken}"


def test_the_message_names_the_argument():
    with pytest.raises(sg.DTypeError, match=r"trace: offset must be an int, it is 2\.0"):
        sg.trace(sg.ones((3, 3)), offset=2.0)  # type: ignore[arg-type]
    with pytest.raises(sg.DTypeError, match="rot90: k must be an int, it is True"):
        sg.rot90(sg.ones((3, 3)), True)
    with pytest.raises(sg.DTypeError, match="an index of indices_or_sections must be an int"):
        sg.split(sg.ones(3), [1.5])  # type: ignore[list-item]


def test_a_bool_is_no_size_of_any_type():
    with pytest.raises(sg.DTypeError, match="confusion_matrix: classes must be an int, it is True"):
        sg.nn.confusion_matrix([0, 1], [0, 1], True)
    # Of equal types one is kept for all: with True it would be the one of each vector of one.
    with pytest.raises(sg.DTypeError, match="True is no size"):
        iota((True, 7919), 0)
    assert [type(n) for n in iota((1, 7919), 0).shape] == [int, int]


def test_an_error_about_a_size_names_the_op():
    with pytest.raises(sg.DTypeError, match=r"^iota: True is no size"):
        iota((True, 7907), 0)


class _Axis(enum.IntEnum):
    ROWS = 2
    COLUMNS = 3


def test_an_int_of_a_class_of_its_own_is_a_size():
    rows = sg.broadcast_to(np.arange(3.0), (_Axis.ROWS, _Axis.COLUMNS))
    turned = sg.reshape(rows, (_Axis.COLUMNS, _Axis.ROWS))
    np.testing.assert_array_equal(sg.run(turned), [[0, 1], [2, 0], [1, 2]])
