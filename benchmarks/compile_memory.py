"""What compiling leaves in memory: resident KB a compile, after thousands of different programs.

Each program differs from all others in its text, so nothing that is kept for equal programs serves
twice, and each step is dropped as soon as it is made. What is kept on purpose, machine code and
constants for the next equal program, is bounded: the first programs fill it and are not counted.
Nor is free memory that the C library holds for the next compile: it is asked to give that back
before each reading, where it can be. All of it is in a process of its own.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import time
from pathlib import Path

import symgrad as sg
from benchmarks.report import Bar, Report, write_json
from benchmarks.report import options as shared_options

COMPILES = 5_000
WARM_UP = 400
MAX_KB = 2.0


def compile_one(number: int) -> None:
    """Compile a program with a gradient that is unlike that of every other number."""
    x = sg.placeholder((3 + number % 5, 4))
    y = sg.sum(sg.tanh(x * float(number)))
    sg.compile([x], [y, *sg.gradients(y, x)])


def compile_many(compiles: int, warm_up: int) -> dict[str, float]:
    """Compile many programs; return what each left, in KB and in blocks of Python, and its time."""
    for number in range(warm_up):
        compile_one(number)
    resident, blocks = resident_kb(), sys.getallocatedblocks()
    begun = time.process_time()
    for number in range(warm_up, warm_up + compiles):
        compile_one(number)
    seconds = time.process_time() - begun
    return {
        "kb": (resident_kb() - resident) / compiles,
        "blocks": (sys.getallocatedblocks() - blocks) / compiles,
        "ms": seconds / compiles * 1e3,
    }


def resident_kb() -> int:
    """Return how much of this process is in memory, with nothing in it that is free."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(dict(line.split(":", 1) for line in lines)["VmRSS"].split()[0])


def measure(quick: bool = False) -> Report:
    """Return what a compile leaves behind, as a row and a bar."""
    compiles, warm_up = (20, 10) if quick else (COMPILES, WARM_UP)
    report = Report("compile memory", ("compiles", "KB each", "blocks each", "ms each"))
    if not Path("/proc/self/status").exists():
        report.notes.append("this system has no /proc/self/status")
        return report
    command = [sys.executable, "-m", "benchmarks.compile_memory", "--compiles"]
    command += [str(compiles), "--warm-up", str(warm_up)]
    root = Path(__file__).resolve().parents[1]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    found = json.loads(run.stdout)
    cells = (round(found[key], 2) for key in ("kb", "blocks", "ms"))
    report.rows.append((compiles, *cells))
    if not quick:
        report.bars.append(Bar("resident KB that a compile leaves", found["kb"], MAX_KB))
    return report


def _options() -> argparse.ArgumentParser:
    parser = shared_options(__doc__)
    parser.add_argument("--compiles", type=int, help="compile here, and print what it left")
    parser.add_argument("--warm-up", type=int, default=WARM_UP, help="how many are not counted")
    return parser


def main() -> None:
    """Print the report, or with `--compiles` what this process found, as JSON."""
    chosen = _options().parse_args()
    if chosen.compiles is not None:
        print(json.dumps(compile_many(chosen.compiles, chosen.warm_up)))
        return
    report = measure(chosen.quick)
    print(report)
    if chosen.json is not None:
        write_json(chosen.json, [report])


if __name__ == "__main__":
    main()
