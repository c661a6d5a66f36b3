"""Checkpoints: what is saved comes back, nothing is half loaded, a kill leaves a whole file."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import symgrad as sg
from tests.support.refusals import assert_refused

DTYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
)
ROOT = Path(__file__).parents[3]


def a_variable(name: str, *values: float) -> sg.Variable:
    return sg.variable(np.array(values, np.float32), name=name)


# ------------------------------------------------------------------------- there and back again


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 1, 3)])
def test_every_dtype_and_shape_comes_back(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    numpy = np.dtype(getattr(ml_dtypes, dtype, dtype))
    value = np.random.default_rng(0).integers(0, 2, shape).astype(numpy)
    v = sg.variable(value, name="v")
    sg.save(tmp_path / "a", v)
    v.value = np.zeros(shape, numpy)
    sg.restore(tmp_path / "a", v)
    np.testing.assert_array_equal(v.value, value, strict=True)


def test_special_values_come_back_to_the_bit(tmp_path: Path) -> None:
    bits = np.array([0x7FC00001, 0xFFC12345, 0x7F800000, 0x80000000, 1], np.uint32)
    v = sg.variable(bits.view(np.float32), name="v")
    sg.save(tmp_path / "a", v)
    v.value = np.zeros(5, np.float32)
    sg.restore(tmp_path / "a", v)
    np.testing.assert_array_equal(v.value.view(np.uint32), bits)


def test_training_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    batches = rng.normal(size=(20, 8, 5)).astype(np.float32)

    def model() -> tuple[sg.Step, list[sg.Variable], sg.optim.Adam]:
        w = sg.variable(np.ones((5, 3), np.float32), name="w")
        x = sg.placeholder((8, 5))
        loss = sg.sum(sg.square(sg.tanh(x @ w)))
        adam = sg.optim.Adam(0.01)
        return sg.compile([x], loss, adam.minimize(loss)), [w], adam

    step, variables, adam = model()
    wanted = [step(batch) for batch in batches]
    first, variables, adam = model()
    got = [first(batch) for batch in batches[:10]]
    sg.save(tmp_path / "a", [variables, adam.state])
    second, variables, adam = model()
    sg.restore(tmp_path / "a", [variables, adam.state])
    got += [second(batch) for batch in batches[10:]]
    np.testing.assert_array_equal(got, wanted)
    assert adam.state["step"].value == 20
    names = {"step", "w", "w/m", "w/v"}
    assert load_file(tmp_path / "a").keys() == names


def test_entries_are_called_like_their_keys_or_their_variables(tmp_path: Path) -> None:
    a, b, c, d = (a_variable(name, 1) for name in "abcd")
    sg.save(tmp_path / "x", [a, {"net": {"bias": b, "layers": [c, d]}}, a])
    assert load_file(tmp_path / "x").keys() == {"a", "net/bias", "net/layers/0", "net/layers/1"}


def test_equal_values_make_equal_files(tmp_path: Path) -> None:
    variables = [a_variable(f"v{i}", i, 2 * i) for i in range(20)]
    sg.save(tmp_path / "x", variables)
    sg.save(tmp_path / "y", variables[::-1])
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_files_of_other_programs_are_read(tmp_path: Path) -> None:
    save_file({"v": np.array([3, 4], np.float32)}, tmp_path / "x", metadata={"format": "pt"})
    v = a_variable("v", 0, 0)
    sg.restore(tmp_path / "x", v)
    np.testing.assert_array_equal(v.value, [3, 4])


def test_entries_nobody_asks_for_can_be_ignored(tmp_path: Path) -> None:
    a, b = a_variable("a", 1), a_variable("b", 2)
    sg.save(tmp_path / "x", [a, b])
    a.value = np.zeros(1, np.float32)
    sg.restore(tmp_path / "x", a, ignore_extra=True)
    assert a.value == 1


def test_a_new_file_has_the_usual_mode_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    sg.save(tmp_path / "x", a_variable("a", 1))
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "plain").stat().st_mode
    )
    (tmp_path / "x").chmod(0o640)
    sg.save(tmp_path / "x", a_variable("a", 2))
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


# ------------------------------------------------------------------------------------- refusals


def saved(folder: Path) -> tuple[Path, list[sg.Variable]]:
    """Return a file, and variables that fit it and have other values since."""
    variables = [a_variable("a", 1, 2, 3), a_variable("b", 4), sg.variable(np.int64(5), name="n")]
    path = folder / "x"
    sg.save(path, variables)
    for v in variables:
        v.value = v.value * 0
    return path, variables


def are_untouched(variables: list[sg.Variable]) -> bool:
    return not any(v.value.any() for v in variables)


def test_a_missing_entry_is_refused(tmp_path: Path) -> None:
    path, (a, b, n) = saved(tmp_path)
    c = a_variable("c", 0)
    assert_refused(lambda: sg.restore(path, [a, b, n, c]), ValueError, f"""
        restore: {path} has no entry for c
          --> <here>
    """)  # fmt: skip
    assert are_untouched([a, b, n, c])


def test_an_extra_entry_is_refused(tmp_path: Path) -> None:
    path, (a, b, n) = saved(tmp_path)
    assert_refused(lambda: sg.restore(path, [a]), sg.CheckpointError, f"""
        restore: {path} has entries that no variable asks for: b, n
          --> <here>
          hint: restore(path, variables, ignore_extra=True) passes over them
    """)  # fmt: skip
    assert are_untouched([a, b, n])


def test_missing_and_extra_entries_are_told_in_one_message(tmp_path: Path) -> None:
    path, (a, _, n) = saved(tmp_path)
    others = [a_variable(name, 0) for name in "cdefgh"]
    assert_refused(lambda: sg.restore(path, [a, n, *others]), sg.CheckpointError, f"""
        restore: {path} has no entry for c, d, e, f and 2 more and has entries that no variable asks for: b
          --> <here>
    """)  # fmt: skip # noqa: E501


def test_an_entry_of_another_shape_is_refused(tmp_path: Path) -> None:
    path, (a, _, n) = saved(tmp_path)
    b = a_variable("b", 0, 0)
    assert_refused(lambda: sg.restore(path, [a, b, n]), sg.CheckpointError, f"""
        restore: {path}: b is float32[1], the variable is float32[2]
          --> <here>
    """)  # fmt: skip
    assert are_untouched([a, b, n])


def test_an_entry_of_another_dtype_is_refused(tmp_path: Path) -> None:
    path, (a, b, _) = saved(tmp_path)
    n = sg.variable(np.float64(0), name="n")
    assert_refused(lambda: sg.restore(path, [a, b, n]), sg.CheckpointError, f"""
        restore: {path}: n is int64[], the variable is float64[]
          --> <here>
    """)  # fmt: skip
    assert are_untouched([a, b, n])


@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_no_flip_of_a_bit_goes_unnoticed(tmp_path: Path, stride: int) -> None:
    """Whatever bit of a file is wrong: an error and nothing loaded, or all the right values."""
    path, variables = saved(tmp_path)
    content = path.read_bytes()
    noticed = 0
    bits = range(0, 8 * len(content), stride)
    for bit in bits:
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            sg.restore(path, variables)
        except sg.CheckpointError:
            noticed += 1
            assert are_untouched(variables)
        else:
            assert [v.value.tolist() for v in variables] == [[1, 2, 3], [4], 5]
            for v in variables:
                v.value = v.value * 0
    # What is left are the metadata's own key and the spaces that pad the header.
    assert noticed > 0.9 * len(bits)


def test_a_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    path, variables = saved(tmp_path)
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(sg.CheckpointError):
            sg.restore(path, variables)
    assert are_untouched(variables)


def test_checksums_that_are_no_table_are_refused(tmp_path: Path) -> None:
    save_file({"v": np.zeros(1, np.float32)}, tmp_path / "x", metadata={"crc32": "[1]"})
    v = a_variable("v", 0)
    assert_refused(lambda: sg.restore(tmp_path / "x", v), sg.CheckpointError, f"""
        restore: {tmp_path}/x is damaged: its checksums are no table
          --> <here>
    """)  # fmt: skip


def test_two_variables_of_one_name_are_refused(tmp_path: Path) -> None:
    a, b = a_variable("a", 1), a_variable("a", 2)
    assert_refused(lambda: sg.save(tmp_path / "x", [a, b]), ValueError, """
        save: two variables are called 'a'
          --> <here>
          hint: hand them over in a mapping from names to variables
    """)  # fmt: skip
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("nest", "names"),
    [
        (lambda a, b: [{"w": a}, {"w": b}], {"0/w", "1/w"}),
        (lambda a, b: ({"w": a}, {"v": b}), {"w", "v"}),
        (lambda a, b: [{"w": a, "v": b}, {"w": a}], {"w", "v"}),
        (lambda a, b: [{"w": [a, b]}], {"w/0", "w/1"}),
        (lambda a, b: [[{"w": a}, {"w": b}]], {"0/w", "1/w"}),
        (lambda a, b: [[{"w": a}], [{"w": b}]], {"0/0/w", "1/0/w"}),
        (lambda a, b: [[a], [b]], {"0/0", "1/0"}),
        (lambda a, b: iter([{"w": a}, {"w": b}]), {"0/w", "1/w"}),
        (lambda a, b: [iter([v]) for v in (a, b)], {"0/0", "1/0"}),
        (lambda a, b: [a, {"w": b}], {"x", "w"}),
        (lambda a, b: {"l": [{"w": a}, {"w": b}]}, {"l/0/w", "l/1/w"}),
    ],
)
def test_nests_of_equal_keys_in_a_list_are_told_apart_by_their_places(
    tmp_path: Path, nest: Any, names: set[str]
) -> None:
    a, b = a_variable("x", 1), a_variable("x", 2)
    sg.save(tmp_path / "x", nest(a, b))
    assert load_file(tmp_path / "x").keys() == names
    for v in (a, b):
        v.value = np.zeros_like(v.value)
    sg.restore(tmp_path / "x", nest(a, b))
    assert [v.value.item() for v in (a, b)] == [1, 2]


def test_what_is_no_variable_is_refused(tmp_path: Path) -> None:
    assert_refused(lambda: sg.save(tmp_path / "x", {"a": 3}), TypeError, """
        save: 3 is no variable
          --> <here>
    """)  # fmt: skip


def test_a_folder_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    a = a_variable("a", 0)
    with pytest.raises(FileNotFoundError):
        sg.save(tmp_path / "no" / "x", a)
    with pytest.raises(FileNotFoundError):
        sg.restore(tmp_path / "x", a)


# ----------------------------------------------------------------------------------- being killed


# Importing takes longer than many saves: one process imports, and forks those that are killed.
FORKING = """
    import os, sys
    import numpy as np
    import symgrad as sg

    def save_forever(path):
        a = sg.variable(np.zeros(200_000, np.float32), name="a")
        b = sg.variable(np.zeros(50_000, np.float64), name="b")
        for i in range(1, 1_000_000):
            a.value = np.full(200_000, i, np.float32)
            b.value = np.full(50_000, -i, np.float64)
            sg.save(path, [a, b])

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            save_forever(line.strip())
        print(child, flush=True)
        os.waitpid(child, 0)
        print("dead", flush=True)
