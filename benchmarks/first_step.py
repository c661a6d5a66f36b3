"""Time to the first step: building, compiling and running a step once, each in a new process.

    cold         nothing is in the cache of objects, and the package is one of `make dist`: it
                 brings along the leaf functions of common products
    bare         nothing is in the cache, and the package is its sources
    warm         a process before has compiled the same

Importing and making arrays is not counted. Importing has rows of its own, one for the package and
one for it with all that a compilation needs, which is imported when `sg.compile` is first asked
for: a program that compiles waits for both. What each stage takes of it is noted by wrapping the
functions that are stages, so what calls Python between them is the rest. JAX, where it is
installed, has no cache between processes and compiles with its first call. Times are the least of
several processes; where one of JAX takes longer than a limit it is ended, and counts as the limit.
A model of which one layer was edited finds what the one before left in the cache.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.first_step_cases import (
    BATCHES,
    CASES,
    CHAIN,
    EDITED,
    LAYERS,
    LAYERS_EDITED,
    PARAMETERS,
    first_step,
)
from benchmarks.report import Bar, Report, write_json
from benchmarks.report import options as shared_options
from benchmarks.timing import pin_to_one_core
from symgrad.codegen.target import target_named
from symgrad.runtime.precompile import pack

# What is a stage: functions, wherever they are called from.
STAGES = {
    "gradients": ("symgrad.passes.gradients.reverse_mode.gradients",),
    "graph passes": ("symgrad.passes.pipeline.run_graph_passes",),
    "fusion": ("symgrad.passes.fusion.fuse.fuse",),
    "lowering": (
        "symgrad.codegen.program.build.build_program",
        "symgrad.codegen.program.passes.run_program_passes",
    ),
    "emit": ("symgrad.codegen.llvm.module.emit_module",),
    "LLVM": ("symgrad.codegen.native.jit.optimize",),
    "object": (
        "symgrad.codegen.native.jit.emit_object",
        "symgrad.codegen.native.jit.emit_as_is",
    ),
    "link": ("symgrad.codegen.native.jit.load_objects",),
}
REST = "rest"
ROOT = Path(__file__).resolve().parents[1]
QUICK = (LAYERS, LAYERS_EDITED, BATCHES)
COLD = ("cold", "bare")  # held to the same limits
MAX_OF_JAX = 0.5
MAX_SECONDS_OF_JAX = 60.0  # it compiles a chain of 5,000 ops for more than ten minutes
MAX_SECONDS = {
    (LAYERS, "cold"): 0.15,
    (LAYERS, "warm"): 0.04,
    (CHAIN, "cold"): 1.2,
    (BATCHES, "cold"): 2.0,
    (PARAMETERS, "cold"): 2.0,
}
MAX_OF_EDITED = 0.1
MAX_IMPORT = 0.2
IMPORT = "import"
IMPORTS = {IMPORT: "import symgrad", "import, and the compiler": "import symgrad; symgrad.compile"}

# The least seconds of each stage and of all, of a library and a state of the cache.
Found = dict[str, float]


def measure(quick: bool = False, only: Sequence[str] = CASES) -> Report:
    """Return a row for each case, library and state of the cache."""
    if quick:
        return _measured(quick, QUICK, ROOT)
    with tempfile.TemporaryDirectory() as folder:
        return _measured(quick, only, _built(Path(folder)))


def _measured(quick: bool, only: Sequence[str], package: Path) -> Report:
    report = Report("first step", ("case", "library", "cache", "ms", *STAGES, REST))
    runs = 1 if quick else 3
    for case in only:
        states = _ours(case, runs, package, quick)
        cold, edited = states["cold"], states["edited"]
        for state, found in states.items():
            if found:
                _add_row(report, case, "symgrad", state, found)
            limit = MAX_SECONDS.get((case, "cold" if state in COLD else state))
            if limit is not None and not quick:
                report.bars.append(Bar(f"seconds, {case}, {state}", found["all"], limit))
        if edited and not quick:
            share = edited["all"] / cold["all"]
            report.bars.append(Bar(f"time of all, {case}", share, MAX_OF_EDITED))
        peer = {} if quick else _of_jax(case, runs)
        if peer:
            is_ended = peer["all"] >= MAX_SECONDS_OF_JAX
            _add_row(report, case, "JAX, more than" if is_ended else "JAX", "none", peer)
            for state in COLD:
                ratio = states[state]["all"] / peer["all"]
                report.bars.append(Bar(f"times of JAX, {case}, {state}", ratio, MAX_OF_JAX))
    if not quick:
        seconds: Found = {}
        for name, program in IMPORTS.items():
            seconds[name] = min(seconds_to_run(program) for _ in range(5))
            _add_row(report, name, "symgrad", "none", {"all": seconds[name]})
        report.bars.append(Bar("seconds to import", seconds[IMPORT], MAX_IMPORT))
    return report


def _add_row(report: Report, case: str, library: str, state: str, found: Found) -> None:
    cells = (found["all"], *(found.get(stage, math.nan) for stage in (*STAGES, REST)))
    shown = (None if math.isnan(cell) else round(cell * 1e3, 2) for cell in cells)
    report.rows.append((case, library, state, *shown))


def _built(folder: Path) -> Path:
    """Make a folder with the package as `setup.py` builds it for `make dist`, and return it."""
    for name in ("symgrad", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name)
    level = target_named("native").shared_level
    pack(folder / "symgrad" / "precompiled", [level.name] if level is not None else [])
    return folder


def _ours(case: str, runs: int, package: Path, quick: bool) -> dict[str, Found]:
    """Return the times in each state of the cache, of the package in a folder and of sources."""
    cold, bare, warm, edited = [], [], [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            if case in EDITED:
                _in_process(EDITED[case], "symgrad", folder, quick, package)
                edited.append(_in_process(case, "symgrad", folder, quick, package))
        with tempfile.TemporaryDirectory() as folder:
            cold.append(_in_process(case, "symgrad", folder, quick, package))
            warm.append(_in_process(case, "symgrad", folder, quick, package))
        if package != ROOT:
            with tempfile.TemporaryDirectory() as folder:
                bare.append(_in_process(case, "symgrad", folder, quick))
    found = {"cold": cold, "bare": bare, "warm": warm, "edited": edited}
    return {state: _least(runs) for state, runs in found.items()}


def _of_jax(case: str, runs: int) -> Found:
    """Return the times of JAX: the limit if a process was ended by it, nothing without JAX."""
    found: list[Found] = []
    for _ in range(runs):
        try:
            found.append(_in_process(case, "JAX", None, quick=False, limit=MAX_SECONDS_OF_JAX))
        except subprocess.TimeoutExpired:
            return {"all": MAX_SECONDS_OF_JAX}
    return _least(found)


def _least(runs: list[Found]) -> Found:
    return min((run for run in runs if run), key=lambda run: run["all"], default={})


def _in_process(
    case: str,
    library: str,
    folder: str | None,
    quick: bool,
    package: Path | None = None,
    limit: float | None = None,
) -> Found:
    """Return what a new process finds, with its cache in `folder`, within `limit` seconds.

    It imports what is in the folder of `package`, the sources if none is given.
    """
    command = [sys.executable, "-m", "benchmarks.first_step", "--case", case, "--library", library]
    command += ["--quick"] if quick else []
    is_cached = {} if folder is None else {"SYMGRAD_CACHE": "1", "SYMGRAD_CACHE_DIR": folder}
    environment = _environment() | is_cached
    place = package or ROOT
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=place, timeout=limit,
        env=environment | {"PYTHONPATH": str(place)},
    )  # fmt: skip
    found: Found = json.loads(run.stdout.splitlines()[-1])
    return found


def _environment() -> dict[str, str]:
    """Return that of a process which finds modules compiled, as those of a package that is used."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


