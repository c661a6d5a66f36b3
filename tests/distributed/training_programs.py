"""Data-parallel training on several ranks: the same weights as one rank has with all samples."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.display.units import seconds_text
from symgrad.distributed import data_parallel
from tests.support.refusals import assert_refused

COMM = sg.distributed.world()
RANK, SIZE = COMM.rank, COMM.size
ROWS = 8  # of all ranks together


def make_step(comm: Any, seed: int) -> tuple[sg.Step, list[sg.Variable], sg.optim.Adam]:
    """Return a training step; its variables start with values that `seed` says."""
    random = np.random.default_rng(seed)
    x = sg.placeholder((None, 3), "float64", name="x")
    variables = [
        sg.variable(random.normal(size=shape), name=name)
        for name, shape in (("w", (3, 4)), ("b", (4,)), ("v", (4,)), ("unused", (2,)))
    ]
    w, b, v, unused = variables
    loss = sg.mean((sg.tanh(x @ w + b) @ v - sg.sum(x, axis=1)) ** 2)
    optimizer = sg.optim.Adam(0.1)
    updates = optimizer.minimize(loss, [w, b, v, unused], data_parallel=comm)
    return sg.compile([x], loss, updates, opt_level=1), variables, optimizer


def train(path: Path) -> None:
    """Compare with a step that has all samples; save by all ranks; go on from the file."""
    samples = np.random.default_rng(5).normal(size=(ROWS, 3))
    mine = samples[RANK * ROWS // SIZE : (RANK + 1) * ROWS // SIZE]
    step, variables, optimizer = make_step(COMM, seed=RANK)
    alone, wanted, _ = make_step(None, seed=0)
    for _ in range(5):
        losses = COMM.mpi.allgather(float(step(mine)))
        np.testing.assert_allclose(np.mean(losses), alone(samples))
    for got, want in zip(variables, wanted, strict=True):
        if got.name != "unused":
            np.testing.assert_allclose(got.value, want.value, rtol=1e-10)
        everywhere = COMM.mpi.allgather(got.value)
        assert all((other == got.value).all() for other in everywhere)
    sg.save(path, [variables, optimizer.state])
    sg.distributed.barrier(COMM)
    again, restored, slots = make_step(COMM, seed=9)
    sg.restore(path, [restored, slots.state])
    np.testing.assert_array_equal(again(mine), step(mine))


def start_early(path: Path) -> None:
    """Start sums as soon as their bucket is there, wait behind all products, update in between."""
    x = sg.placeholder((16, 16), name="x")
    y = x
    for number in range(3):
        y = sg.tanh(y @ sg.variable(np.ones((16, 16), "float32"), name=f"w{number}"))
    loss = sg.mean(y)
    step = sg.compile([x], loss, sg.optim.SGD(0.1).minimize(loss, data_parallel=COMM), opt_level=0)
    calls = [call.label for call in step.executable.program.native_calls]
    starts = [place for place, call in enumerate(calls) if call == "extern MPI_Iallreduce"]
    waits = [place for place, call in enumerate(calls) if call == "extern MPI_Wait"]
    products = [place for place, call in enumerate(calls) if "einsum" in call]
    assert len(starts) == len(waits) == 3, calls
    # Two products for each layer before that of the bucket.
    assert [sum(place > start for place in products) for start in starts] == [4, 2, 0], calls
    assert max(products) < min(waits), calls
    updates = [place for place, call in enumerate(calls) if "subtract" in call and "after" in call]
    assert [sum(place > wait for place in updates) for wait in waits] == [3, 2, 1], calls
    show_messages(step, path)


def show_messages(step: sg.Step, path: Path) -> None:
    """Say what is sent, and what is computed meanwhile: in the profile, its text and the trace."""
    ones = np.ones((16, 16), "float32")
    profile = step.profile(ones)
    sent = profile.communication
    assert sent is not None
    assert (sent.calls, sent.bytes) == (3, 3 * ones.nbytes)
    rows = [row for row in profile.rows if "MPI" in row.kernel.label]
    assert sent.seconds == sum(row.seconds for row in rows) > 0
    assert 0 < sent.hidden_seconds < profile.seconds - sent.seconds
    assert f"communication: 3.07 kB in 3 calls, {seconds_text(sent.seconds)}" in str(profile)
    step.trace(path / f"{RANK}.json", ones)
    events = json.loads((path / f"{RANK}.json").read_text())["traceEvents"]
    messages = [event for event in events if event.get("cat") == "message"]
    assert [event["args"]["bytes"] for event in messages] == [ones.nbytes] * 3
    drawn = {event["tid"] for event in events if event.get("args", {}).get("name") == "messages 2"}
    assert drawn == {messages[2]["tid"]}, "all three are on their way at once"
    products = [e for e in events if "einsum" in e["name"] and e["ts"] > messages[0]["ts"]]
    assert len(products) >= 4
    assert sg.compile([], sg.ones(3)).profile(repeat=1).communication is None


def draw_apart(path: Path) -> None:
    """Draw on each rank what `fold` of its number gives, from a state that all ranks have."""
    rng, x = sg.random.Generator(seed=3), sg.placeholder((None, 6), name="x")
    own, everywhere = sg.distributed.per_rank(rng, COMM).normal((8,)), rng.normal((8,))
    w = sg.variable(np.ones(6, "float32"), name="w")
    loss = sg.mean(sg.nn.dropout(x, 0.5, sg.distributed.per_rank(rng, COMM)) @ w)
    updates = sg.optim.SGD(0.1).minimize(loss, data_parallel=COMM)
    step = sg.compile([x], [own, everywhere, loss], [*updates, rng.advance()], opt_level=0)
    alone = sg.random.Generator(seed=3)
    wanted = sg.compile([], alone.fold(RANK).normal((8,)), [alone.advance()], opt_level=0)
    for _ in range(2):
        drawn, same, _ = step(np.ones((5, 6), "float32"))
        np.testing.assert_array_equal(drawn, wanted())
        assert len({a.tobytes() for a in COMM.mpi.allgather(drawn)}) == SIZE
        assert len({a.tobytes() for a in COMM.mpi.allgather(same)}) == 1
    sg.save(path, [rng.state])
    sg.distributed.barrier(COMM)
    step(np.ones((5, 6), "float32"))
    sg.restore(path, [rng.state])
    np.testing.assert_array_equal(wanted(), step(np.ones((5, 6), "float32"))[0])
    assert len({a.tobytes() for a in COMM.mpi.allgather(w.value)}) == 1


def refuse() -> None:
    """Refuse variables that differ, on all ranks; and what is no communicator."""
    w = sg.variable(np.zeros(2 + RANK), name="w")
    sgd = sg.optim.SGD(0.1)
    if SIZE == 2:
        problem = (
            "variable w f64[3] of rank 1 is w f64[2] on rank 0",
            "variable w f64[2] of rank 0 is w f64[3] on rank 1",
        )[RANK]
        assert_refused(lambda: sgd.minimize(sg.sum(w), data_parallel=COMM), ValueError, f"""
            SGD.minimize: {problem}
              --> <here>
        """)  # fmt: skip
    assert_refused(lambda: sgd.minimize(sg.sum(w), data_parallel=2), TypeError, """
        SGD.minimize: data_parallel is 2, no communicator
          --> <here>
          hint: sg.distributed.world() is that of all ranks
    """)  # fmt: skip
    assert_refused(lambda: sg.distributed.per_rank(2, COMM), TypeError, """
        per_rank: rng is 2, no sg.random.Generator
          --> <here>
    """)  # fmt: skip


if __name__ == "__main__":
    train(Path(sys.argv[1], "all.safetensors"))
    data_parallel.BUCKET_BYTES = 40  # of b and v together, and w alone
    train(Path(sys.argv[1], "small.safetensors"))
    start_early(Path(sys.argv[1]))
    draw_apart(Path(sys.argv[1], "drawn.safetensors"))
    refuse()
    sys.stdout.write(f"rank {RANK} of {SIZE} has trained\n")
