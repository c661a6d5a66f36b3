"""Runs random programs on all floors, between guard pages, in processes that may die of a fault.

    python tools/fuzz.py --programs 20000 --jobs 2
    python tools/fuzz.py --family control --first 1234 --programs 1
    python tools/fuzz.py --programs 2000 --memcheck

A program is compiled for three targets, with 1, 2 and 4 threads in turns, what each pass makes is
verified, and it is compared with the reference floor by floor (`tests/support/fuzz_families.py`).
With `--in-turn` it is compiled for the target whose turn it is, which is three programs in the time
of one. With `--memcheck`, its machine code of no optimization runs under valgrind instead. Prints
what is wrong, with the family and the seed, then a table; the status is 1 if anything is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).resolve().parents[1]
BLOCK = 200  # programs of a process
# How many of a hundred programs are of each family.
SHARES = {
    **{"ops": 26, "long": 7, "control": 27, "recurrences": 13},
    **{"training": 1, "layers": 5, "complex": 7, "matrices": 2, "alike": 2},
    **{"attention": 4, "scores": 1, "rows": 3, "powers": 2},
}


@dataclass(slots=True)
class Outcome:
    """What came of the programs of a block, or of a family."""

    programs: int = 0
    seconds: float = 0.0
    unstable: int = 0
    wrong: dict[int, str] = field(default_factory=dict)


def run_block(worker: Sequence[str], family: str, first: int, end: int) -> Outcome:
    """Run the seeds from `first` up to `end`; one that ends its process is wrong."""
    outcome, start = Outcome(), time.perf_counter()
    while first < end:
        first = _run_process(worker, family, first, end, outcome)
    outcome.seconds = time.perf_counter() - start
    return outcome


def _run_process(worker: Sequence[str], family: str, first: int, end: int, outcome: Outcome) -> int:
    """Run seeds in one process, into `outcome`; return the seed to go on with."""
    module, *options = worker
    seeds = [str(first), str(end)]
    command = [sys.executable, "-m", f"tests.support.{module}", family, *seeds, *options]
    # Threads that wait sleep: they are not alone on the machine.
    environment = os.environ | {"OMP_WAIT_POLICY": "passive", "SYMGRAD_VERIFY": "1"}
    found = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False
    )
    seed, lines = first, [line.split(" ", 2) for line in found.stdout.splitlines()]
    for word, *rest in lines:
        if word == "run":
            seed = int(rest[0])
            outcome.programs += 1
        elif word == "unstable":
            outcome.unstable += 1
        elif word == "wrong":
            outcome.wrong[int(rest[0])] = json.loads(rest[1])
    if lines and lines[-1][0] == "done":
        return end
    outcome.wrong[seed] = f"the process ended with status {found.returncode}\n{found.stderr}"
    return seed + 1


def blocks(arguments: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    """Yield the family and the seeds of each block, the families in turns."""
    total, shares = arguments.programs, SHARES
    if arguments.family:
        shares = {arguments.family: 100}
    counts = {family: total * share // 100 for family, share in shares.items()}
    done = dict.fromkeys(counts, 0)
    while any(done[family] < counts[family] for family in counts):
        for family, count in counts.items():
            size = min(BLOCK, count - done[family])
            if size > 0:
                first = arguments.first + done[family]
                yield family, first, first + size
                done[family] += size


def main() -> int:
    """Run the programs that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed of each family")
    parser.add_argument("--family", choices=SHARES, help="this one only")
    parser.add_argument("--in-turn", action="store_true", help="one target a program")
    parser.add_argument("--memcheck", action="store_true", help="under valgrind")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    outcomes = {family: Outcome() for family in SHARES}
    start = time.perf_counter()
    worker = ["memcheck_worker" if arguments.memcheck else "fuzz_worker"]
    worker += ["--in-turn"] if arguments.in_turn else []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        running = [(b[0], pool.submit(run_block, worker, *b)) for b in blocks(arguments)]
        for family, future in running:
            _add(outcomes[family], family, future.result())
    _print_table(outcomes, time.perf_counter() - start)
    return 1 if any(outcome.wrong for outcome in outcomes.values()) else 0


def _add(total: Outcome, family: str, block: Outcome) -> None:
    for seed, text in block.wrong.items():
        print(f"{family} {seed}:\n{text}\n", flush=True)
    total.programs += block.programs
    total.seconds += block.seconds
    total.wrong |= block.wrong
    total.unstable += block.unstable


def _print_table(outcomes: dict[str, Outcome], seconds: float) -> None:
    rows = [
        (family, o.programs, len(o.wrong), o.unstable, f"{o.seconds:.0f}")
        for family, o in outcomes.items()
        if o.programs
    ]
    wrong = sum(len(o.wrong) for o in outcomes.values())
    print(tabulate(rows, ["family", "programs", "wrong", "unstable", "seconds of a process"]))
    programs = sum(o.programs for o in outcomes.values())
    print(f"{programs} programs, {wrong} wrong, in {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
