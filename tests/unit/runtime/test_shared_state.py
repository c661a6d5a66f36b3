"""Variables that threads share: a step, a read, an assignment, a save and a restore are each whole.

Every variable here has equal elements whenever nothing is half done, and all variables the same
ones; so what is torn shows as two values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.whole_copies import copy_whole

SIZE = 3_000_000
rounds = pytest.mark.parametrize("rounds", [3, pytest.param(200, marks=pytest.mark.slow)])
threads = pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])


def two_variables(size: int = SIZE) -> list[sg.Variable]:
    return [sg.variable(np.zeros(size, np.float32), name=name) for name in ("v", "w")]


def counting(variables: list[sg.Variable], threads: int = 1) -> sg.Step:
    """Return a step that adds 1 to all elements."""
    return sg.compile([], (), [(v, v + 1) for v in variables], threads=threads)


def watching(variables: list[sg.Variable]) -> sg.Step:
    """Return a step that gives the extremes of the variables, and writes nothing."""
    extremes = [of(v) for v in variables for of in (sg.min, sg.max)]
    return sg.compile([], sg.stack(extremes))


@contextmanager
def meanwhile(act: Callable[[], Any]) -> Iterator[None]:
    """Do `act` again and again in another thread until the block ends."""
    is_over = threading.Event()
    errors: list[BaseException] = []
    times = 0

    def run() -> None:
        nonlocal times
        try:
            while not is_over.is_set():
                act()
                times += 1
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert not errors, errors
    assert times


def values_in(*arrays: np.ndarray) -> set[float]:
    return {float(of(a)) for a in arrays for of in (np.min, np.max)}


@threads
@rounds
def test_a_read_sees_no_half_of_a_step(rounds, threads):
    v, w = two_variables()
    step = counting([v, w], threads)
    with meanwhile(step):
        torn = [found for _ in range(rounds) if len(found := values_in(v.value)) > 1]
    assert not torn


@rounds
def test_a_step_sees_no_half_of_an_assignment(rounds):
    v = two_variables()[0]
    seen: list[np.ndarray] = []
    watch = watching([v])
    values = [np.full(SIZE, n, np.float32) for n in range(2)]
    with meanwhile(lambda: seen.append(watch())):
        for n in range(rounds * 4):
            v.value = values[n % 2]
    assert all(low == high for low, high in seen)


def test_a_step_sees_no_half_of_an_assignment_that_is_converted():
    v = two_variables()[0]
    seen: list[np.ndarray] = []
    watch = watching([v])
    values = [np.full((SIZE, 2), n, np.float64)[:, 0] for n in range(2)]
    with meanwhile(lambda: seen.append(watch())):
        for n in range(12):
            v.value = values[n % 2]
    assert all(low == high for low, high in seen)


@rounds
def test_a_step_sees_variables_of_a_nest_that_were_set_together(rounds):
    variables = two_variables()
    seen: list[np.ndarray] = []
    watch = watching(variables)
    values = [np.full(SIZE, n, np.float32) for n in range(2)]
    with meanwhile(lambda: seen.append(watch())):
        for n in range(rounds * 2):
            sg.inplace_update(variables, values[n % 2])
    assert all(len(set(found.tolist())) == 1 for found in seen)


@threads
@rounds
def test_a_save_is_of_one_moment_between_steps(rounds, threads, tmp_path):
    # What is saved is written to disk and read back: less of it is torn as easily.
    variables = two_variables(SIZE // 4)
    copies = two_variables(SIZE // 4)
    step = counting(variables, threads)
    path = tmp_path / "saved"
    sg.save(path, variables)
    with meanwhile(step):
        for _ in range(rounds):
            sg.save(path, variables)
            sg.restore(path, copies)
            assert len(values_in(*(copy.value for copy in copies))) == 1


@rounds
def test_a_restore_is_of_one_moment_between_steps(rounds, tmp_path):
    variables = two_variables()
    paths = [tmp_path / "zeros", tmp_path / "ones"]
    for number, path in enumerate(paths):
        sg.inplace_update(variables, np.float32(number))
        sg.save(path, variables)
    seen: list[np.ndarray] = []
    watch = watching(variables)
    with meanwhile(lambda: seen.append(watch())):
        for n in range(rounds):
            sg.restore(paths[n % 2], variables)
    assert all(len(set(found.tolist())) == 1 for found in seen)


def test_a_save_that_fails_leaves_the_old_file(tmp_path):
    path: Path = tmp_path / "saved"
    v = sg.variable(np.ones(3, np.float32), name="v")
    sg.save(path, v)
    before = path.read_bytes()
    with pytest.raises(sg.DTypeError):
        sg.save(path, [v, 3])
    assert path.read_bytes() == before


@rounds
def test_a_library_is_read_and_set_whole(rounds, tmp_path):
    variables = two_variables()
    steps = {"count": counting(variables), "watch": watching(variables)}
    sg.export(steps, tmp_path / "net")
    library = sg.load(tmp_path / "net")
    with meanwhile(library["count"]):
        torn = [found for _ in range(rounds) if len(found := values_in(library.variables["v"])) > 1]
    assert not torn
    seen: list[np.ndarray] = []
    values = [np.full(SIZE, n, np.float32) for n in range(2)]
    with meanwhile(lambda: seen.append(library["watch"]()[:2])):
        for n in range(rounds * 4):
            library.variables["v"] = values[n % 2]
    assert all(low == high for low, high in seen)


def test_an_export_holds_variables_of_one_moment(tmp_path):
    variables = two_variables(SIZE // 10)  # a linker copies them many times
    with meanwhile(counting(variables)):
        sg.export({"watch": watching(variables)}, tmp_path / "net")
    assert len(set(sg.load(tmp_path / "net")["watch"]().tolist())) == 1


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bool", "bfloat16"])
def test_whole_copies_have_every_shape_and_dtype(shape, dtype):
    numpy = sg.variable(0, dtype).value.dtype
    source = np.arange(np.prod(shape)).astype(numpy).reshape(shape)
    first, second = np.zeros_like(source), np.zeros_like(source)
    copy_whole([first], [source])
    np.testing.assert_array_equal(first, source, strict=True)
    copy_whole([second, first], [source, np.zeros_like(source)])
    np.testing.assert_array_equal(second, source, strict=True)
    assert not first.any()
    copy_whole([], [])
