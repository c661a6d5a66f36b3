"""Wrong offsets and another NumPy are found before they do harm: `runtime.entry_layout`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from symgrad.errors import CompileError
from symgrad.runtime import entry_layout
from symgrad.runtime.entry_layout import assumed_layout, verify_layout

LAYOUT_FIELDS = {
    "object_type": "type",
    "array_pointer": "address",
    "array_ndim": "ndim",
    "array_descr": "dtype",
    "array_flags": "flags",
    "array_handler": "memory handler",
    "tuple_items": "place in a tuple",
}


@pytest.mark.parametrize("field", LAYOUT_FIELDS)
def test_a_wrong_offset_is_found(field):
    layout = replace(assumed_layout(), **{field: 0})
    with pytest.raises(CompileError, match=f"does not keep an array's {LAYOUT_FIELDS[field]} "):
        verify_layout(layout)


def test_a_wrong_offset_of_the_shape_is_found():
    layout = assumed_layout()
    strides_for_dims = replace(layout, array_dims=layout.array_dims + 8)
    with pytest.raises(CompileError, match="array's shape where"):
        verify_layout(strides_for_dims)


@pytest.mark.parametrize("field", ["a count of references", "type", "size"])
def test_a_wrong_place_of_items_of_a_list_is_found(field):
    offset = {"a count of references": 0, "type": 8, "size": 16}[field]
    layout = replace(assumed_layout(), list_pointer=offset)
    with pytest.raises(CompileError, match="array's place in a list where"):
        verify_layout(layout)


def test_another_abi_of_numpy_is_refused(monkeypatch):
    monkeypatch.setattr(entry_layout, "_ABI_VERSION", 0x03000000)
    with pytest.raises(CompileError, match="ABI 0x2000000, expected 0x3000000"):
        entry_layout.verified_platform.__wrapped__()
