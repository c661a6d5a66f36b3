"""The namespace has the names and parameters of the Array API, as another library declares them.

A parameter that the standard has by keyword may be had by place as well, and one without a default
may have one: whatever is called as the standard says works.
"""

from __future__ import annotations

import inspect
import warnings
from inspect import Parameter
from typing import Any

import symgrad as sg
from symgrad.frontend import namespace
from tests.support.together import together

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import array_api_strict as strict

    strict.set_array_api_strict_flags(api_version="2025.12")

_NOT_OF_THE_STANDARD = {
    "get_array_api_strict_flags",
    "reset_array_api_strict_flags",
    "set_array_api_strict_flags",
}
_FUNCTIONS = {
    name: value
    for name, value in vars(strict).items()
    if inspect.isfunction(value) and not name.startswith("_") and name not in _NOT_OF_THE_STANDARD
}
# What stands for a default that is not to be seen.
_HIDDEN = {"copy", "device"}


@together("name", sorted(_FUNCTIONS), at_once=100)
def test_a_function_takes_what_the_standard_says(name):
    assert hasattr(sg, name)
    _assert_takes(getattr(namespace, name), _FUNCTIONS[name])


def _assert_takes(ours: Any, theirs: Any) -> None:
    found = inspect.signature(ours).parameters
    wanted = inspect.signature(theirs).parameters
    by_place = [p for p in found.values() if p.kind is not Parameter.KEYWORD_ONLY]
    for place, parameter in enumerate(wanted.values()):
        if parameter.kind is Parameter.KEYWORD_ONLY:
            _assert_stands_for(found[parameter.name], parameter)
            assert found[parameter.name].kind in (
                Parameter.KEYWORD_ONLY,
                Parameter.POSITIONAL_OR_KEYWORD,
            )
            continue
        _assert_stands_for(by_place[place], parameter)
        if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD:
            assert by_place[place].name == parameter.name
        assert by_place[place].kind is parameter.kind
    # What is ours alone need not be given.
    alone = [p for n, p in found.items() if n not in wanted and p in by_place[len(wanted) :]]
    assert all(p.default is not Parameter.empty for p in alone)


def _assert_stands_for(found: Parameter, wanted: Parameter) -> None:
    if wanted.default is not Parameter.empty and wanted.name not in _HIDDEN:
        assert found.default == wanted.default
        assert type(found.default) is type(wanted.default)


_LINALG = {
    name: value
    for name, value in vars(strict.linalg).items()
    if inspect.isfunction(value) and not name.startswith("_") and name in strict.linalg.__all__
}
_COMPLEX = {"eig", "eigvals"}  # whose results are: there are no complex tensors


def test_the_extension_of_linear_algebra_has_every_function():
    extension = sg.zeros((2, 2)).__array_namespace__().linalg
    assert extension is sg.linalg
    assert len(_LINALG) > 20
    for name in _LINALG.keys() - _COMPLEX:
        _assert_takes(getattr(extension, name), _LINALG[name])


_FFT = {name: getattr(strict.fft, name) for name in strict.fft.__all__}


def test_the_extension_of_fourier_transforms_has_every_function():
    extension = sg.zeros((2, 2)).__array_namespace__().fft
    assert extension is sg.fft
    assert len(_FFT) == 14
    for name, theirs in _FFT.items():
        _assert_takes(getattr(extension, name), theirs)


def test_the_namespace_has_every_function_and_nothing_that_is_not_of_the_standard():
    functions = {n for n in namespace.__all__ if inspect.isfunction(getattr(namespace, n))}
    assert functions - {"__array_namespace_info__"} == _FUNCTIONS.keys()
    constants = {"e", "inf", "nan", "newaxis", "pi"}
    dtypes = {n for n in namespace.__all__ if isinstance(getattr(namespace, n), sg.DType)}
    assert set(namespace.__all__) == functions | constants | dtypes
    assert dtypes == {n for n in dir(strict) if n in dtypes}
    assert dtypes == {
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64", "complex64", "complex128"),
    }


def test_a_tensor_has_the_methods_of_the_standard():
    array = type(strict.asarray(1.0))
    for name, theirs in vars(array).items():
        in_place = name.startswith("__i") and name not in ("__invert__", "__index__", "__int__")
        if not inspect.isfunction(theirs) or name in _NOT_OF_TENSORS or in_place:
            continue
        ours = getattr(sg.Tensor, name)
        if name.startswith("_") and not name.startswith("__"):
            continue
        wanted = list(inspect.signature(theirs).parameters.values())
        found = inspect.signature(ours).parameters
        for parameter in wanted:
            if parameter.kind is Parameter.KEYWORD_ONLY:
                assert parameter.name in found, (name, parameter.name)
        assert len(found) >= sum(p.kind is not Parameter.KEYWORD_ONLY for p in wanted)


# A tensor is a value: there is nothing to assign to, and `x += y` is `x = x + y`.
_NOT_OF_TENSORS = {
    *("__setitem__", "__new__", "__buffer__", "__hash__", "__str__", "__repr__", "__init__"),
    *("_check_allowed_dtypes", "_check_device", "_promote_scalar", "_validate_index"),
    *("_normalize_two_args", "_new", "_check_type_device", "__array__", "__sizeof__"),
}
