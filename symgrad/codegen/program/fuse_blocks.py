"""Kernel fusion across launches: batched products and what is done with their rows, block by block.

    launch @k2(input3, input1, temporary2)                // rows less means
    launch @k4(temporary1, temporary2, ..., temporary4)   // times a small matrix for each mean
    launch @k25(temporary4, ..., temporary19, ...)        // a softmax of the lengths of these
    launch @k26(temporary19, temporary4, temporary22, temporary2, ...)

become one launch, which does all of it for a block of rows, and then for the next one. Such
products come in blocks already (`schedule/block_batches.py`), since they reach a piece of each row.
What is in rows around them is more than caches hold, and each launch would read and write it all.
Which loops can be one `schedule/fuse_blocks.py` says. Here are found launches that may come
together, and the number of pieces: that of the loop among them with the fewest iterations.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from symgrad.codegen.loops.language import For, Kernel, Product, Stmt
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.program.language import Instr, Launch, Program
from symgrad.codegen.program.launch_fusions import JointParams, LaunchFusions, can_be_joined
from symgrad.codegen.program.moving import gathered
from symgrad.codegen.program.rewrite_launches import rewrite_launches, while_any
from symgrad.codegen.schedule.block_memory import block_kernel
from symgrad.codegen.schedule.fuse_batches import can_be_fused
from symgrad.codegen.schedule.fuse_blocks import PIECE, Fusion, fuse_along
from symgrad.codegen.schedule.parallelize import scratch_of_parts
from symgrad.codegen.schedule.passes import Machine
from symgrad.codegen.schedule.vectorize import perfect_nest
from symgrad.cost_model import (
    BYTES_SWEPT,
    INSTRS_OF_PRODUCTS,
    LEAST_BYTES_IN_BLOCKS,
    MOST_STATEMENTS_OF_BLOCK,
    PIECES,
)
from symgrad.records import replace


def fuse_blocks(program: Program, machine: Machine, by_rows: Container[str]) -> Program:
    """Fuse what is done with blocks of rows: return `program` with fewer launches.

    The kernels in `by_rows` do products by rows in blocks of their own.
    """
    pool = _BlockFusions(program, machine, by_rows)
    return rewrite_launches(program, pool.made.names, while_any(pool.fuse_at))


class _BlockGroup:
    """Launches that come together, and their statements one after another."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.launches: list[Launch] = []
        self.joint = JointParams()
        self.body: tuple[Stmt, ...] = ()
        self.fusion = Fusion((), (), ())

    def shares(self, launch: Launch) -> bool:
        """Return whether a launch touches much of what the group touches."""
        return not self.launches or any(
            p.nbytes >= BYTES_SWEPT and a in self.joint.names
            for a, p in zip(launch.arguments, launch.kernel.params, strict=True)
        )

    def join(self, launch: Launch) -> bool:
        """Add a launch behind the others; return whether a loop of it can be one with theirs."""
        kernel = _alone(launch.kernel)
        found = self.joint.joined(launch, kernel, len(self.launches))
        if found is None:
            return False
        joint, more = found
        body = (*self.body, *more)
        fusion = fuse_along(body, PIECE, self.count)
        if fusion is None or len(fusion.body) <= len(self.fusion.body):
            return False
        self.joint, self.body, self.fusion = joint, body, fusion
        self.launches.append(launch)
        return True


def _alone(kernel: Kernel) -> Kernel:
    """Return a kernel whose loops threads share as one that they do not share."""
    times = dict(scratch_of_parts(kernel.body, 1))
    params = (replace(p, count=p.count // times.get(p.name, 1)) for p in kernel.params)
    return replace(kernel, params=tuple(params), body=tuple(map(_unshared, kernel.body)))


def _unshared(statement: Stmt) -> Stmt:
    if not isinstance(statement, For):
        return statement
    return replace(statement, parallel=None, body=tuple(map(_unshared, statement.body)))


class _BlockFusions:
    """Groups of launches of a program that are made one."""

    def __init__(self, program: Program, machine: Machine, by_rows: Container[str]) -> None:
        self._machine = machine
        self._by_rows = by_rows
        self.made = LaunchFusions(program)

    def fuse_at(self, position: int, instrs: list[Instr]) -> bool:
        """Fuse the launch at `position` with later ones, in place; return whether there are."""
        first, end = instrs[position], position + INSTRS_OF_PRODUCTS
        # Most programs have no such products: whether there are some is asked before all else.
        if not isinstance(first, Launch) or not self._is_plain(first):
            return False
        launches = [i for i in instrs[position:end] if isinstance(i, Launch)]
        if not any(_has_blocks(i.kernel) and self._is_plain(i) for i in launches):
            return False
        found = [i for i in launches if self._is_plain(i)]
        for count in sorted({loop.extent for i in found for loop in _loops(i.kernel)}):
            group = _BlockGroup(count)
            if not self._joins(group, first):
                continue
            joins = partial(self._joins, group)
            before, behind = gathered(instrs[position + 1 : end], joins, group.launches)
            products = sum(_has_blocks(launch.kernel) for launch in group.launches)
            length = sum(1 for _ in statements(group.body))
            if products and len(group.launches) > 1 and length <= MOST_STATEMENTS_OF_BLOCK:
                instrs[position:end] = [*before, self._launch(group), *behind]
                return True
        return False

    def _is_plain(self, launch: Launch) -> bool:
        """Return whether a launch sweeps over much, in loops that can be seen."""
        kernel = launch.kernel
        # What is asked first is what most launches are not, and takes the least time.
        if launch.statuses or not any(p.nbytes >= BYTES_SWEPT for p in kernel.params):
            return False
        if kernel.name in self._by_rows or not _loops(kernel) or not can_be_joined(launch):
            return False
        is_shared = any(isinstance(s, Product) and s.parallel for s in statements(kernel.body))
        return not is_shared and can_be_fused(kernel.body)

    def _joins(self, group: _BlockGroup, instr: Instr) -> bool:
        is_plain = isinstance(instr, Launch) and self._is_plain(instr)
        return isinstance(instr, Launch) and is_plain and group.shares(instr) and group.join(instr)

    def _launch(self, group: _BlockGroup) -> Launch:
        """Return one launch for those of a group."""
        arguments, within = group.joint.arguments, self.made.own_temporaries(group.launches)
        own = {n for n in group.joint.params if n not in arguments or arguments[n] in within}
        params = tuple(group.joint.params.values())
        kernel = block_kernel(group.fusion, group.count, params, own, self._machine)
        return self.made.launch(group.launches, kernel, arguments)


def _loops(kernel: Kernel) -> list[For]:
    """Return loops of a kernel that may be over blocks."""
    loops = (s for s in kernel.body if isinstance(s, For) and s.vector == 1 and not s.ordered)
    return [loop for loop in loops if loop.extent >= PIECES]


def _has_blocks(kernel: Kernel) -> bool:
    """Return whether a kernel has batched products that come in blocks of rows."""
    is_large = any(p.nbytes >= LEAST_BYTES_IN_BLOCKS for p in kernel.params)
    return is_large and any(
        len(loops) > 1 and isinstance(body[0], Product)
        for loops, body in map(perfect_nest, _loops(kernel))
    )
