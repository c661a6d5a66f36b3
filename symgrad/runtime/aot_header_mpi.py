"""The part of a C header that gives an instance its communicator and other handles of MPI.

Handles are read from the `mpi.h` that the header is compiled with, since libraries of MPI differ in
what they are; the object is the same for all of them.
"""

from __future__ import annotations

from symgrad.codegen.c_interface.abi import Handle, Interface

_ABOUT = """\
/* Steps call MPI: build with `mpicc`, of any library of MPI; it is initialised by MPI_Init before.
   All ranks call the same steps in the same order on communicators of as many ranks as the steps
   were made for, which no other messages are sent on (MPI_Comm_dup):
{groups}
   `init_mpi` makes an instance, `connect_mpi` gives one that there is the communicators: after
   `init_from`, or in place of those it has. `connect` takes the {count} handles themselves:
{handles}
*/
int32_t {name}_connect({name}_instance *self, const int64_t *handles, int32_t count);

static inline int32_t {name}_connect_mpi({name}_instance *self, {parameters}) {{
    int64_t handles[{count}];
    int size, rank;
{body}
    (void)rank;
    return {name}_connect(self, handles, {count});
}}

static inline int32_t {name}_init_mpi({name}_instance *self, {parameters}) {{
    int32_t status = {name}_init(self);
    return status ? status : {name}_connect_mpi(self, {arguments});
}}"""


def print_connection(interface: Interface) -> list[str]:
    """Return the declarations for steps that call MPI, if there are any."""
    if not interface.handles:
        return []
    groups = [group.lineage[-1] for group in interface.groups]
    text = _ABOUT.format(
        name=interface.name,
        groups="\n".join(_group_line(interface, g.lineage, g.size) for g in interface.groups),
        count=len(interface.handles),
        handles="\n".join(
            f"     {i} {handle.symbol.name}" for i, handle in enumerate(interface.handles)
        ),
        parameters=", ".join(f"MPI_Comm {name}" for name in groups),
        arguments=", ".join(groups),
        body="\n".join(_body(interface)),
    )
    return [text]


def _body(interface: Interface) -> list[str]:
    """Return the statements that fill the table of handles."""
    lines = [
        f"    handles[{number}] = (int64_t)(intptr_t){handle.symbol.name};"
        for number, handle in enumerate(interface.handles)
        if handle.symbol.chosen is None
    ]
    for group in interface.groups:
        lines += _group_lines(interface, group.lineage[-1], group.size)
    return lines


def _group_line(interface: Interface, lineage: tuple[str, ...], size: int) -> str:
    around = f", split of {lineage[-2]}" if len(lineage) > 1 else ""
    rank = interface.ranks.get(lineage[-1])
    own = "" if rank is None else f"; variables start with the parts of rank {rank}"
    return f"     {lineage[-1]}: {size} ranks{around}{own}"


def _group_lines(interface: Interface, group: str, size: int) -> list[str]:
    """Return what checks a communicator, and chooses the ranks that depend on the one there."""
    wrong = f"{interface.name.upper()}_OTHER_RANKS"
    own = f" || rank != {interface.ranks[group]}" if group in interface.ranks else ""
    lines = [
        f"    if (MPI_Comm_size({group}, &size) || size != {size}) return {wrong};",
        f"    if (MPI_Comm_rank({group}, &rank){own}) return {wrong};",
    ]
    for number, handle in enumerate(interface.handles):
        lines += _chosen_lines(number, handle, group)
    return lines


def _chosen_lines(number: int, handle: Handle, group: str) -> list[str]:
    table = handle.symbol.chosen
    if table is None or table.group.lineage[-1] != group:
        return []
    ranks = ", ".join("-1" if rank is None else str(rank) for rank in table.ranks)
    name = f"ranks{number}"
    return [
        f"    static const int {name}[] = {{{ranks}}};",
        f"    handles[{number}] = {name}[rank] < 0 ? MPI_PROC_NULL : {name}[rank];",
    ]
