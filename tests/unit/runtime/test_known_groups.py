"""A program lowers and schedules the groups that no program before it has had."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad import compiler
from symgrad.codegen.llvm.alike_kernels import print_alike
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.lower.groups import lower_group
from symgrad.codegen.native import known_groups, known_kernels
from symgrad.codegen.native import machine_code as code_module
from symgrad.codegen.native.object_store import ObjectStore, object_store
from symgrad.codegen.program import lowered_groups
from symgrad.codegen.program.kept_groups import NoTextError, stated_key
from symgrad.config import override
from symgrad.graph.dtypes import float32
from symgrad.graph.node import Tensor
from symgrad.records import replace
from symgrad.runtime import stored_program
from symgrad.runtime.step import Step
from tests.support.new_ops import new_ops

Activation = Callable[[Tensor], Tensor]
WIDTHS = (40, 32, 24, 16, 8)
X = np.linspace(0.1, 1, 3 * WIDTHS[0], dtype=np.float32).reshape(3, -1)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Make a cache of this test alone, in which no program is found as a whole."""
    for name in ("_loaded", "_closed"):
        monkeypatch.setattr(code_module, name, type(getattr(code_module, name))())
    for module in (known_kernels, known_groups):
        monkeypatch.setattr(module, "compiler_version", lambda: "this compiler")
    monkeypatch.setattr(stored_program, "compiler_version", lambda: None)
    monkeypatch.setattr(compiler, "LEAST_KEPT", 1)
    forget()
    with override(cache=True, cache_dir=str(tmp_path), verify=False):
        found = object_store()
        assert found is not None
        yield found
    forget()


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Note the groups that are lowered, but with symbolic sizes."""
    groups: list[Any] = []

    def note(partition: Any, buffers: Any, group: Any, name: str) -> Any:
        is_sized = all(type(n) is int for t in group.outputs for n in t.shape)
        groups.extend([group] if is_sized else [])
        return lower_group(partition, buffers, group, name)

    monkeypatch.setattr(lowered_groups, "lower_group", note)
    return groups


def forget() -> None:
    """Be as a process that has compiled nothing yet."""
    known_groups._kinds.clear()
    code_module._loaded.clear()
    code_module._closed.clear()


def model(*activations: Activation, **options: Any) -> Step:
    """Return a training step of layers of which no two are equal."""
    x = sg.placeholder(X.shape)
    h: Tensor = x
    for number, activation in enumerate(activations):
        shape = WIDTHS[number : number + 2]
        h = activation(h @ sg.variable(np.full(shape, 0.1, np.float32)))
    loss = (h * h).mean()
    return sg.compile([x], loss, updates=sg.optim.SGD(0.1).minimize(loss), opt_level=0, **options)


def text_of(step: Step) -> str:
    return "".join(map(print_kernel, step.executable.program.kernels))


ALL = (sg.tanh, sg.tanh, sg.tanh, sg.tanh)
EDITED = (sg.tanh, sg.exp, sg.tanh, sg.tanh)


def test_of_an_edited_model_the_edited_layer_is_lowered(store, lowered):
    model(*ALL)
    whole = len(lowered)
    lowered.clear()
    forget()
    edited = model(*EDITED)
    # Its product with the activation, and what the gradient is multiplied by on the way back.
    ops = [{node.op for node in group.nodes} for group in lowered]
    assert len(ops) == 2 < whole
    assert all("exp" in found or "multiply" in found for found in ops)
    with override(cache=False):
        alone = model(*EDITED)
    assert text_of(edited) == text_of(alone)
    assert float(edited(X)) == float(alone(X))
    assert float(edited(X)) == float(alone(X))


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_found_is_what_is_made(store, lowered, threads):
    """Of programs with all kinds of kernels, and in a process that has made none."""

    def build() -> Step:
        x, i = sg.placeholder((70, 300)), sg.placeholder((70,), "int64")
        w = sg.variable(np.ones((300, 70), np.float32))
        outputs = [
            sg.exp(x @ w),
            sg.cumsum(x, axis=1),
            sg.sort(x, axis=1),
            sg.searchsorted(x[0], x[1]),
            sg.take(x, i, axis=0),
            sg.concat([x, x * 2.0], axis=1),
            sg.where(x > 0, x, -0.0),
            sg.scan(lambda h, row: (h * 0.5 + row, h), x[0], x)[0],
            x.sum(axis=0),
        ]
        return sg.compile([x, i], outputs, opt_level=0, threads=threads)

    first = text_of(build())
    count = len(lowered)
    lowered.clear()
    forget()
    assert text_of(build()) == first
    assert len(lowered) < count / 2  # those that check an index, or have templates
    with override(cache=False):
        assert text_of(build()) == first


def test_the_text_of_a_kernel_that_is_found_is_known(store, monkeypatch):
    """Unless a pass over the program has made another one of it."""
    model(*ALL)
    forget()
    again = model(*EDITED).executable
    printed, kernels = again.lowered.printed, again.program.kernels
    assert printed
    names = [k.name for k in kernels if k.name in printed and printed[k.name].kernel is k]
    others = [k for k in kernels if k.name not in names]
    plain = known_kernels._text_digests(kernels, {})
    asked: list[Any] = []

    def note(kernels: Any) -> list[str]:
        asked.extend(kernels)
        return print_alike(kernels)

    monkeypatch.setattr(known_kernels, "print_alike", note)
    assert known_kernels._text_digests(kernels, printed) == plain
    assert asked == others
    # As where a pass gives the name of a kernel that is no more to a new one.
    swapped = [replace(k, name=name) for k, name in zip(kernels, reversed(names), strict=False)]
    expected = known_kernels._text_digests(swapped, {})
    assert known_kernels._text_digests(swapped, printed) == expected


def test_targets_threads_and_compilers_have_their_own(store, lowered, monkeypatch):
    model(*ALL)
    count = len(lowered)
    for options in ({"threads": 2}, {"target": "x86-64-v2"}):
        lowered.clear()
        model(*ALL, **options)
        assert len(lowered) == count
    lowered.clear()
    model(*ALL, name="again", cache=False)
    assert len(lowered) == count
    monkeypatch.setattr(known_groups, "compiler_version", lambda: "another compiler")
    lowered.clear()
    model(*EDITED)
    assert len(lowered) == count
    monkeypatch.setattr(known_groups, "compiler_version", lambda: None)
    lowered.clear()
    model(*EDITED)
    assert len(lowered) == count


def test_groups_are_lowered_where_passes_are_verified_or_watched(store, lowered):
    model(*ALL)
    count = len(lowered)
    lowered.clear()
    with override(verify=True):
        model(*EDITED)
    assert len(lowered) == count


def test_damaged_entries_are_made_anew(store, lowered):
    first = text_of(model(*ALL))
    count = len(lowered)
    entries = [path for path, _ in store.entries() if path.suffix == ".groups"]
    assert entries
    for path in entries:
        whole = path.read_bytes()
        for damaged in (whole[: len(whole) // 2], b"", os.urandom(500), whole[:-1] + b"?"):
            path.write_bytes(damaged)
            for expected in (range(1, count + 1), range(1)):
                forget()
                lowered.clear()
                assert text_of(model(*ALL)) == first
                assert len(lowered) in expected


def test_an_entry_that_has_got_long_is_begun_anew(store, lowered, monkeypatch):
    monkeypatch.setattr(known_groups, "_MAX_KEPT", 4)

    def build(n: int) -> Step:
        x = sg.placeholder((3, n))
        return sg.compile([x], sg.cumsum(sg.tanh(x), axis=1), opt_level=0, name=f"s{n}")

    for n in range(20, 30):
        build(n)
    assert len(lowered) == 10
    forget()
    for n in range(20, 30):
        step = build(n)
        np.testing.assert_allclose(step(np.zeros((3, n), np.float32)), 0)
    assert 10 < len(lowered) <= 20


def test_entries_of_a_process_are_written_when_they_have_doubled(store, monkeypatch):
    written: list[str] = []
    write = store.write

    def note(key: Any, payload: bytes) -> bool:
        written.extend([key.kind] if key.kind == "groups" else [])
        is_kept: bool = write(key, payload)
        return is_kept

    monkeypatch.setattr(ObjectStore, "write", lambda _, key, payload: note(key, payload))
    for n in range(20, 36):
        x = sg.placeholder((3, n))
        sg.compile([x], sg.cumsum(sg.tanh(x), axis=1), opt_level=0)
    assert len(written) == 5  # with 1, 2, 4, 8 and 16 groups


def test_of_a_program_with_unknown_sizes_no_groups_are_kept(store, lowered):
    x = sg.placeholder((None, 24))
    step = sg.compile([x], sg.cumsum(sg.tanh(x), axis=1), opt_level=0)
    for n in (20, 21):
        np.testing.assert_allclose(step(np.zeros((n, 24), np.float32)), 0)
    assert len(lowered) == 2
    assert not any(path.suffix == ".groups" for path, _ in store.entries())


def test_of_a_program_with_few_groups_none_are_kept(store, lowered, monkeypatch):
    monkeypatch.setattr(compiler, "LEAST_KEPT", 4)
    x = sg.placeholder((8, 30))
    for turn in range(2):
        lowered.clear()
        forget()
        sg.compile([x], sg.cumsum(sg.tanh(x), axis=1), opt_level=0, name=f"s{turn}")
        assert lowered


def test_keys_state_all_or_have_no_text():
    texts = [stated_key(key) for key in (1, True, "1", b"1", None, (1,), ("1",), float32, float)]
    assert len(set(texts)) == len(texts)
    with pytest.raises(NoTextError):
        stated_key((1, object()))


def test_ops_that_are_not_symgrads_own_are_lowered(store, lowered):
    with new_ops() as ops:
        for _ in range(2):
            x = sg.placeholder((3, 20))
            lowered.clear()
            sg.compile([x], ops.step(x, x), opt_level=0)
            assert len(lowered) == 1
            forget()
