"""Exported libraries in Python: they compute what the step computes, and refuse what is altered."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

import symgrad as sg
from symgrad.runtime.aot_manifest import print_manifest
from tests.support.c_programs import ARM, needs, values_of, values_of_state

ROOT = Path(__file__).resolve().parents[3]


def make_steps(opt_level: int = 1) -> dict[str, sg.Step]:
    rng = np.random.default_rng(3)
    w = sg.variable(rng.normal(0, 0.3, (6, 4)).astype(np.float32), name="w")
    b = sg.variable(np.zeros(4, np.float32), name="b")
    x = sg.placeholder((5, 6), name="x")
    labels = sg.placeholder((5,), "int64", name="labels")
    logits = sg.tanh(x) @ w + b
    loss = sg.nn.cross_entropy(logits, labels)
    updates = sg.optim.Adam(0.05).minimize(loss)
    rows = sg.placeholder(("n", 6), name="rows")
    return {
        "train": sg.compile([{"x": x, "y": labels}], {"loss": loss}, updates, opt_level=opt_level),
        "predict": sg.compile([rows], sg.tanh(rows) @ w + b, opt_level=opt_level),
    }


@pytest.fixture(scope="module")
def steps() -> dict[str, sg.Step]:
    return make_steps()


@pytest.fixture(scope="module")
def exported(steps: dict[str, sg.Step], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "net"
    sg.export(steps, path, sizes={"predict": {"n": 3}})
    return path


def batches(count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(4)
    return [
        {"x": rng.normal(size=(5, 6)).astype(np.float32), "y": rng.integers(0, 4, 5)}
        for _ in range(count)
    ]


def test_a_library_computes_the_bits_of_its_steps(tmp_path):
    steps = make_steps()
    sg.export(steps, tmp_path / "net", sizes={"predict": {"n": 3}})
    library = sg.load(tmp_path / "net")
    rows = np.random.default_rng(5).normal(size=(3, 6)).astype(np.float32)
    for batch in batches(100):
        wanted, found = steps["train"](batch), library["train"](batch)
        assert wanted["loss"].tobytes() == found["loss"].tobytes()
    assert library["predict"](rows).tobytes() == steps["predict"](rows).tobytes()
    variables = steps["train"].graph.variables
    assert list(library.variables) == [v.name for v in variables]
    assert values_of_state(library.save()) == values_of(variables)


def test_two_libraries_of_one_file_have_variables_of_their_own(exported):
    first, second = sg.load(exported), sg.load(exported.with_suffix(".so"))
    before = second.variables["w"]
    first["train"](batches(1)[0])
    assert not np.array_equal(first.variables["w"], before)
    assert np.array_equal(second.variables["w"], before)


def test_variables_are_copies_and_take_values(exported):
    library = sg.load(exported)
    value = library.variables["b"]
    value += 7
    assert not library.variables["b"].any()
    library.variables["b"] = value
    assert np.array_equal(library.variables["b"], value)
    with pytest.raises(sg.ShapeError, match=r"variable b: shape \(3,\)"):
        library.variables["b"] = np.zeros(3, np.float32)
    with pytest.raises(sg.DTypeError, match="variable b: complex128"):
        library.variables["b"] = np.zeros(4, np.complex128)
    with pytest.raises(KeyError):
        library.variables["c"] = value
    with pytest.raises(sg.GraphError, match="variable b cannot be deleted"):
        del library.variables["b"]
    assert np.array_equal(library.variables["b"], value)


def test_a_saved_state_is_restored_and_another_is_refused(exported):
    library = sg.load(exported)
    start = library.save()
    library["train"](batches(1)[0])
    trained = library.save()
    library.restore(start)
    assert library.save() == start
    heads = [trained[:i] + bytes([trained[i] ^ 4]) + trained[i + 1 :] for i in range(41)]
    for other in (*heads, *alterations(trained, 200, seed=1), b"", trained[:-8]):
        with pytest.raises(sg.LoadError):
            library.restore(other)
    assert library.save() == start


def test_results_go_into_the_arrays_of_out(exported):
    library = sg.load(exported)
    into = np.empty((3, 4), np.float32)
    rows = np.ones((3, 6), np.float32)
    assert library["predict"](rows, out=into) is into
    assert np.array_equal(into, library["predict"](rows))
    overlapping = np.ones((6, 6), np.float32)
    library["predict"](overlapping[:3], out=overlapping[1:4, :4])
    assert np.array_equal(overlapping[1:4, :4], into)
    with pytest.raises(sg.DTypeError, match="out 0: float64"):
        library["predict"](rows, out=np.empty((3, 4)))


def test_wrong_arguments_are_said_as_a_compiled_step_says_them(exported):
    library = sg.load(exported)
    with pytest.raises(sg.ShapeError, match=r"shape \[4, 6\] was given, \[3, 6\] is needed"):
        library["predict"](np.ones((4, 6), np.float32))
    with pytest.raises(sg.GraphError, match="the inputs are"):
        library["train"](np.ones((5, 6), np.float32))
    with pytest.raises(sg.GraphError, match="one of 2 steps has to be chosen: train, predict"):
        library(np.ones((3, 6), np.float32))


def test_an_index_out_of_range_names_the_op_and_the_line_and_changes_nothing(exported):
    library = sg.load(exported)
    before = library.save()
    batch = batches(1)[0]
    with pytest.raises(sg.IndexOutOfRangeError, match="index 9 is out of range") as raised:
        library["train"]({"x": batch["x"], "y": np.full(5, 9)})
    assert "test_library.py" in str(raised.value)
    assert library.save() == before


def test_what_is_exported_again_under_its_name_is_loaded_anew(tmp_path):
    x = sg.placeholder((2,), name="x")
    loaded = []
    for factor in (2.0, 3.0):
        sg.compile([x], x * factor, name="scale").export(tmp_path / "scale")
        loaded.append(sg.load(tmp_path / "scale"))
    ones = np.ones(2, np.float32)
    assert [float(library(ones)[0]) for library in loaded] == [2.0, 3.0]


def test_threads_that_use_one_library_take_turns(tmp_path):
    v = sg.variable(np.zeros(4_000_000, np.float32), name="v")
    sg.compile([], [], [(v, v + 1.0)], name="count").export(tmp_path / "count")
    library = sg.load(tmp_path / "count")

    def count() -> None:
        for _ in range(20):
            library()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (library.variables["v"] == 80).all()


def test_a_library_is_gone_with_its_last_step(exported):
    library = sg.load(exported)
    known, predict = weakref.ref(library), library["predict"]
    del library
    gc.collect()
    assert known() is not None
    assert predict(np.ones((3, 6), np.float32)).shape == (3, 4)
    del predict
    gc.collect()
    assert known() is None


@pytest.mark.parametrize(
    ("target", "feature"),
    [("x86-64-v2", "sse4.2"), ("x86-64-v3", "avx2"), ("x86-64-v4", "avx512vl")],
)
def test_a_level_is_loaded_where_the_cpu_has_it(target, feature, tmp_path):
    x = sg.placeholder((40,), name="x")
    sg.compile([x], x * 2.0, name="net").export(tmp_path / "net", target=target)
    if llvm.get_host_cpu_features().get(feature, False):
        twice = sg.load(tmp_path / "net")(np.ones(40, np.float32))
        assert (twice == 2).all()
    else:
        with pytest.raises(sg.LoadError, match=f"this CPU lacks .*{feature}"):
            sg.load(tmp_path / "net")


# ------------------------------------------------------------------------ altered artifacts


def copy_of(exported: Path, folder: Path) -> Path:
    for suffix in (".so", ".json"):
        source = exported.with_suffix(suffix)
        (folder / source.name).write_bytes(source.read_bytes())
    return folder / exported.name


def alterations(content: bytes, count: int, seed: int) -> list[bytes]:
    """Return `content` with a bit flipped, cut off, or longer; each different from it."""
    chooser = random.Random(seed)
    altered = []
    for number in range(count):
        place = chooser.randrange(len(content))
        if number % 4 == 0:
            altered.append(content[:place])
        elif number % 20 == 1:
            altered.append(content + bytes(1 + place))
        else:
            bit = 1 << chooser.randrange(8)
            altered.append(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
    return altered


@pytest.mark.parametrize("suffix", [".so", ".json"])
def test_what_was_altered_is_refused_before_it_runs(suffix, exported, tmp_path):
    path = copy_of(exported, tmp_path)
    content = exported.with_suffix(suffix).read_bytes()
    for altered in alterations(content, 100, seed=len(suffix)):
        assert altered != content
        path.with_suffix(suffix).write_bytes(altered)
        with pytest.raises(sg.LoadError):
            sg.load(path)
    path.with_suffix(suffix).write_bytes(content)
    assert sg.load(path).variables["b"].shape == (4,)


@pytest.mark.parametrize("suffix", [".so", ".json"])
def test_what_is_missing_is_said(suffix, exported, tmp_path):
    path = copy_of(exported, tmp_path)
    path.with_suffix(suffix).unlink()
    with pytest.raises(sg.LoadError, match=f"load net{suffix}: .* cannot be read: No such file"):
        sg.load(path)


CHANGES = {
    "format": (1, "version 1 of format, 6 is needed"),
    "abi": (99, "version 99 of abi, 1 is needed"),
    "state": (0, "version 0 of state, 1 is needed"),
    "architecture": ("sparc", "made for sparc, this machine is x86_64"),
    "features": (["amx-nothing"], "made for native, this CPU lacks amx-nothing"),
    "library": ({"bytes": 1, "sha256": ""}, "bytes, 1 were written"),
}


@pytest.mark.parametrize("entry", CHANGES)
def test_another_version_or_machine_is_refused(entry, exported, tmp_path):
    path = copy_of(exported, tmp_path)
    manifest = json.loads(path.with_suffix(".json").read_text())["manifest"]
    value, message = CHANGES[entry]
    path.with_suffix(".json").write_text(print_manifest({**manifest, entry: value}))
    with pytest.raises(sg.LoadError, match=message):
        sg.load(path)


@needs(ARM.compiler)
def test_a_library_for_another_architecture_is_refused(tmp_path):
    x = sg.placeholder((2,), name="x")
    sg.compile([x], x + 1, name="next").export(tmp_path / "next", target="aarch64")
    with pytest.raises(sg.LoadError, match="made for aarch64, this machine is x86_64"):
        sg.load(tmp_path / "next")


def test_a_cpu_of_another_level_is_refused(exported, monkeypatch):
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: {"sse2": True})
    with pytest.raises(sg.LoadError, match="this CPU lacks "):
        sg.load(exported)


def test_a_library_outlives_the_process_that_made_it(exported, tmp_path):
    program = (
        "import sys, numpy as np, symgrad as sg\n"
        "library = sg.load(sys.argv[1])\n"
        "print(library['predict'](np.ones((3, 6), np.float32)).tobytes().hex())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(exported)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    wanted = sg.load(exported)["predict"](np.ones((3, 6), np.float32))
    assert done.stdout.strip() == wanted.tobytes().hex()
