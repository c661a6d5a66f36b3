"""Absurd arguments: one parameter of a good call replaced by what no function takes.

The good call is the one in the docstring of the function, so that a new function is tested without
a row of its own.
"""

from __future__ import annotations

import contextlib
import doctest
import functools
import inspect
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import symgrad as sg
from tools.public_names import PublicName

EXAMPLE = "<example>"  # the file of what an example states

# By name, since what they are is too long for the name of a test.
ABSURD: dict[str, Any] = {
    "None": None,
    "a text": "a",
    "an empty text": "",
    "nan": float("nan"),
    "inf": float("inf"),
    "a negative int": -3,
    "zero": 0,
    "a huge int": 10**30,
    "a fraction": 2.5,
    "a complex number": 1j,
    "True": True,
    "a list with a text": [1, "a"],
    "a ragged list": [[1.0, 2.0], [3.0]],
    "an empty list": [],
    "a dict": {"a": 1},
    "a type": int,
    "an object": object(),
    "a function": lambda *arguments: arguments,
    "an array of objects": np.array([object()], dtype=object),
    "an array of texts": np.array(["a"]),
    "an array of dates": np.array(["2020-01-01"], "M8[D]"),
    "an array of five axes": np.zeros((2, 1, 1, 1, 3), np.float32),
    "an array of bools": np.array([True, False]),
    "an array of complex numbers": np.zeros(3, np.complex64),
    "a tensor": sg.placeholder((2, 3), name="t"),
    "a tensor of integers": sg.placeholder((2, 3), "int32", name="i"),
    "a tensor of unknown size": sg.placeholder((None,), name="u"),
}

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Call:
    """A call of `function` in which `parameter` is what `label` says."""

    function: Callable[..., Any]
    parameter: str
    label: str
    arguments: inspect.BoundArguments

    def __str__(self) -> str:
        return f"{self.parameter}={self.label}"

    def run(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self.function(*self.arguments.args, **self.arguments.kwargs)


class _Reached(BaseException):
    """The example has come to its call."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()
        self.arguments = arguments


def owner_of(name: PublicName) -> Any:
    return functools.reduce(getattr, name.name.split(".")[1:-1], sg)


def arguments_of(name: PublicName) -> Arguments | None:
    """Return the arguments of the first call in the example of `name`; None if it is not called."""
    owner, attribute = owner_of(name), name.name.rpartition(".")[2]

    @functools.wraps(name.value)
    def reach(*args: Any, **kwargs: Any) -> Any:
        raise _Reached((args, kwargs))

    own = vars(owner).get(attribute)
    setattr(owner, attribute, staticmethod(reach) if isinstance(own, staticmethod) else reach)
    names: dict[str, Any] = {"sg": sg, "np": np}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for example in doctest.DocTestParser().get_examples(name.docstring):
                exec(compile(example.source, EXAMPLE, "single"), names)
    except _Reached as reached:
        return reached.arguments
    except Exception:  # of an example that is about an error, or asks for the class itself
        return None
    finally:
        if own is None:
            delattr(owner, attribute)
        else:
            setattr(owner, attribute, own)
    return None


def calls_of(name: PublicName, arguments: Arguments) -> Iterator[Call]:
    """Yield the calls of `name` with `arguments` but for one parameter, for all parameters."""
    signature = inspect.signature(name.value)
    good = signature.bind(*arguments[0], **arguments[1]).arguments
    function = getattr(owner_of(name), name.name.rpartition(".")[2])
    for parameter in signature.parameters.values():
        if parameter.name == "self" or parameter.kind is parameter.VAR_KEYWORD:
            continue
        is_several = parameter.kind is parameter.VAR_POSITIONAL
        takes_function = callable(good.get(parameter.name))
        for label, value in ABSURD.items():
            if takes_function and callable(value):
                continue  # a function of the user's
            given = (value, *good.get(parameter.name, ())[1:]) if is_several else value
            every = {**good, parameter.name: given}
            ordered = {key: every[key] for key in signature.parameters if key in every}
            bound = inspect.BoundArguments(signature, ordered)
            yield Call(function, parameter.name, label, bound)