class _Watch:
    """Notes the seconds of each stage, without those of the stages inside it."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._inside = [0.0]

    def wrap(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            self._inside.append(0.0)
            try:
                return function(*arguments, **options)
            finally:
                spent = time.perf_counter() - begun
                self.seconds[stage] += spent - self._inside.pop()
                self._inside[-1] += spent

        return timed

    def install(self) -> None:
        """Put what is timed in the place of each stage, in every module that has it."""
        for stage, name in [(stage, name) for stage, names in STAGES.items() for name in names]:
            module, _, attribute = name.rpartition(".")
            function = getattr(importlib.import_module(module), attribute)
            timed = self.wrap(stage, function)
            ours = [m for n, m in sys.modules.items() if n.startswith("symgrad")]
            for place in [m for m in ours if getattr(m, attribute, None) is function]:
                setattr(place, attribute, timed)


def time_first_step(case: str, library: str, quick: bool) -> Found:
    """Make and run a step once in this process; return the seconds of each stage."""
    pin_to_one_core()
    run = first_step(case, library, quick)
    if run is None:
        return {}
    watch = _Watch()
    watch.install()
    gc.collect()
    begun = time.perf_counter()
    run()
    seconds = time.perf_counter() - begun
    if library != "symgrad":
        return {"all": seconds}
    return {**watch.seconds, REST: seconds - sum(watch.seconds.values()), "all": seconds}


def seconds_to_run(program: str) -> float:
    """Return the seconds that a line of Python takes in a new process."""
    code = f"import time; t = time.perf_counter(); {program}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=_environment())
    return float(run.stdout)


def _options() -> argparse.ArgumentParser:
    parser = shared_options(__doc__)
    parser.add_argument("--case", choices=CASES, help="time one case here, and print it as JSON")
    parser.add_argument("--library", choices=("symgrad", "JAX"), default="symgrad")
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="CASE", default=CASES)
    return parser


def main() -> None:
    """Print the report, or with `--case` what this process found, as JSON."""
    chosen = _options().parse_args()
    if chosen.case is not None:
        print(json.dumps(time_first_step(chosen.case, chosen.library, chosen.quick)))
        return
    report = measure(chosen.quick, chosen.only)
    print(report)
    if chosen.json is not None:
        write_json(chosen.json, [report])


if __name__ == "__main__":
    main()
