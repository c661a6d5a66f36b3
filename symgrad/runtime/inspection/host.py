"""The host that a step was measured on: its CPU, its cores, and the versions of what ran."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path

from symgrad.codegen.native.cores import usable_cores
from symgrad.codegen.target import Target, llvm_version
from symgrad.records import dataclass

_CPU_FILE = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Host:
    """What measured times depend on besides the program; `facts` are names and texts to show."""

    cpu: str
    cores: int
    target: str
    versions: Mapping[str, str]
    date: str

    @property
    def facts(self) -> dict[str, str]:
        """The same as texts by name, in the order in which to read them."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return {
            "CPU": self.cpu,
            "cores": f"{self.cores} usable",
            "target": self.target,
            "versions": versions,
            "date": self.date,
        }


def describe_host(target: Target) -> Host:
    """Return what this process runs on, for a program compiled for `target`."""
    versions = {
        "symgrad": _version("symgrad"),
        "Python": platform.python_version(),
        "LLVM": llvm_version(),
        "NumPy": _version("numpy"),
    }
    date = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    text = f"{target.name}: {target.cpu}, vectors of {8 * target.vector_bytes} bits"
    return Host(cpu_name(), usable_cores(), text, versions, date)


@cache
def cpu_name() -> str:
    """Return the name that the system gives the CPU."""
    try:
        lines = _CPU_FILE.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def _version(library: str) -> str:
    from importlib import metadata  # a hundredth of what importing symgrad would take

    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "of a checkout"
