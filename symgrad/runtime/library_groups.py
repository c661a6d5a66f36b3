"""Communicators of exported libraries: what a step that calls MPI is given when it is loaded.

The manifest says by which names a library knows its handles; a group of processes has the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from symgrad.errors import LoadError, user_source
from symgrad.graph.foreign_functions import ProcessGroup, is_symbol
from symgrad.runtime.aot_manifest import refuse

Groups = Mapping[str, ProcessGroup]
_Record = Mapping[str, Any]
_NOBODY = "MPI_PROC_NULL"


def find_groups(path: Path, records: Sequence[_Record], given: Any) -> Groups:
    """Return the groups of the handles by name: `given` is the only one, or a mapping of them.

    Raises `LoadError` where one is missing or of another size, where the library is of another rank
    of it, or one is given that nobody needs, and for records that no manifest has.
    """
    if not all(map(_is_record, records)):
        raise refuse(path, "the manifest names handles that are none")
    sizes = {record["name"]: record["ranks"] for record in records if _is_group(record)}
    groups = given if isinstance(given, Mapping) else dict.fromkeys(list(sizes)[:1] or [""], given)
    groups = {name: group for name, group in groups.items() if group is not None}
    subject, told = f"load {path.name}", ", ".join(f"{n} of {s} ranks" for n, s in sizes.items())
    for name in (*sizes, *groups):
        if name not in groups:
            problem = f"its steps call MPI on {told}, and {name} is not given"
            hint = "load(path, comm=sg.distributed.world()), or a dict by these names"
            raise LoadError(subject, problem, hint=hint, source=user_source())
        if name not in sizes:
            problem = f"comm is given, and its steps call MPI on {told or 'no communicator'}"
            raise LoadError(subject, problem, source=user_source())
        if groups[name].size != sizes[name]:
            problem = f"made for {sizes[name]} ranks of {name}, comm has {groups[name].size}"
            raise LoadError(subject, problem, source=user_source())
    for record in filter(_is_group, records):
        name, rank = record["name"], record.get("rank")
        if rank is not None and rank != groups[name].rank:
            problem = f"made for rank {rank} of {name}, which has parts of variables; this is rank"
            hint = "export on each rank, to a path of its own"
            raise LoadError(
                subject, f"{problem} {groups[name].rank}", hint=hint, source=user_source()
            )
    return groups


def handle_values(records: Sequence[_Record], groups: Groups) -> list[int]:
    """Return the values of handles, in their order, for this rank."""
    if not records:
        return []
    library = next(iter(groups.values()))
    names = [record["name"] for record in records if "ranks" not in record]
    *values, nobody = library.constants([*names, _NOBODY])
    known = dict(zip(names, values, strict=True))
    return [_value(record, groups, known, nobody) for record in records]


def _value(record: _Record, groups: Groups, known: Mapping[str, int], nobody: int) -> int:
    if "chosen" in record:
        chosen = record["chosen"][groups[record["group"]].rank]
        return nobody if chosen is None else int(chosen)
    return groups[record["name"]].value if _is_group(record) else known[record["name"]]


def _is_record(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and is_symbol(record.get("name"))
        and isinstance(record.get("ranks", 1), int)
        and isinstance(record.get("rank", 0), int)
        and isinstance(record.get("chosen", []), list)
    )


def _is_group(record: _Record) -> bool:
    return "ranks" in record and "chosen" not in record
