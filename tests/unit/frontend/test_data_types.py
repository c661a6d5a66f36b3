"""Limits of dtypes, kinds of dtypes, and what the namespace says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.frontend import namespace
from symgrad.graph import dtypes

X = sg.placeholder((2,), "float64")


@pytest.mark.parametrize("dtype", [sg.float16, sg.float32, sg.float64], ids=str)
def test_limits_of_a_float_are_numpys(dtype):
    found, wanted = sg.finfo(dtype), np.finfo(dtype.numpy)
    assert found.dtype is dtype
    assert found.bits == wanted.bits
    for name in ("eps", "max", "min", "smallest_normal"):
        assert type(getattr(found, name)) is float
        assert getattr(found, name) == getattr(wanted, name)


def test_limits_of_bfloat16():
    found = sg.finfo(sg.bfloat16)
    assert (found.bits, found.eps, found.smallest_normal) == (16, 2.0**-7, 2.0**-126)
    assert found.max == -found.min == (2 - 2.0**-7) * 2.0**127


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d.is_integer], ids=str)
def test_limits_of_an_integer_are_numpys(dtype):
    found, wanted = sg.iinfo(dtype), np.iinfo(dtype.numpy)
    assert (found.bits, found.min, found.max) == (wanted.bits, wanted.min, wanted.max)
    assert found.dtype is dtype
    assert type(found.max) is type(found.min) is int


def test_limits_are_asked_of_tensors_too():
    assert sg.finfo(X) == sg.finfo("float64")
    assert sg.iinfo(sg.arange(2)) == sg.iinfo(np.int64)
    for call, text in (
        (lambda: sg.finfo("int8"), "finfo: int8 is no float"),
        (lambda: sg.iinfo(X), "iinfo: float64 is no integer"),
        (lambda: sg.finfo("bool"), "finfo: bool is no float"),
    ):
        with pytest.raises(sg.DTypeError, match=text):
            call()


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("bool", "bool"),
        ("signed integer", "int8 int16 int32 int64"),
        ("unsigned integer", "uint8 uint16 uint32 uint64"),
        ("integral", "int8 int16 int32 int64 uint8 uint16 uint32 uint64"),
        ("real floating", "float16 bfloat16 float32 float64"),
        ("complex floating", "complex64 complex128"),
        (("bool", sg.int8, "real floating"), "bool int8 float16 bfloat16 float32 float64"),
        ("float32", "float32"),
        (np.int8, "int8"),
        ((), ""),
    ],
)
def test_a_dtype_is_of_its_kinds(kind, members):
    assert {d.name for d in dtypes.ALL if sg.isdtype(d, kind)} == set(members.split())


def test_what_is_no_kind_is_refused():
    with pytest.raises(sg.GraphError, match="isdtype: 'floating' is no dtype and none of bool"):
        sg.isdtype("int8", "floating")
    with pytest.raises(sg.GraphError, match="dtypes: 'no kind' is no dtype"):
        sg.__array_namespace_info__().dtypes(kind="no kind")


def test_tensors_dtypes_and_numbers_promote_together():
    assert sg.result_type(sg.placeholder((), "int8"), "uint8", 3, np.int16(1)) == "int16"
    assert sg.result_type(sg.placeholder(("n",)).shape[0], "int8") == "int64"
    assert sg.result_type("bool", 1) == "int32"  # as a constant
    assert sg.can_cast(X, "float64")
    assert not sg.can_cast(X, "float32")
    with pytest.raises(sg.DTypeError, match="there is no dtype and no tensor among"):
        sg.result_type(1, 2.0)
    with pytest.raises(sg.DTypeError, match="result_type: int8 and uint64 have no common dtype"):
        sg.result_type("int8", sg.uint64)


def test_the_namespace_tells_what_it_can_do():
    info = sg.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": False,
        "data-dependent shapes": False,
        "max dimensions": 64,
    }
    assert info.devices() == (info.default_device(),) == ("cpu",)
    assert info.dtypes(kind="signed integer").keys() == {"int8", "int16", "int32", "int64"}
    assert info.dtypes(kind=("bool", "real floating")) == {
        "bool": sg.bool,
        "float32": sg.float32,
        "float64": sg.float64,
    }
    assert len(info.dtypes(device="cpu")) == 13
    assert sg.__array_api_version__ == namespace.__array_api_version__ == "2025.12"


def test_there_is_one_device():
    assert X.device == "cpu"
    assert X.to_device("cpu") is X
    calls: list[Any] = [
        lambda: X.to_device("gpu"),
        lambda: sg.zeros(2, device="gpu"),
        lambda: sg.full_like(X, 1, device="gpu"),
        lambda: sg.arange(2, device="gpu"),
        lambda: sg.linspace(0, 1, 2, device="gpu"),
        lambda: sg.eye(2, device="gpu"),
        lambda: sg.asarray(1, device="gpu"),
        lambda: sg.astype(X, "int8", device="gpu"),
        lambda: sg.from_dlpack(np.ones(2), device="gpu"),
        lambda: sg.__array_namespace_info__().default_dtypes(device="gpu"),
    ]
    for call in calls:
        with pytest.raises(sg.GraphError, match="device 'gpu' is not 'cpu', the only one there is"):
            call()
    assert sg.zeros(2, device="cpu").shape == (2,)


def test_shapes_broadcast_without_tensors():
    n = sg.placeholder(("n",)).shape[0]
    assert sg.broadcast_shapes() == ()
    assert sg.broadcast_shapes((n, 1), (3,), ()) == (n, 3)
    with pytest.raises(sg.ShapeError, match="broadcast_shapes: shapes do not broadcast: 2 in axis"):
        sg.broadcast_shapes((2,), (3,))
    nothing: Any = (None,)
    with pytest.raises(sg.DTypeError, match="broadcast_shapes: None is no size"):
        sg.broadcast_shapes(nothing)