"""


@pytest.mark.parametrize("kills", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_a_process_killed_while_it_saves_leaves_a_whole_file(tmp_path: Path, kills: int) -> None:
    """Kill a process again and again, anywhere in its saves: the file is always of one save."""
    path = tmp_path / "x"
    a = sg.variable(np.zeros(200_000, np.float32), name="a")
    b = sg.variable(np.zeros(50_000, np.float64), name="b")
    rng = np.random.default_rng(0)
    interrupted = 0
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(FORKING)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        for kill in range(10 * kills):
            if kill >= kills and path.exists() and interrupted >= kills / 5:
                break
            print(path, file=parent.stdin, flush=True)
            child = int(parent.stdout.readline())
            # Longer and longer: on a busy machine less is saved in a time.
            time.sleep(rng.uniform(0.005, 0.04 * (1 + kill / kills)))
            os.kill(child, signal.SIGKILL)
            assert parent.stdout.readline() == "dead\n"
            leftovers = list(tmp_path.glob(".x.*.partial"))
            interrupted += len(leftovers)
            for leftover in leftovers:
                shutil.rmtree(leftover)
            if path.exists():
                sg.restore(path, [a, b])
                assert np.unique(a.value).tolist() == (-np.unique(b.value)).tolist() != [0]
        parent.stdin.close()
    assert path.exists()
    assert interrupted >= kills / 5, "kills must hit saves"
