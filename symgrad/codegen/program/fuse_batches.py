"""Kernel fusion across launches: what is done with each matrix of a batch, one matrix at a time.

    launch @k0(input0, temporary0)                                  // queries * scale
    launch @k1(temporary0, input1, input2, temporary1, ...)         // attention of some rows
    launch @k2(temporary0[4096], input1, input2, temporary2, ...)   // and of the others
    launch @k3(temporary1, temporary2, output0)                     // concat

becomes

    launch @k4(input0, temporary0, input1, input2, temporary1, ..., temporary2, ..., output0)

which computes the attention of one matrix, then that of the next one. So keys and values come from
memory once for all blocks of rows, and the temporaries are as large as for one matrix. It begins at
products that are fused by rows (`fuse_products.py`); which statements are of one matrix
`schedule/fuse_batches.py` says. Here are found launches around it that share a buffer with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from symgrad.codegen.loops.language import Kernel, Param, Stmt
from symgrad.codegen.loops.rewrite import buffers_used, statements
from symgrad.codegen.program.language import Instr, Launch, Program
from symgrad.codegen.program.launch_fusions import JointParams, LaunchFusions, can_be_joined
from symgrad.codegen.program.moving import PassedOver, can_fail, gathered
from symgrad.codegen.program.rewrite_launches import rewrite_launches, while_any
from symgrad.codegen.schedule.fuse_batches import (
    MatrixBatch,
    OfMatrix,
    can_be_fused,
    fuse_batches,
    of_matrix,
    parts_of_matrices,
)
from symgrad.codegen.schedule.passes import Machine
from symgrad.cost_model import (
    BYTES_SWEPT,
    EVEN,
    INSTRS_OF_PRODUCTS,
    LEAST_SUMS_APART,
    MOST_STATEMENTS_OF_BATCH,
)
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class RowKernel:
    """A kernel that does products by rows: the extents of its batch, and it for one thread."""

    batch: tuple[int, ...]
    alone: Kernel


def fuse_by_batches(
    program: Program,
    machine: Machine,
    alone: Mapping[str, Kernel],
    by_rows: Mapping[str, RowKernel],
) -> Program:
    """Fuse what is done with the matrices of a batch: return `program` with fewer launches.

    `by_rows` are the kernels of it that do products by rows, and `alone` others that threads share,
    as they are for one thread.
    """
    pool = _BatchFusions(program, machine, alone, by_rows)
    return rewrite_launches(program, pool.made.names, while_any(pool.fuse_at))


class _BatchGroup:
    """Launches that come together, and what they do with one matrix."""

    def __init__(self, batch: MatrixBatch) -> None:
        self.batch = batch
        self.launches: list[Launch] = []
        self.joint = JointParams()
        self.parts: dict[str, OfMatrix | None] = {}
        self.written: set[str] = set()
        self._bodies: list[tuple[Stmt, ...]] = []

    @property
    def statements(self) -> list[Stmt]:
        return [statement for body in self._bodies for statement in body]

    def shares(self, launch: Launch) -> bool:
        """Return whether a launch touches what the group writes, or something large it reads."""
        return any(
            p.mode != "in" or self.joint.names[a] in self.written or p.nbytes >= BYTES_SWEPT
            for a, p in zip(launch.arguments, launch.kernel.params, strict=True)
            if a in self.joint.names
        )

    def join(self, launch: Launch, kernel: Kernel, *, in_order: bool, first: bool = False) -> bool:
        """Add a launch of `kernel` behind the others, or as the first one; return whether it was.

        It goes through the same batch, and touches of what the others write, or they of what it
        writes, what is of the same matrix. Loops of it may be `in_order` that hand nothing on.
        """
        if not can_be_joined(launch) or not can_be_fused(kernel.body):
            return False
        joined = self.joint.joined(launch, kernel, len(self.launches), first=first)
        if joined is None:
            return False
        joint, apart = joined
        found = [of_matrix(s, self.batch, in_order=in_order) for s in apart]
        bodies = [body for body in found if body is not None]
        if len(bodies) < len(found) or _hands_on(bodies, self.batch, joint.params):
            return False
        body = tuple(statement for part in bodies for statement in part)
        parts, written = self._together(body)
        if any(not _is_of_matrix(parts[n], joint.params[n]) for n in written & parts.keys()):
            return False
        self.joint, self.parts, self.written = joint, parts, written
        at = 0 if first else len(self.launches)
        self.launches.insert(at, launch)
        self._bodies.insert(at, body)
        return True

    def _together(self, body: tuple[Stmt, ...]) -> tuple[dict[str, OfMatrix | None], set[str]]:
        """Return what of each buffer is of one matrix with `body` as well, and what is written."""
        parts = dict(self.parts)
        for name, part in parts_of_matrices(body, self.batch).items():
            known = parts.setdefault(name, part)
            same = known is not None and part is not None and known.steps == part.steps
            smaller = part if known is None or part is None or part.size < known.size else known
            parts[name] = smaller if same else None
        _, stored = buffers_used(body)
        return parts, self.written | stored


class _BatchFusions:
    """Groups of launches of a program that are made one."""

    def __init__(
        self,
        program: Program,
        machine: Machine,
        alone: Mapping[str, Kernel],
        by_rows: Mapping[str, RowKernel],
    ) -> None:
        self._machine = machine
        # Names of kernels that earlier passes have replaced may be those of kernels made here.
        present = {kernel.name for kernel in program.kernels}
        self._alone = {name: kernel for name, kernel in alone.items() if name in present}
        self._by_rows = {name: kernel for name, kernel in by_rows.items() if name in present}
        self.made = LaunchFusions(program)

    def fuse_at(self, position: int, instrs: list[Instr]) -> bool:
        """Fuse products by rows at `position` with launches around; return whether there are."""
        anchor = instrs[position]
        by_rows = self._by_rows.get(anchor.name) if isinstance(anchor, Launch) else None
        if by_rows is None or not isinstance(anchor, Launch):
            return False
        batch = MatrixBatch(tuple(extent for extent in by_rows.batch if extent > 1))
        if not self._is_shared_well(batch.count):
            return False
        group = _BatchGroup(batch)
        if not group.join(anchor, by_rows.alone, in_order=True):
            return False
        start = max(0, position - INSTRS_OF_PRODUCTS)
        end = min(position + INSTRS_OF_PRODUCTS, len(instrs))
        before, behind = instrs[start:position], instrs[position + 1 : end]
        while True:
            known = len(group.launches)
            more, behind = gathered(behind, partial(self._joins, group), group.launches)
            before = self._gather_before(group, [*before, *more])
            if len(group.launches) == known:
                break
        count = sum(1 for _ in statements(group.statements))
        if len(group.launches) == 1 or count > MOST_STATEMENTS_OF_BATCH:
            return False
        instrs[start:end] = [*before, self._launch(group), *behind]
        return True

    def _is_shared_well(self, count: int) -> bool:
        """Return whether threads find enough matrices: each of these is then the work of one."""
        threads = self._machine.threads.count
        return count >= LEAST_SUMS_APART and count / -(-count // threads) >= EVEN * threads

    def _joins(self, group: _BatchGroup, instr: Instr, *, first: bool = False) -> bool:
        if not isinstance(instr, Launch) or not group.shares(instr):
            return False
        by_rows = self._by_rows.get(instr.name)
        if by_rows is not None:
            return group.join(instr, by_rows.alone, in_order=True, first=first)
        kernel = self._alone.get(instr.name, instr.kernel)
        return group.join(instr, kernel, in_order=False, first=first)

    def _gather_before(self, group: _BatchGroup, instrs: Sequence[Instr]) -> list[Instr]:
        """Let those of `instrs` join that can wait for the group; return the others."""
        skipped = PassedOver()
        for instr in reversed(instrs):
            waits = not can_fail(instr) and skipped.lets(instr)
            if not (waits and self._joins(group, instr, first=True)):
                skipped.add(instr)
        return skipped.instrs[::-1]

    def _launch(self, group: _BatchGroup) -> Launch:
        """Return one launch for those of a group."""
        arguments, within = group.joint.arguments, self.made.own_temporaries(group.launches)
        own = {
            name: part
            for name, part in group.parts.items()
            if part is not None and part.size
            if name not in arguments or arguments[name] in within
        }
        params = tuple(group.joint.params.values())
        kernel = fuse_batches(group.batch, group.statements, params, own, self._machine)
        return self.made.launch(group.launches, kernel, arguments)


def _is_of_matrix(part: OfMatrix | None, param: Param) -> bool:
    """Return whether no two matrices touch the same elements of a buffer, or it is scratch."""
    return part is not None and (any(part.steps) or param.mode == "scratch")


def _hands_on(
    bodies: Sequence[tuple[Stmt, ...]], batch: MatrixBatch, params: Mapping[str, Param]
) -> bool:
    """Return whether a statement may read of scratch memory what another one made of a batch."""
    met: Counter[str] = Counter()
    for body in bodies:
        for name, part in parts_of_matrices(body, batch).items():
            is_of_all = part is None or not any(part.steps)
            met[name] += is_of_all and params[name].mode == "scratch"
    return any(count > 1 for count in met.values())
