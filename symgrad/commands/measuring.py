"""Subcommands about a machine: how long steps take on it, and what it is."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path

from tabulate import tabulate

from symgrad.codegen.native.cores import usable_cores
from symgrad.codegen.target import TARGET_NAMES, llvm_version, target_named
from symgrad.commands.loading import Loaded
from symgrad.config import settings
from symgrad.runtime.limits import machine_limits
from symgrad.testing.timing import interleave

_LIBRARIES = ("numpy", "llvmlite", "networkx", "ml_dtypes", "optree", "safetensors", "jinja2")


def bench_text(programs: Sequence[Loaded], rounds: int, seconds: float) -> str:
    """Return the time of a call of each step; they take turns."""
    # Numbered, since one step may be timed against itself.
    calls = {str(i): partial(p.step, *p.arguments()) for i, p in enumerate(programs)}
    times = list(interleave(calls, rounds=rounds, seconds=seconds).values())
    rows = [
        (program.name, t.median * 1e6, t.best * 1e6, t.ratio(times[0]))
        for program, t in zip(programs, times, strict=True)
    ]
    headers = ("step", "median us", "best us", "times the first")
    return f"{tabulate(rows, headers=headers, floatfmt=('', '.3f', '.3f', '.3f'))}\n"


def info_text(*, is_measured: bool = True) -> str:
    """Return what a report of a fault needs: versions, the machine, its limits, the settings.

    The limits, which profiles are held against, are of one core and take a second to measure.
    """
    target = target_named("native")
    rows = [
        ("symgrad", _version("symgrad")),
        ("Python", f"{platform.python_version()} on {platform.platform()}"),
        ("LLVM", llvm_version()),
        *((name, _version(name)) for name in _LIBRARIES),
        ("processor", _processor()),
        ("cores", f"{usable_cores()} of {os.cpu_count()}"),
        ("native target", f"{target.cpu}, {target.triple}"),
        ("vectors", f"{target.vector_registers} registers of {target.vector_bytes} bytes"),
        ("other targets", ", ".join(name for name in TARGET_NAMES if name != "native")),
        ("linker", shutil.which("cc") or "no cc is on the path"),
        *(_limits() if is_measured else ()),
        *((f"setting {name}", str(value)) for name, value in asdict(settings()).items()),
    ]
    return f"{tabulate(rows, tablefmt='plain', disable_numparse=True)}\n"


def _processor() -> str:
    """Return what the system calls the processor; Python itself knows only its architecture."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _limits() -> Iterator[tuple[str, str]]:
    limits = machine_limits()
    for dtype, rate in limits.gflops.items():
        yield f"limit of {dtype}", f"{rate:.1f} GFLOP/s"
    for size, rate in limits.gbytes.items():
        yield f"limit of traffic in {size >> 10:,} KiB", f"{rate:.1f} GB/s"


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"
