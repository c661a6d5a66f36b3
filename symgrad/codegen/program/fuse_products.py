"""Kernel fusion across launches: products and what is done with their rows, a block at a time.

    launch @k0(input0, input1, temporary0)         // scores: rows of queries @ keys
    launch @k1(temporary0, temporary1)             // softmax of each row
    launch @k2(temporary1, input2, output0)        // @ values

becomes

    launch @k3(input0, input1, input2, output0, temporary0, temporary1)

where `temporary0` and `temporary1` are a block of rows, since nothing else reads them: their memory
grows with the length of a row and not with its square. Which kernels have the same rows
`schedule/row_stages.py` says, and what is made of them `schedule/fuse_products.py`. Here are found
launches that read what a product makes, or what is made of that; what is between them and needs
nothing of them is done before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, MutableMapping, Sequence, Set

from symgrad.codegen.loops.canonical import renamed
from symgrad.codegen.loops.language import Fold, Kernel, Mode, Param
from symgrad.codegen.loops.rewrite import is_free_of
from symgrad.codegen.program.fuse_batches import RowKernel
from symgrad.codegen.program.language import (
    Argument,
    Instr,
    Launch,
    Program,
    root,
)
from symgrad.codegen.program.launch_fusions import LaunchFusions
from symgrad.codegen.program.moving import PassedOver, can_fail
from symgrad.codegen.program.rewrite_launches import rewrite_launches, while_any
from symgrad.codegen.program.share_sums import RowLaunch, SumsShared
from symgrad.codegen.schedule.fuse_products import RowFusion
from symgrad.codegen.schedule.fuse_products import fuse_products as fuse_kernels
from symgrad.codegen.schedule.parallelize import ONE_THREAD
from symgrad.codegen.schedule.passes import Machine
from symgrad.codegen.schedule.register_tiles import transpose_in_registers
from symgrad.codegen.schedule.row_blocks import rows_of_block, rows_without_sums
from symgrad.codegen.schedule.row_stages import (
    Layouts,
    MatrixRows,
    Stage,
    product_rows,
    row_accesses,
    stages_of,
)
from symgrad.codegen.schedule.split_epilogue import SUMS, split_epilogue
from symgrad.codegen.schedule.vectorize import vectorize
from symgrad.codegen.target import Target
from symgrad.cost_model import (
    BLOCK_MULTIPLE,
    BYTES_OF_PRODUCTS,
    FOLDED_OF_ROW,
    INSTRS_OF_PRODUCTS,
)
from symgrad.records import replace

_LABELS = 4


def fuse_products(
    program: Program,
    machine: Machine,
    alone: MutableMapping[str, Kernel],
    by_rows: MutableMapping[str, RowKernel],
) -> Program:
    """Fuse products with what reads their rows: return `program` with blocks of these in cache.

    `alone` are kernels that threads share as they are for one thread: how many there are changes
    nothing in what is fused, and so in the order of sums. What is made is added to `by_rows`.
    """
    pool = _RowFusions(program, machine, alone)
    fuse, sums = while_any(pool.fuse_at), pool.sums_shared(alone)

    def rewrite(instrs: list[Instr]) -> None:
        fuse(instrs)
        sums.share_in(instrs)

    fused = rewrite_launches(program, pool.names, rewrite)
    by_rows.update(pool.made)
    return fused


class _RowGroup:
    """Launches that come together, and their kernels as stages over the same rows."""

    def __init__(self, rows: MatrixRows, alone: Mapping[str, Kernel]) -> None:
        self.rows = rows
        self._alone = alone
        self.launches: list[Launch] = []
        self.passed = PassedOver()
        self.stages: list[Stage] = []
        self.params: dict[str, Param] = {}
        self.layouts: Layouts = {}
        self.block = rows.count
        self._names: dict[tuple[Argument, int], str] = {}

    @property
    def places(self) -> dict[str, tuple[Argument, int]]:
        """The argument of each parameter, and where the kernel begins in it."""
        return {name: place for place, name in self._names.items()}

    def reads(self, launch: Launch) -> bool:
        """Return whether a launch reads what those of the group write."""
        read, places = _arguments(launch, "in"), self.places
        return any(p.mode == "out" and places[n][0] in read for n, p in self.params.items())

    @property
    def is_batch(self) -> bool:
        """Whether there are several matrices: what a block reads beside rows is then small."""
        return math.prod(self.rows.batch) > 1

    @property
    def has_folds(self) -> bool:
        """Whether the first product's rows are folded, as by a softmax, before another has them.

        Be it written out or not.
        """
        made = _written(self.stages[0])
        for stage in self.stages[1:]:
            if not any(buffer in made for buffer, _, _ in row_accesses(stage)):
                continue
            if not is_free_of(stage.statement.body, Fold) or self._shortens(stage):
                return True
            if stage.axis is None:
                made |= _written(stage)
        return False

    def other_block(self, row_bytes: int, target: Target) -> int:
        """Return of how many rows blocks are better that add to no sums; 0 if these do, or none.

        It follows from what has no rows of a block, as keys and values, or weights.
        """
        beside = (p.nbytes for name, p in self.params.items() if self.layouts.get(name) is None)
        if any(stage.is_sum for stage in self.stages):
            return 0
        return rows_without_sums(self.rows, row_bytes, sum(beside), target)

    def _shortens(self, stage: Stage) -> bool:
        """Return whether a stage that is no product writes much shorter rows than it reads."""
        lengths: dict[bool, list[int]] = {False: [0], True: []}
        for name, _, is_written in row_accesses(stage):
            layout = self.layouts.get(name)
            if layout is not None:
                lengths[is_written].append(layout.length)
        written = max(lengths[True], default=0)
        return stage.axis is None and 0 < FOLDED_OF_ROW * written <= max(lengths[False])

    def joins(self, launch: Instr, later: Sequence[Instr]) -> bool:
        """Add a launch with the same rows that belongs to the others; return whether it does.

        It reads what they write, or is a product that one `later` reads together with that.
        """
        if not isinstance(launch, Launch):
            return False
        return (self.reads(launch) or self._is_met(launch, later)) and self.join(launch)

    def joins_without(self, product: Launch, epilogue: Launch) -> bool:
        """Add a sum over rows whose `epilogue` is done behind them; return whether it was."""
        made = {self.places[name][0] for name, p in self.params.items() if p.mode == "out"}
        is_apart = made.isdisjoint(_arguments(epilogue, "in"))
        return is_apart and self.reads(product) and self.join(product)

    def _is_met(self, launch: Launch, later: Sequence[Instr]) -> bool:
        if product_rows(self._alone.get(launch.name, launch.kernel)) != self.rows:
            return False
        made = _arguments(launch, "out")
        readers = (i for i in later if isinstance(i, Launch) and self.reads(i))
        return any(not made.isdisjoint(_arguments(reader, "in")) for reader in readers)

    def join(self, launch: Launch) -> bool:
        """Add a launch behind the others if its kernel goes through the same rows."""
        names = dict(self._names)
        kernel = self._renamed(launch, names)
        is_one_way = len({root(argument) for argument, _ in names}) == len(names)
        found = stages_of(kernel, self.rows, self.layouts) if is_one_way else None
        params = {p.name: p for p in kernel.params if p.mode != "scratch"}
        is_written_again = any(p.mode == "out" and n in self.params for n, p in params.items())
        if found is None or launch.statuses or is_written_again:
            return False
        if any(stage.is_sum and self._adds_much(stage, params) for stage in found[0]):
            return False
        # Products get their scratch memory when they are tiled; what else has some keeps to itself.
        if any(name not in params for stage in found[0] for name, _, _ in row_accesses(stage)):
            return False
        for name, param in params.items():
            known = self.params.get(name, param)
            self.params[name] = replace(known, count=max(known.count, param.count))
        stages, self.layouts = found
        self.stages += stages
        self.launches.append(launch)
        self.passed.add(launch)
        self._names = names
        return True

    def _adds_much(self, stage: Stage, params: Mapping[str, Param]) -> bool:
        """Return whether blocks read and write more of a sum than its operands would be apart.

        As the gradients of weights do, which are large beside the rows of a block. What several
        matrices of a batch add up to is each for itself, and as long as a row.
        """
        if self.is_batch:
            return False
        accesses = list(row_accesses(stage))
        made = {buffer for buffer, _, _ in accesses if buffer in self.layouts}
        sums = _written(stage)
        blocks = self.rows.count // self.block
        return blocks * _bytes_of(params, sums) > _bytes_of(params, made)

    def _renamed(self, launch: Launch, names: dict[tuple[Argument, int], str]) -> Kernel:
        """Return the kernel of a launch with the names that all kernels have, adding to `names`."""
        number = len(self.launches)
        buffers = []
        for i, param in enumerate(launch.kernel.params):
            place = launch.arguments[i], launch.starts[i]
            own = f"scratch{number}.{i}"
            name = own if param.mode == "scratch" else names.setdefault(place, f"a{len(names)}")
            buffers.append(name)
        kernel = self._alone.get(launch.kernel.name, launch.kernel)
        return renamed(kernel, buffers, f"s{number}")


class _RowFusions:
    """The kernels that are made, how often each buffer is named, and numbers of new ones."""

    def __init__(self, program: Program, machine: Machine, alone: Mapping[str, Kernel]) -> None:
        self._machine = machine
        self._alone = alone
        self._fusions = LaunchFusions(program)
        self.names = self._fusions.names
        self.made: dict[str, RowKernel] = {}
        self._launches: list[RowLaunch] = []

    def fuse_at(self, position: int, instrs: list[Instr]) -> bool:
        """Fuse the product at `position` with later launches, in place; return whether it was."""
        first = instrs[position]
        if not isinstance(first, Launch) or first.fused:
            return False
        kernel = self._alone.get(first.name, first.kernel)
        makes_much = any([p.mode == "out" and p.nbytes >= BYTES_OF_PRODUCTS for p in kernel.params])
        rows = product_rows(kernel) if makes_much else None
        if rows is None:
            return False
        group = _RowGroup(rows, self._alone)
        row_bytes = self._row_bytes(group) if group.join(first) else 0
        group.block = rows_of_block(rows, row_bytes) if row_bytes else 0
        if not group.block:
            return False
        end = min(position + INSTRS_OF_PRODUCTS, len(instrs))
        before, behind = self._gather(group, instrs[position + 1 : end])
        own = self._own(group)
        saved = (p.nbytes for n, p in group.params.items() if n in own)
        is_gain = group.is_batch or group.has_folds
        if len(group.launches) == 1 or not is_gain or max(saved, default=0) < BYTES_OF_PRODUCTS:
            return False
        other = group.other_block(row_bytes, self._machine.target)
        instrs[position:end] = [*before, self._launch(group, own, other), *behind]
        return True

    def _row_bytes(self, group: _RowGroup) -> int:
        """Return how long the rows of a product are, 0 if what it makes is little, or no rows."""
        made = [p for p in group.params.values() if p.mode == "out"]
        rows = [layout for p in made if (layout := group.layouts.get(p.name)) is not None]
        if len(rows) < len(made) or max(p.nbytes for p in made) < BYTES_OF_PRODUCTS:
            return 0
        return max(r.length * p.dtype.itemsize for r, p in zip(rows, made, strict=True))

    def _gather(self, group: _RowGroup, instrs: list[Instr]) -> tuple[list[Instr], list[Instr]]:
        """Let those of `instrs` join that can; return what is before and behind the group then."""
        before: list[Instr] = []
        behind = PassedOver()
        for number, instr in enumerate(instrs):
            if behind.lets(instr) and group.joins(instr, instrs[number + 1 :]):
                continue
            rest = self._left_of_sum(group, instr, behind)
            # Which failure is met first stays as it was.
            fails_apart = can_fail(instr) and behind.can_fail
            if rest is not None:
                behind.add(rest)
            elif fails_apart or not (group.passed.lets(instr) and behind.lets(instr)):
                behind.add(instr)
            else:
                before.append(instr)
        return before, behind.instrs

    def _left_of_sum(self, group: _RowGroup, launch: Instr, behind: PassedOver) -> Launch | None:
        """Let a sum over rows join without its epilogue, and return that; None if it does not.

        So it is where the epilogue alone needs what is done behind the group, as an average needs
        what it is divided by.
        """
        if not isinstance(launch, Launch) or launch.statuses or not group.reads(launch):
            return None
        if behind.lets(launch):
            return None
        parts = split_epilogue(self._alone.get(launch.name, launch.kernel))
        if parts is None:
            return None
        places = dict(zip((p.name for p in launch.kernel.params), _places(launch), strict=True))
        places[SUMS] = self._fusions.temporary(parts[0].params[-1]), 0
        product, rest = (_part(launch, kernel, places) for kernel in parts)
        if not behind.lets(product) or not group.joins_without(product, rest):
            return None
        kernel = transpose_in_registers(vectorize(rest.kernel, self._machine.target))
        return replace(rest, kernel=self.names.shared(kernel))

    def _own(self, group: _RowGroup) -> frozenset[str]:
        """Return of which buffers nothing but the group needs more than the rows of a block."""
        within = self._fusions.own_temporaries(group.launches)
        own = {name for name, (a, start) in group.places.items() if not start and a in within}
        return frozenset(
            name
            for name, param in group.params.items()
            if name in own and param.mode == "out" and group.layouts.get(name) is not None
        )

    def _launch(self, group: _RowGroup, own: frozenset[str], other: int) -> Launch:
        """Return one launch for those of a group, in blocks of `other` rows if these are any good.

        Of an odd block more is left over beside tiles. Where chunks of columns are in a cache with
        what is read beside them, blocks without these would read more between two rows.
        """
        params = tuple(group.params.values())
        fusion = RowFusion(group.rows, tuple(group.stages), params, group.layouts, own, group.block)
        if other and other % BLOCK_MULTIPLE == 0 and fusion.chunks is None:
            fusion = replace(fusion, block=other)
        launch = self._launch_of(fusion, group.places, group.launches)
        self._launches.append(RowLaunch(launch, fusion, group.places))
        return launch

    def _launch_of(
        self,
        fusion: RowFusion,
        places: Mapping[str, tuple[Argument, int]],
        launches: Sequence[Launch],
    ) -> Launch:
        """Return one launch for `launches`, whose stages are those of a fusion."""
        kernel = fuse_kernels(fusion, self._machine)
        shared = self.names.shared(kernel)
        if shared.name not in self.made:
            machine = replace(self._machine, threads=ONE_THREAD)
            is_alone = self._machine.threads.count == 1
            alone = shared if is_alone else fuse_kernels(fusion, machine)
            self.made[shared.name] = RowKernel(fusion.rows.batch, alone)
        arguments, starts = [], []
        for param in kernel.params:
            argument, start = places.get(param.name, (None, 0))
            if argument is None or param.mode == "scratch":
                argument, start = self._fusions.temporary(param), 0
            arguments.append(argument)
            starts.append(start)
        labels = [launch.label for launch in launches]
        more = f" and {len(labels) - _LABELS} more" if len(labels) > _LABELS else ""
        return Launch(
            " with ".join(labels[:_LABELS]) + more,
            shared,
            tuple(arguments),
            tuple(starts),
            (),
            tuple(launches),
        )

    def sums_shared(self, alone: MutableMapping[str, Kernel]) -> SumsShared:
        """Return what lets the launches that were made share sums."""

        def relaunched(row: RowLaunch) -> Launch:
            return self._launch_of(row.fusion, row.places, row.launch.fused)

        return SumsShared(self._fusions, alone, self._launches, relaunched)


def _places(launch: Launch) -> Iterator[tuple[Argument, int]]:
    """Yield the arguments of a launch, and where in each the kernel begins."""
    yield from zip(launch.arguments, launch.starts, strict=True)


def _part(launch: Launch, kernel: Kernel, places: Mapping[str, tuple[Argument, int]]) -> Launch:
    """Return a launch of a kernel that does a part of what that of another launch does."""
    arguments, starts = zip(*(places[p.name] for p in kernel.params), strict=True)
    return Launch(launch.label, kernel, arguments, starts, (), (launch,))


def _arguments(launch: Launch, mode: Mode) -> set[Argument]:
    """Return the arguments that a launch has for parameters of a mode."""
    pairs = zip(launch.arguments, launch.kernel.params, strict=True)
    return {argument for argument, param in pairs if param.mode == mode}


def _written(stage: Stage) -> set[str]:
    return {buffer for buffer, _, is_written in row_accesses(stage) if is_written}


def _bytes_of(params: Mapping[str, Param], names: Set[str]) -> int:
    return sum(p.nbytes for p in params.values() if p.name in names)
