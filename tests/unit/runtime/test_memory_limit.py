"""`memory_limit`: steps whose temporaries are more are planned again, and give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.control_strategies import copied_through

BATCH, WIDTH, LAYERS = 64, 32, 6
Array = np.ndarray[Any, Any]


def _training(batch: int | str = BATCH, layers: int = LAYERS) -> tuple[Any, Any, Any, list[Any]]:
    """Return inputs, loss, updates and weights of an MLP of gelu layers."""
    rng = np.random.default_rng(0)
    x = sg.placeholder((batch, WIDTH), name="x")
    weights = [
        sg.variable(rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 6, name=f"w{i}")
        for i in range(layers)
    ]
    h = x
    for w in weights:
        h = sg.nn.gelu(h @ w)
    loss = sg.mean(h * h)
    return [x], loss, sg.optim.Adam(0.01).minimize(loss, weights), weights


def _data(batch: int = BATCH) -> Array:
    return np.random.default_rng(1).standard_normal((batch, WIDTH)).astype(np.float32)


def _run(step: Any, weights: list[Any], data: Array) -> list[bytes]:
    losses = [step(data).tobytes() for _ in range(3)]
    return [*losses, *(w.value.tobytes() for w in weights)]


def _arena(batch: int = BATCH) -> int:
    inputs, loss, updates, _ = _training(batch)
    return sg.compile(inputs, loss, updates).memory.arena_bytes


@pytest.mark.parametrize("share", [0.9, 0.7, 0.5])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_limit_is_kept_and_gives_the_same_bits(share, threads):
    inputs, loss, updates, weights = _training()
    free = sg.compile(inputs, loss, updates, threads=threads)
    limit = int(share * free.memory.arena_bytes)
    wanted = _run(free, weights, _data())
    inputs, loss, updates, weights = _training()
    step = sg.compile(inputs, loss, updates, threads=threads, memory_limit=limit)
    assert step.memory.arena_bytes <= limit
    assert _run(step, weights, _data()) == wanted


def test_a_program_under_its_limit_is_the_same_program():
    inputs, loss, updates, _ = _training()
    free = sg.compile(inputs, loss, updates)
    step = sg.compile(inputs, loss, updates, memory_limit=free.memory.arena_bytes)
    assert step.ir("loops") == free.ir("loops")
    assert not any(d.rule == "memory-limit" for d in step.decisions)


def test_more_is_computed_again_the_less_memory_there_is():
    arena, flops = _arena(), []
    for share in (1.0, 0.7, 0.5):
        inputs, loss, updates, _ = _training()
        step = sg.compile(inputs, loss, updates, memory_limit=int(share * arena))
        flops.append(sum(kernel.flops for kernel in step.kernels))
    assert flops[0] < flops[1] < flops[2] < 1.6 * flops[0]


def test_decisions_say_what_is_computed_again_and_for_what():
    limit = int(0.6 * _arena())
    inputs, loss, updates, _ = _training()
    found = [
        d for d in sg.compile(inputs, loss, updates, memory_limit=limit).decisions
        if d.rule == "memory-limit"
    ]  # fmt: skip
    assert f"of a limit of {limit:,}" in found[0].reason
    again = [d for d in found if d.reason.startswith("computed again: ")]
    assert again == found[1:]
    assert all("bytes at the peak" in d.reason and " ps to compute" in d.reason for d in again)
    assert any("test_memory_limit.py" in d.line for d in again)


def test_groups_that_free_memory_run_first_and_nothing_is_computed_again():
    # Weights' gradients come last in the graph, and both of their operands are alive until then.
    x = sg.placeholder((512, 64), name="x")
    ws = [sg.variable(np.eye(64, dtype=np.float32), name=f"w{i}") for i in range(4)]
    h = x
    for w in ws:
        h = h @ w
    updates = sg.optim.SGD(0.1).minimize(sg.sum(h * h), ws)
    free = sg.compile([x], (), updates)
    limit = free.memory.arena_bytes - 512 * 64 * 4
    step = sg.compile([x], (), updates, memory_limit=limit)
    assert step.memory.arena_bytes <= limit
    assert len(step.kernels) == len(free.kernels)
    (order,) = [d for d in step.decisions if d.rule == "memory-limit"]
    assert "run first that free memory" in order.reason


def test_each_size_keeps_the_limit():
    limit = int(0.7 * _arena(64))
    inputs, loss, updates, weights = _training("n")
    step = sg.compile(inputs, loss, updates, memory_limit=limit)
    free_inputs, free_loss, free_updates, free_weights = _training("n")
    free = sg.compile(free_inputs, free_loss, free_updates)
    for batch in (16, 64):
        assert _run(step, weights, _data(batch)) == _run(free, free_weights, _data(batch))
        assert step.memory.arena_bytes <= limit
    with pytest.raises(sg.CompileError, match=r"step: memory_limit=.*cannot be kept") as refused:
        step(_data(4096))
    assert refused.value.source is not None


def test_draws_are_the_same_when_they_are_computed_again():
    def results(limit: int | None) -> tuple[int, bytes]:
        rng = sg.random.Generator(3)
        x = sg.placeholder((BATCH, WIDTH), name="x")
        w = sg.variable(np.eye(WIDTH, dtype=np.float32), name="w")
        h = x
        for _ in range(5):
            h = sg.nn.dropout(sg.tanh(h @ w), 0.5, rng)
        updates = [*sg.optim.SGD(0.1).minimize(sg.sum(h * h), [w]), rng.advance()]
        step = sg.compile([x], h, updates, memory_limit=limit)
        found = [step(_data()).tobytes() for _ in range(3)]
        return step.memory.arena_bytes, b"".join([*found, w.value.tobytes()])

    arena, wanted = results(None)
    least, found = results(int(0.7 * arena))
    assert least <= 0.7 * arena
    assert found == wanted


def test_an_old_value_is_read_though_the_variable_is_written():
    w = sg.variable(np.full((64, 64), 0.01, np.float32), name="w")
    x = sg.placeholder((256, 64), name="x")
    kept = [sg.tanh(x @ (w * float(i))) for i in range(1, 6)]
    loss = sg.sum(kept[0])
    for y in kept:
        loss = sg.tanh(loss) + sg.sum(sg.exp(y) * y * loss)
    for y in kept:
        loss = sg.tanh(loss) + sg.sum(sg.sin(y) * loss)
    data = np.ones((256, 64), np.float32)

    def results(limit: int | None) -> tuple[int, list[bytes]]:
        w.value = np.full((64, 64), 0.01, np.float32)
        step = sg.compile([x], loss, [(w, w + 1.0)], memory_limit=limit)
        again = [d for d in step.decisions if d.reason.startswith("computed again")]
        assert limit is None or again
        return step.memory.arena_bytes, [*(step(data).tobytes() for _ in range(2)), bytes(w.value)]

    arena, wanted = results(None)
    least, found = results(arena - 100_000)
    assert least < arena
    assert found == wanted


def test_a_function_of_c_is_called_as_often_as_before():
    x = sg.placeholder((64, 64), name="x")
    y = copied_through(x, way=0, is_pure=True)
    z = sg.tanh(x)
    for _ in range(3):
        z = sg.sin(z @ z)
    outputs = [sg.sum(y * z), *sg.gradients(sg.sum(z * y), x)]

    def calls(limit: int | None) -> tuple[int, int]:
        step = sg.compile([x], outputs, memory_limit=limit)
        return step.memory.arena_bytes, sum("extern" in kernel.ops for kernel in step.kernels)

    arena, before = calls(None)
    assert calls(arena - 1)[1] == before


def test_an_exported_step_has_the_same_arena(tmp_path):
    limit = int(0.7 * _arena())
    inputs, loss, updates, weights = _training()
    step = sg.compile(inputs, loss, updates, memory_limit=limit, name="train")
    step.export(tmp_path / "train")
    library = sg.load(tmp_path / "train.so")
    assert step.memory.arena_bytes <= limit
    for w in weights:
        library.variables[w.name] = w.value
    for _ in range(3):
        assert library(_data()).tobytes() == step(_data()).tobytes()
    assert all(library.variables[w.name].tobytes() == w.value.tobytes() for w in weights)


def test_a_step_is_exported_for_several_targets_under_a_limit(tmp_path):
    limit = int(0.7 * _arena())
    inputs, loss, updates, _ = _training()
    step = sg.compile(inputs, loss, updates, memory_limit=limit)
    step.export(tmp_path / "train", formats=["h"], target=["x86-64", "x86-64-v3"])
    assert (tmp_path / "train.h").exists()


def test_an_index_out_of_range_is_named_under_a_limit():
    table = sg.variable(np.ones((10, 64), np.float32), name="table")
    ids = sg.placeholder((128,), "int64", name="ids")
    h = sg.take(table, ids, axis=0)
    weights = [sg.variable(np.eye(64, dtype=np.float32), name=f"w{i}") for i in range(6)]
    for w in weights:
        h = sg.nn.gelu(h @ w)
    loss = sg.mean(h * h)
    updates = sg.optim.Adam(0.1).minimize(loss, [table, *weights])
    arena = sg.compile([ids], loss, updates).memory.arena_bytes
    step = sg.compile([ids], loss, updates, memory_limit=int(0.8 * arena))
    assert any(d.reason.startswith("computed again") for d in step.decisions)
    with pytest.raises(sg.IndexOutOfRangeError, match="index 10 is out of range") as refused:
        step(np.full(128, 10))
    assert "test_memory_limit.py" in str(refused.value)
    assert all(np.array_equal(w.value, np.eye(64)) for w in weights)
    assert np.all(table.value == 1)


def test_what_is_no_number_of_bytes_is_refused():
    x = sg.placeholder((2,), name="x")
    for wrong in (-1, 1.5, True, "1 GB"):
        with pytest.raises(sg.CompileError, match=r"compile: memory_limit=.* is no number of"):
            sg.compile([x], x, memory_limit=wrong)  # type: ignore[arg-type]  # its mistake


def test_a_limit_may_be_an_int_of_numpy():
    x = sg.placeholder((2,), name="x")
    limit: Any = np.int64(1 << 40)
    assert sg.compile([x], x + 1, memory_limit=limit)(np.ones(2, np.float32)).tolist() == [2, 2]


def test_an_error_says_what_takes_the_memory():
    inputs, loss, updates, _ = _training()
    with pytest.raises(sg.CompileError) as refused:
        sg.compile(inputs, loss, updates, memory_limit=1000)
    text = str(refused.value)
    assert text.startswith("compile: memory_limit=1,000 bytes cannot be kept: the temporaries of")
    assert f"take {_arena():,} bytes, and " in text
    assert f"f32[{BATCH}, {WIDTH}] (test_memory_limit.py:" in text
    assert "\n  --> test_memory_limit.py:" in text
