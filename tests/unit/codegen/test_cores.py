"""Cores that a process may use: affinity, and quotas, by files that play those of a system."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from symgrad.codegen import ir
from symgrad.codegen.native import cores
from symgrad.codegen.native.cores import usable_cores
from symgrad.codegen.native.jit import emit_object, load_object, optimize
from symgrad.codegen.target import target_named
from symgrad.codegen.team.quota import READ_QUOTA, emit_quota

_V1 = {"proc/self/cgroup": "4:memory:/job\n1:cpu,cpuacct:/job/step\n0::/\n"}
_V2 = {"proc/self/cgroup": "0::/user/job\n"}

# What the files of a system are, and how many of eight cores they leave.
SYSTEMS: dict[str, tuple[dict[str, str], int]] = {
    "no groups": ({}, 8),
    "no quota": ({**_V2, "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
    "one core": ({**_V2, "sys/fs/cgroup/user/job/cpu.max": "100000 100000\n"}, 1),
    "a group around": ({**_V2, "sys/fs/cgroup/user/cpu.max": "250000 50000\n"}, 5),
    "a container, whose group is named as outside": (
        {**_V2, "sys/fs/cgroup/cpu.max": "200000 100000\n"},
        2,
    ),
    "less than a core": ({**_V2, "sys/fs/cgroup/cpu.max": "10000 100000\n"}, 1),
    "the least of several": (
        {
            **_V2,
            "sys/fs/cgroup/user/job/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/user/cpu.max": "300000 100000\n",
        },
        3,
    ),
    "more than there are": ({**_V2, "sys/fs/cgroup/cpu.max": "3200000 100000\n"}, 8),
    "version 1, no quota": (
        {
            **_V1,
            "sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_period_us": "100000\n",
        },
        8,
    ),
    "version 1, three cores": (
        {
            **_V1,
            "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "300000\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
        },
        3,
    ),
}

# The same of an exported step, which looks at the top of what is mounted only.
EXPORTED: dict[str, tuple[dict[str, str], int]] = {
    "no groups": ({}, 0),
    "no quota": ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, 0),
    "one core": ({"sys/fs/cgroup/cpu.max": "100000 100000\n"}, 1),
    "less than a core": ({"sys/fs/cgroup/cpu.max": "10000 100000\n"}, 1),
    "half a core more": ({"sys/fs/cgroup/cpu.max": "175000 100000\n"}, 2),
    "nothing in it": ({"sys/fs/cgroup/cpu.max": ""}, 0),
    "version 1, no quota": (
        {
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        0,
    ),
    "version 1, three cores": (
        {
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        3,
    ),
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_quota_counts_as_the_cores_it_is_worth(system, tmp_path, monkeypatch):
    files, wanted = SYSTEMS[system]
    monkeypatch.setattr(cores, "_affinity", lambda: 8)
    assert usable_cores(write(tmp_path, files)) == wanted


@pytest.mark.parametrize("system", EXPORTED)
def test_an_exported_step_reads_the_quota_of_its_container(system, tmp_path):
    files, wanted = EXPORTED[system]
    assert reader(write(tmp_path, files))() == wanted


def reader(root: Path) -> Callable[[], int]:
    """Return the function that reads a quota, of the files below `root`."""
    module = ir.Module("quota")
    emit_quota(module, f"{root}/")
    module.globals[READ_QUOTA].linkage = ""
    native = target_named("native")
    code = load_object(emit_object(optimize(str(module), native, 1), native, 1), [READ_QUOTA])
    function = ctypes.CFUNCTYPE(ctypes.c_int64)(code.address(READ_QUOTA))

    def read() -> int:
        assert code
        return int(function())

    return read


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen")
def test_affinity_counts():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
