"""Objects that other compilations find: shared by kernel, right or made anew, and never needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.__main__ import main
from symgrad.codegen.native import known_kernels, objects
from symgrad.codegen.native import machine_code as code_module
from symgrad.codegen.native.object_store import EntryKey, ObjectStore, object_store
from symgrad.codegen.target import Target, target_named
from symgrad.compiler import emit_linkable
from symgrad.config import override
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array
from symgrad.runtime.step import Step

Activation = Callable[[Tensor], Tensor]

X = np.linspace(0.1, 1, 24, dtype=np.float32).reshape(3, 8)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Make a cache of this test alone, when what all steps of a process share is made already."""
    for target in ("native", "x86-64-v2"):
        layers(sg.tanh, target=target)
    for name in ("_loaded", "_leaves", "_closed"):
        monkeypatch.setattr(code_module, name, type(getattr(code_module, name))())
    monkeypatch.setattr(known_kernels, "compiler_version", lambda: "this compiler")
    with override(cache=True, cache_dir=str(tmp_path)):
        found = object_store()
        assert found is not None
        yield found


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the texts of kernels that LLVM is given."""
    texts: list[str] = []
    compile_object = objects.compile_object

    def note(text: str, target: Target, opt_level: int) -> bytes:
        texts.extend([text] if '@"k.' in text else [])
        return compile_object(text, target, opt_level)

    monkeypatch.setattr(objects, "compile_object", note)
    monkeypatch.setattr(code_module, "compile_module", objects.compile_module)
    return texts


def forget() -> None:
    """Be as a process that has compiled nothing yet."""
    code_module._loaded.clear()
    code_module._leaves.clear()
    code_module._closed.clear()


def layers(*activations: Activation, **options: Any) -> Step:
    x = sg.placeholder(X.shape)
    h: Tensor = x
    for number, activation in enumerate(activations):
        h = activation(h @ sg.variable(np.full((8, 8), 0.1 * (number + 1), np.float32)))
    return sg.compile([x], h, opt_level=1, **options)


def expected(*activations: Callable[[Array], Array]) -> Array:
    h = X.astype(np.float64)
    for number, activation in enumerate(activations):
        h = activation(h @ np.full((8, 8), 0.1 * (number + 1)))
    return h


def check(*names: str, **options: Any) -> None:
    """Compile layers anew, as a new process would, and compare what they compute."""
    forget()
    found = layers(*(getattr(sg, name) for name in names), **options)(X)
    np.testing.assert_allclose(found, expected(*(getattr(np, n) for n in names)), rtol=1e-4)


def kinds(store: ObjectStore) -> dict[str, int]:
    found: dict[str, int] = {}
    for path, _ in store.entries():
        found[path.suffix] = found.get(path.suffix, 0) + 1
    return found


def test_a_program_is_compiled_once_for_all_processes(store, compiled):
    check("tanh", "exp")
    assert len(compiled) == 1
    assert kinds(store) == {".object": 1, ".kernel": 2, ".loops": 2, ".program": 1}
    check("tanh", "exp")
    assert len(compiled) == 1


def test_a_long_step_is_found_as_two_objects(store):
    def run() -> list[float]:
        forget()
        h = x = sg.placeholder((8,))
        for number in range(80):
            h = sg.cumsum(h) if number % 2 else sg.cumprod(h)
        result: list[float] = sg.compile([x], h, opt_level=1)(X[0]).tolist()
        return result

    with override(cache=False):
        expected = run()
    assert run() == expected
    assert kinds(store) == {".object": 2, ".kernel": 2, ".loops": 2, ".program": 1}
    assert run() == expected


def test_only_the_kernels_that_are_new_are_compiled(store, compiled):
    check("tanh", "exp", "sin")
    check("tanh", "cos", "sin")
    assert compiled[0].count("alias void") == 3
    assert compiled[1].count("alias void") == 1
    assert '@"step' not in compiled[1]
    assert 'declare void @"k.' not in compiled[1]  # who needs its kernels needs no others
    check("sin", "exp", "cos")  # of three objects
    check("sin", "exp", "cos")
    assert len(compiled) == 2


def test_objects_that_define_the_same_kernel_are_linked(store, compiled):
    check("tanh", "exp")
    for path, _ in store.entries():
        if path.suffix in (".kernel", ".program"):
            path.unlink()
    check("tanh", "sin")  # compiles tanh once more
    assert compiled[1].count("alias void") == 2
    check("tanh", "exp")
    check("exp", "tanh", "sin")


def test_a_kernel_whose_object_is_gone_is_compiled(store, compiled):
    check("tanh", "exp")
    for path, _ in store.entries():
        if path.suffix == ".object":
            path.unlink()
    check("tanh", "exp")
    check("tanh", "sin")
    assert [text.count("alias void") for text in compiled] == [2, 2, 1]


def product(rows: int) -> Step:
    """Return a step of a product of `rows` rows, in tiles of so many as it has or 8."""
    x, y = sg.placeholder((rows, 64)), sg.placeholder((64, 48))
    return sg.compile([x, y], x @ y, opt_level=1)


def check_product(step: Step) -> None:
    x, y = (np.sin(np.arange(t.size)).reshape(t.shape) for t in step.graph.inputs)
    np.testing.assert_allclose(step(np.float32(x), np.float32(y)), x @ y, rtol=1e-3, atol=1e-4)


def leaves_of(step: Step) -> list[str]:
    executable = step.executable
    return emit_linkable(executable.program, executable.options.target).leaves


def test_a_leaf_function_is_compiled_once_for_all_products(store, compiled):
    """Of the tile that a product of 48 columns calls, and one of twice as many rows."""
    rows = 8 if target_named("native").vector_bytes == 64 else 4
    steps = [product(rows)]
    of_first = kinds(store)
    assert of_first[".leaf"] == len(leaves_of(steps[0])) > 0
    steps.append(product(2 * rows))
    assert leaves_of(steps[1]) == leaves_of(steps[0])
    assert kinds(store)[".leaf"] == of_first[".leaf"]
    assert kinds(store)[".object"] == of_first[".object"] + 1
    assert [text.count('declare void @"leaf.') for text in compiled] == [1, 1]
    forget()
    steps += [product(3 * rows), product(2 * rows)]
    assert len(compiled) == 2  # more tiles of the same height
    assert kinds(store)[".leaf"] == of_first[".leaf"]
    while steps:
        check_product(steps.pop())  # what was compiled for the first is there without it


def object_of_leaf(store: ObjectStore, step: Step) -> EntryKey:
    """Return the key of the object in which the one leaf function of a step is."""
    (leaf,) = leaves_of(step)
    made_for = objects.made_for(step.executable.options.target, 1)
    listed = store.read(EntryKey("leaf", made_for, leaf))
    assert listed is not None
    (digest,) = json.loads(listed)
    return EntryKey("object", made_for, digest)


@pytest.mark.parametrize("rows", [8, 16])
def test_a_leaf_function_that_is_gone_is_compiled(store, compiled, rows):
    """Where the program is known, too, and so nothing else would be compiled."""
    image = store.folder / object_of_leaf(store, product(8)).file_name
    listings = [path for path, _ in store.entries() if path.suffix in (".leaf", ".leaves")]
    assert len(listings) == 2
    for paths in ([image], listings):
        for path in paths:
            path.unlink()
        forget()
        check_product(product(rows))
        assert all(path.exists() for path in paths)
        forget()
        count = len(compiled)
        check_product(product(rows))
        assert len(compiled) == count


def test_a_leaf_function_that_cannot_be_linked_is_compiled_anew(store, compiled):
    store.write(object_of_leaf(store, product(8)), b"no object at all")
    forget()
    check_product(product(8))
    forget()
    check_product(product(16))


def test_options_that_change_the_code_are_of_the_key(store, compiled):
    check("tanh")
    check("tanh", target="x86-64-v2")
    assert len(compiled) == 2
    forget()
    x = sg.placeholder(X.shape)
    sg.compile([x], sg.tanh(x @ sg.variable(np.zeros((8, 8), np.float32))), opt_level=2)
    assert len(compiled) == 3


def test_whatever_is_damaged_is_made_anew(store, compiled):
    check("tanh", "exp")
    before = {path: path.read_bytes() for path, _ in store.entries()}
    for number, (path, whole) in enumerate(before.items()):
        for damaged in (whole[: len(whole) // 2], b"", os.urandom(500), whole[:-1] + b"?"):
            path.write_bytes(damaged)
            check("tanh", "exp")
        program = next(p for p in before if p.suffix == ".program")
        if path.suffix == ".kernel":
            program.unlink()  # so that the kernels are looked up
            check("tanh", "exp")
        count = len(compiled)
        check("tanh", "exp")
        assert len(compiled) == count, f"entry {number} was not made anew"


@pytest.mark.slow
def test_two_hundred_damaged_entries_are_made_anew(store):
    random = np.random.default_rng(0)
    names = [("tanh", "exp"), ("exp", "sin"), ("sin", "tanh"), ("cos", "tanh", "exp")]
    for number in range(200):
        chosen = names[number % len(names)]
        check(*chosen)
        paths = sorted(path for path, _ in store.entries())
        path = paths[int(random.integers(len(paths)))]
        damaged = bytearray(path.read_bytes())
        damaged[int(random.integers(len(damaged)))] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        check(*chosen)


def test_entries_of_another_cpu_are_made_anew(store, compiled):
    """Of as many kinds and files, under the names of those for this one."""
    check("tanh", "exp")
    native = {path.suffix: path for path, _ in store.entries()}
    check("tanh", "exp", target="x86-64-v2")
    for path, _ in store.entries():
        if path not in native.values():
            path.replace(native[path.suffix])
    check("tanh", "exp")
    assert len(compiled) == 3


def test_an_object_that_cannot_be_linked_is_compiled_anew(store, compiled):
    """It takes more than damage: the checksum says that it is what was written."""
    check("tanh")
    made_for = objects.made_for(layers(sg.tanh).executable.options.target, 1)
    (path,) = (path for path, _ in store.entries() if path.suffix == ".object")
    digest = path.read_bytes().split(b"\n")[3].decode()
    store.write(EntryKey("object", made_for, digest), b"no object at all")
    count = len(compiled)
    check("tanh")
    assert len(compiled) == count + 1


def test_a_program_can_be_left_out_and_the_cache_be_off(store, compiled):
    check("tanh", cache=False)
    with override(cache=False):
        check("tanh")
    assert len(compiled) == 2
    assert list(store.entries()) == []


def test_a_home_that_is_read_only_takes_nothing_away(tmp_path, monkeypatch):
    (tmp_path / "home").write_text("a file, in which no folder can be made")
    with override(cache=True, cache_dir=str(tmp_path / "home" / "cache")):
        check("tanh", "exp")
    forget()


def test_the_command_shows_and_clears(store, capsys):
    check("tanh")
    assert main(["cache", "path"]) == 0
    assert capsys.readouterr().out.strip() == str(store.folder)
    assert main(["cache"]) == 0
    shown = capsys.readouterr().out
    assert "kernel entries" in shown
    assert "512.0 MB" in shown
    assert main(["cache", "clear"]) == 0
    assert "removed 4 files" in capsys.readouterr().out
    assert list(store.entries()) == []
    with override(cache=False):
        assert main(["cache"]) == 0
    assert "the cache is off" in capsys.readouterr().out


_PROCESS = """
import json, sys
import numpy as np
import symgrad as sg

found = []
for number in range(12):
    x = sg.placeholder((3, 8))
    y = sg.tanh(x * float(number % 6)) @ sg.variable(np.full((8, 5 + number % 6), 0.5, np.float32))
    (g,) = sg.gradients(y.sum(), [x])
    step = sg.compile([x], [y.sum(), g.sum()], cache=True, name=f"step{number % 6}")
    found.append([float(v) for v in step(np.ones((3, 8), np.float32))])
print(json.dumps(found))
"""


@pytest.mark.slow
def test_processes_that_fill_the_cache_at_once_agree(tmp_path):
    environment = os.environ | {"SYMGRAD_CACHE": "1", "SYMGRAD_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _PROCESS]
    root = Path(__file__).parents[3]
    for _ in range(2):
        running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=root)
            for _ in range(3)
        ]
        results = [json.loads(process.communicate()[0]) for process in running]
        assert all(process.returncode == 0 for process in running)
        assert results[0] == results[1] == results[2]
    off = subprocess.run(
        command, capture_output=True, env=environment | {"SYMGRAD_CACHE": "0"}, cwd=root, check=True
    )
    assert json.loads(off.stdout) == results[0]
    assert not list(tmp_path.glob("objects/.unfinished-*"))
