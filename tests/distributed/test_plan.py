"""The model of ranks: prices of collectives, what overlaps, and what a rank keeps in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import symgrad as sg
from symgrad.runtime.inspection.communication import Message
from symgrad.runtime.inspection.plan import (
    Network,
    Plan,
    SharedCores,
    make_plan,
    whole_bytes,
)
from tests.distributed import planned_program
from tests.support.mpi import run_ranks

US = 1e-6
# A microsecond to begin, and as many for each thousand bytes.
NETWORK = Network(US, 1e9)
PRICES = {
    ("MPI_Allreduce", 1000, 2): 2,  # one round of the whole
    ("MPI_Allreduce", 0, 1024): 10,
    ("MPI_Iallreduce", 8_000_000, 8): 6 + 2 * 7 / 8 * 8000,  # scattered, then gathered
    ("MPI_Ireduce_scatter_block", 8000, 8): 3 + 7,
    ("MPI_Iallgather", 8000, 8): 3 + 7,
    ("MPI_Alltoall", 8000, 8): 7 + 7,
    ("MPI_Bcast", 1000, 4): 2 * 2,
    ("MPI_Sendrecv", 3000, 64): 1 + 3,
    ("MPI_Barrier", 0, 5): 3,
    ("MPI_Allreduce", 1 << 30, 1): 0,
}


def plan_of(make: Callable[[], Any]) -> Plan:
    """Return what is known of a step that this process makes as the only rank."""
    try:
        step, arrays = make()
    except sg.CompileError as error:
        if "MPI cannot be started" not in str(error):
            raise
        pytest.skip(f"{error}")
    return make_plan(step.executable, step.profile(*arrays, repeat=3))


def test_collectives_cost_rounds_and_bytes() -> None:
    for (function, count, ranks), microseconds in PRICES.items():
        found = NETWORK.seconds(function, count, ranks) / US
        assert found == pytest.approx(microseconds), (function, count, ranks)


def test_what_ranks_give_grows_with_them_and_parts_of_one_state_do_not() -> None:
    given = Message(0, "MPI_Allgather", 100, group=None)  # type: ignore[arg-type]
    part = Message(0, "MPI_Iallgather", 100, group=None, waited=1)  # type: ignore[arg-type]
    assert [whole_bytes(given, 2, ranks) for ranks in (1, 2, 8)] == [50, 100, 400]
    assert [whole_bytes(part, 2, ranks) for ranks in (1, 2, 8)] == [100, 100, 100]


def test_ranks_that_have_more_threads_than_cores_take_turns() -> None:
    two_cores = SharedCores(cores=2, ranks=4, threads=1)
    assert [two_cores.slowdown(ranks) for ranks in (1, 2, 3, 4, 1024)] == [1, 1, 1.5, 2, 2]
    assert SharedCores(cores=8, ranks=4, threads=4).slowdown(4) == 2
    plan = plan_of(planned_program.training_step)
    alone, crowded = (
        replace(plan, shared=shared).predict(NETWORK, 4).computed_seconds
        for shared in (SharedCores(2, 2, 1), two_cores)
    )
    assert crowded == pytest.approx(2 * alone)


def test_what_is_computed_between_start_and_wait_hides_a_message() -> None:
    plan = plan_of(planned_program.training_step)
    (message,) = plan.messages
    assert (message.bytes, plan.measured) == (2 * 64 * 64 * 4, 1)
    assert message.waited is not None
    rows = plan.profile.rows
    between = sum(row.seconds for row in rows[message.call + 1 : message.waited])
    computed = sum(r.seconds for i, r in enumerate(rows) if i not in (message.call, message.waited))
    # As long as what is computed meanwhile, and a tenth.
    network = Network(0, message.bytes / (1.1 * between))
    hidden = plan.predict(network, 2)
    assert hidden.computed_seconds == pytest.approx(computed)
    assert hidden.seconds == pytest.approx(computed + 0.1 * between)
    assert hidden.hidden == pytest.approx(1 / 1.1)
    exposed = plan.predict(Network(0, network.bandwidth, progress=0), 2)
    assert exposed.seconds == pytest.approx(computed + 1.1 * between)
    assert plan.predict(network, 1).efficiency == 1


def test_a_rank_keeps_its_part_of_slots_that_are_shared() -> None:
    memory = {}
    for make in (planned_program.training_step, planned_program.sharded_step):
        plan = plan_of(make)
        memory[make] = [plan.predict(NETWORK, ranks).memory_bytes for ranks in (1, 4)]
    whole, parts = memory.values()
    assert whole[0] == whole[1]
    slots = 2 * 2 * 64 * 64 * 4  # two of Adam for each of two weights
    assert parts[0] - parts[1] == slots - slots // 4


@pytest.mark.parametrize("library", ["openmpi", "mpich"])
def test_ranks_measure_together_and_one_of_them_prints(library: str) -> None:
    program = "tests.distributed.planned_program:training_step"
    options = ["--ranks", "1000", "--latency", "2", "--bandwidth", "12.5", "--repeat", "3"]
    ended = run_ranks(library, 2, ["-m", "symgrad", "plan", program, *options])
    assert ended.status == 0, ended.errors
    lines = ended.output.splitlines()
    assert lines[0].split()[:3] == ["ranks", "step", "efficiency"]
    rows = [line.split()[0] for line in lines[2:13]]
    assert rows == ["1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1,000"]
    assert "a step sends 32.8 kB in 1 calls" in lines[14]
    assert "took what they took on 2 of the ranks; messages take 2 µs and 12.5 GB" in lines[15]
