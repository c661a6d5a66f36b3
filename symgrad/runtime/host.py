"""Host check: what a processor must have to run code for a target, and whether this one has it.

A step may be compiled for another machine, to be looked at or exported. Its code would end a
process here at the first instruction that this processor does not know.
"""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from symgrad.codegen.target import Target
from symgrad.errors import CompileError, user_source

# What the levels of the x86-64 psABI add, by LLVM's names of features.
_LEVEL_FEATURES = {
    2: ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
    3: ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    4: ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}


def required_features(target: Target) -> list[str]:
    """Return what a CPU must have to run code for `target`, by LLVM's names."""
    if target.name == "native":
        return sorted(f[1:] for f in target.features.split(",") if f.startswith("+"))
    return [f for level, fs in _LEVEL_FEATURES.items() if level <= target.level for f in fs]


def host_architecture() -> str:
    """Return the architecture of this machine, "x86_64" or "aarch64"."""
    triple: str = llvm.get_default_triple()
    return triple.partition("-")[0]


def missing_features(features: list[str]) -> list[str]:
    """Return those of `features` that this CPU does not have."""
    host = llvm.get_host_cpu_features()
    return [feature for feature in features if not host.get(feature, False)]


def check_runs_here(subject: str, target: Target) -> None:
    """Raise `CompileError` if code for `target`, of what is called `subject`, cannot run here."""
    problem = why_not_here(target)
    if problem is not None:
        raise CompileError(
            subject,
            f"compiled for {target.name}, {problem}",
            hint='compile it with target="native" to run it here; export writes it for another CPU',
            source=user_source(),
        )


@cache
def why_not_here(target: Target) -> str | None:
    """Return what this machine has not, or is, if it cannot run code for `target`."""
    if target.name == "native":
        return None
    if target.architecture != host_architecture():
        return f"this machine is {host_architecture()}"
    missing = missing_features(required_features(target))
    return f"this CPU lacks {', '.join(missing)}" if missing else None
