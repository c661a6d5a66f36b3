"""CPU affinity and quotas: how many cores this process may use, whatever the machine has.

A container is often given the time of some cores rather than the cores: so many microseconds in a
period, by a control group (cgroup) of Linux. More threads than that would be stopped for the rest
of each period.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_ROOT = Path("/")


def usable_cores(root: Path = _ROOT) -> int:
    """Return how many cores this process may use: of its affinity, and by its quota.

    `root` is where the files of the system are.
    """
    quotas = [quota for quota in _quotas(root) if quota is not None]
    return max(1, min([_affinity(), *(round(quota) for quota in quotas)]))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float | None]:
    """Yield the quotas, in cores, of the groups this process is in, and of those around them."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from map(_quota, _around(root / "sys/fs/cgroup", path))
        elif "cpu" in controllers.split(","):
            for mounted in ("cpu", "cpu,cpuacct"):
                yield from map(_quota_of_version_1, _around(root / "sys/fs/cgroup" / mounted, path))


def _around(mounted: Path, path: str) -> Iterator[Path]:
    """Yield the folder of a group and of each around it, up to the one that is seen from here.

    In a container the first ones may not be there, as the path is that outside.
    """
    group = PurePosixPath(path.removeprefix("/"))
    yield from (mounted / part for part in (group, *group.parents))


def _quota(group: Path) -> float | None:
    words = _text(group / "cpu.max").split()
    return _cores(*words) if len(words) == 2 else None


def _quota_of_version_1(group: Path) -> float | None:
    words = (_text(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    return _cores(*words)


def _cores(quota: str, period: str) -> float | None:
    # "max", and -1, are for no quota.
    return int(quota) / int(period) if quota.isdecimal() and int(period) > 0 else None


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
