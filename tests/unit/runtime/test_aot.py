"""Exporting: which files there are, what is in them, and that all or none of them are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.target import target_named
from symgrad.runtime.aot_header import c_type, print_header
from symgrad.runtime.aot_manifest import nest_from_json, print_manifest
from symgrad.runtime.host import required_features
from tests.unit.codegen.test_abi import make_graphs, plan


def make_step() -> sg.Step:
    x = sg.placeholder((2, 3), name="scope/x")
    w = sg.variable(np.ones((2, 3), np.float32), name="w")
    return sg.compile([x], {"sum": sg.sum(x * w), "all": x > w}, [(w, w + x)], name="step")


def test_each_format_is_a_file_and_a_library_has_a_manifest(tmp_path):
    step = make_step()
    assert [p.name for p in step.export(tmp_path / "a")] == ["a.so", "a.o", "a.h", "a.json"]
    assert [p.name for p in step.export(tmp_path / "b", formats=["h"])] == ["b.h"]
    assert [p.name for p in step.export(str(tmp_path / "c"), formats=["so"])] == ["c.so", "c.json"]
    names = {"a.so", "a.o", "a.h", "a.json", "b.h", "c.so", "c.json"}
    assert {p.name for p in tmp_path.iterdir()} == names


def test_exports_of_one_program_are_equal(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        make_step().export(tmp_path / name / "net")
    for suffix in (".so", ".o", ".h", ".json"):
        first, second = (tmp_path / name / f"net{suffix}" for name in ("a", "b"))
        assert first.read_bytes() == second.read_bytes(), suffix


def test_what_was_there_stays_if_an_export_fails(tmp_path, monkeypatch):
    make_step().export(tmp_path / "net")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(sg.CompileError):
        make_step().export(tmp_path / "net")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_initial_zeros_take_no_room(tmp_path):
    sizes = []
    for value in (0, 1):
        w = sg.variable(np.full(100_000, value, np.float32), name="w")
        step = sg.compile([], sg.sum(w), name="total")
        (image,) = step.export(tmp_path / "total", formats=["o"])
        sizes.append(image.stat().st_size)
    assert sizes[0] < 20_000
    assert sizes[1] > 400_000


def test_minus_zero_is_no_zero(tmp_path):
    w = sg.variable(np.array([-0.0], np.float32), name="w")
    sg.compile([], w + w, name="twice").export(tmp_path / "twice")
    assert np.signbit(sg.load(tmp_path / "twice").variables["w"]).all()


def test_an_instance_begins_with_the_values_at_the_time_of_the_export(tmp_path):
    step = make_step()
    ones = np.ones((2, 3), np.float32)
    step(ones)
    step.export(tmp_path / "net")
    step(ones)
    library = sg.load(tmp_path / "net")
    assert library.variables["w"][0, 0] == 2
    assert library(ones) == {"sum": 12.0, "all": pytest.approx(np.zeros((2, 3), bool))}


def test_a_constant_that_steps_share_is_embedded_once(tmp_path):
    x = sg.placeholder((100_000,), name="x")
    table = np.random.default_rng(0).normal(size=100_000).astype(np.float32)
    steps = {f"s{i}": sg.compile([x], x * sg.constant(table) + i) for i in range(3)}
    image = sg.export(steps, tmp_path / "net", formats=["o"])[0].read_bytes()
    assert image.count(table[:1000].tobytes()) == 1


def test_empty_tensors_and_steps_without_outputs(tmp_path):
    x = sg.placeholder((0, 3), name="x")
    v = sg.variable(np.zeros((0,), np.float32), name="v")
    n = sg.variable(np.zeros((), np.int64), name="n")
    steps = {
        "empty": sg.compile([x], [sg.sum(x, axis=0), x + 1, v + 1]),
        "count": sg.compile([], [], [(n, n + 1)]),
    }
    sg.export(steps, tmp_path / "net")
    library = sg.load(tmp_path / "net")
    sums, same, none = library["empty"](np.zeros((0, 3), np.float32))
    assert np.array_equal(sums, np.zeros(3))
    assert same.shape == (0, 3)
    assert none.shape == library.variables["v"].shape == (0,)
    assert library["count"]() == []
    assert library.variables["n"] == 1
    library.restore(library.save())


def test_the_header_says_shape_dtype_and_name_of_everything(tmp_path):
    (header,) = make_step().export(tmp_path / "net", formats=["h"])
    text = header.read_text()
    assert "takes scope_x (scope/x): f32[2, 3]" in text
    assert "gives output0: bool[2, 3], 0 or 1" in text
    assert "gives output1: f32[]" in text
    assert "0 w: f32[2, 3]" in text
    declared = "int32_t net_step(net_instance *self, const float *scope_x, uint8_t *output0, "
    assert f"{declared}float *output1);" in text


def test_no_name_ends_a_comment_of_the_header():
    interface = plan(*make_graphs(), messages={1: "*/ int main; \\"})
    opened = print_header(interface).split("/*")[1:]
    assert all(part.count("*/") == 1 for part in opened)
    assert "int main" in print_header(interface)


def test_types_in_c():
    names = {d: c_type(d) for d in (sg.float32, sg.bfloat16, sg.float16, sg.bool, sg.uint8)}
    assert list(names.values()) == ["float", "uint16_t", "uint16_t", "uint8_t", "uint8_t"]
    assert c_type(sg.int64) == "int64_t"


@pytest.mark.parametrize("nest", [[], {"a": (1, [2, None])}, [(), {}, 0], 0])
def test_nests_are_read_as_they_were_written(nest, tmp_path):
    x = sg.placeholder((2,), name="x")
    tensors = {0: x, 1: x + 1, 2: x + 2}
    outputs = _replaced(nest, tensors)
    sg.compile([x], outputs, name="net").export(tmp_path / "net")
    manifest = json.loads((tmp_path / "net.json").read_text())["manifest"]
    found = nest_from_json(manifest["steps"][0]["output_nest"])
    result = sg.load(tmp_path / "net")(np.zeros(2, np.float32))
    assert found.num_leaves == len(manifest["steps"][0]["outputs"])
    assert _replaced(nest, {k: k for k in tensors}) == _rounded(result)


def _replaced(nest: Any, values: Mapping[int, Any]) -> Any:
    """Return `nest` with its numbers replaced as `values` says."""
    match nest:
        case None:
            return None
        case dict():
            return {key: _replaced(child, values) for key, child in nest.items()}
        case list() | tuple():
            return type(nest)(_replaced(child, values) for child in nest)
        case _:
            return values[nest]


def _rounded(result: Any) -> Any:
    """Return a nest of arrays, each of equal elements, as one of numbers."""
    match result:
        case None:
            return None
        case dict():
            return {key: _rounded(child) for key, child in result.items()}
        case list() | tuple():
            return type(result)(_rounded(child) for child in result)
        case _:
            assert len(set(result.tolist())) == 1
            return int(result[0])


def test_the_manifest_has_one_form_only():
    text = print_manifest({"a": [1, 2]})
    assert json.loads(text)["manifest"] == {"a": [1, 2]}
    assert print_manifest(json.loads(text)["manifest"]) == text


def test_levels_need_what_the_levels_below_need():
    features = [set(required_features(target_named(f"x86-64-v{n}"))) for n in (2, 3, 4)]
    assert features[0] < features[1] < features[2]
    assert {"sse4.2", "popcnt"} <= features[0]
    assert required_features(target_named("x86-64")) == []
    assert required_features(target_named("aarch64")) == []
