"""Files that mean harm, and what is no file: `restore` refuses them in one way, and ends."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import symgrad as sg
from tests.support.mutants import mutants_of

_ENTRY = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
_CRC = {"crc32": '{"w": "ecbb4b55"}'}


def _variable() -> sg.Variable:
    return sg.variable(np.ones(4, np.float32), name="w")


def _file(path: Path, header: str | bytes, content: bytes = bytes(16)) -> Path:
    raw = header.encode() if isinstance(header, str) else header
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + content)
    return path


def _refusal(path: str | Path) -> str:
    """Return what `restore` says of a file, having checked that the variable is as it was."""
    variable = _variable()
    with pytest.raises(sg.CheckpointError) as caught:
        sg.restore(path, variable)
    np.testing.assert_array_equal(variable.value, np.ones(4, np.float32))
    return str(caught.value)


_UNKNOWN = {
    "F8_E4M3": 4, "F8_E5M2": 4, "F8_E8M0": 4, "F8_E4M3FNUZ": 4, "F8_E5M2FNUZ": 4, "F4": 2,
    "F6_E2M3": 3, "F6_E3M2": 3,
}  # fmt: skip


@pytest.mark.parametrize("dtype", _UNKNOWN)
def test_a_dtype_that_no_variable_has_is_refused(dtype, tmp_path):
    size = _UNKNOWN[dtype]
    header = {"w": {"dtype": dtype, "shape": [4], "data_offsets": [0, size]}}
    path = _file(tmp_path / "f", json.dumps(header), bytes(size))
    assert f"w is {dtype}[4], the variable is float32[4]" in _refusal(path)


@pytest.mark.parametrize(
    "shape", [[0, 2**63 - 1], [0, 2**62, 2**62], [1] * 100], ids=["long", "larger", "many axes"]
)
def test_a_shape_that_no_array_has_is_refused(shape, tmp_path):
    size = 4 if 0 not in shape else 0
    header = {"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}}
    path = _file(tmp_path / "f", json.dumps(header), bytes(size))
    assert f"w is float32{shape}, the variable is float32[4]" in _refusal(path)


@pytest.mark.parametrize(
    "checksums", ["[" * 100_000, '{"w":' * 100_000, "1" * 10_000, "NaN", "[1]", '"\\ud800"']
)
def test_checksums_that_are_no_table_are_refused(checksums, tmp_path):
    header = {"__metadata__": {"crc32": checksums}, "w": _ENTRY}
    path = _file(tmp_path / "f", json.dumps(header))
    assert "its checksums are no table" in _refusal(path)


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"\xed\xa0\x80": ' + json.dumps(_ENTRY).encode() + b"}",
        b'{"\\ud800": ' + json.dumps(_ENTRY).encode() + b"}",
        b'{"__metadata__": {"crc32": "\\ud800"}}',
    ],
    ids=["lists", "tables", "surrogate", "escaped surrogate", "surrogate in the metadata"],
)
def test_a_header_that_is_no_header_is_refused(header, tmp_path):
    assert "is damaged or no safetensors file" in _refusal(_file(tmp_path / "f", header))


_HEADERS = [
    json.dumps({"__metadata__": _CRC, "w": _ENTRY}),
    json.dumps({"w": _ENTRY}),
    json.dumps({"v": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}, "w": _ENTRY}),
]


@given(mutants_of(_HEADERS))
def test_a_changed_header_is_read_or_refused(tmp_path_factory, header):
    path = tmp_path_factory.getbasetemp() / "changed"
    raw = header.encode("utf-8", "surrogatepass")
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(16))
    variable = _variable()
    try:
        sg.restore(path, variable, ignore_extra=True)
    except sg.CheckpointError:
        np.testing.assert_array_equal(variable.value, np.ones(4, np.float32))
    else:
        np.testing.assert_array_equal(variable.value, np.zeros(4, np.float32))


def _pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (_pipe, "a pipe"),
        (lambda path: path.parent, "a directory"),
        (lambda _: Path("/dev/zero"), "a device"),
        (lambda _: "a\0b", "the name of no file"),
        (lambda _: "a\udc80b", "the name of no file"),
    ],
)
def test_what_is_no_file_is_neither_read_nor_written(make: Any, kind: str, tmp_path: Path) -> None:
    path = make(tmp_path / "f")
    assert kind in _refusal(path)
    with pytest.raises(sg.CheckpointError, match=kind):
        sg.save(path, _variable())
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "f"])


@pytest.mark.parametrize("name", ["\ud800", "w/\udfff", "__metadata__"])
def test_a_name_that_the_format_does_not_allow_is_refused(name, tmp_path):
    for refuse in (sg.save, sg.restore):
        with pytest.raises(sg.CheckpointError, match="no entry can have the name"):
            refuse(tmp_path / "f", {name: _variable()})
    assert not list(tmp_path.iterdir())
