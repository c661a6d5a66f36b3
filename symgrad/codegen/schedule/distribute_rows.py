"""Loop distribution of strips of rows: short rows are taken some at a time, stage by stage.

    for i in 0..8192 ordered {
      fold m: f32 = ... x[128*i + j] ...
      greatest[i] = m
      t0: f32 = greatest[i]
      for k in 0..128 vector(16) { ... e[k] = exp(x[128*i + k] - t0) }
    }

becomes

    for i in 0..1024 ordered {
      for i.row in 0..8 {
        fold m: f32 = ... x[1024*i + 128*i.row + j] ...
        greatest[8*i + i.row] = m
      }
      for i.row in 0..8 {
        t0: f32 = greatest[8*i + i.row]
        for k in 0..128 vector(16) { ... e[128*i.row + k] = ... }
      }
    }

Partial results of a fold become one in as many dependent steps as a vector has halves, and what a
row does next waits for them: of a row of eight vectors that is a third of the time. It is longer
than a core looks ahead, whose schedulers fill up with what waits; with rows beside each other there
is another row to go on with. A cut is where a loop needs what a fold before it has come to, and no
value but such as are cheap to have again has to cross it. As many rows are taken as the nearest
cache holds with room to spare, so long ones are taken one by one: they wait seldom. Scratch memory
is that of so many rows. No result changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from symgrad.codegen.kernel_costs import statement_cycles
from symgrad.codegen.loops.access import names_used
from symgrad.codegen.loops.index_arithmetic import bounds, index_of
from symgrad.codegen.loops.language import (
    Atom,
    BinarySearch,
    Binding,
    Cast,
    Check,
    Const,
    Expr,
    For,
    Generated,
    Index,
    IndexValue,
    Kernel,
    Let,
    Load,
    Loop,
    Op,
    Reduction,
    Ref,
    Select,
    SortRows,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import (
    accesses,
    buffers_used,
    free_indices,
    free_values,
    index_extents,
    index_names,
    is_free_of,
    map_indices,
    statements,
    substitute_variable,
)
from symgrad.codegen.schedule.accumulate_columns import accumulators
from symgrad.codegen.schedule.contract_rows import change_indices, of_row, own_row, parts_apart
from symgrad.codegen.schedule.join_stages import join_stage
from symgrad.codegen.schedule.pipeline_rows import pipeline_rows
from symgrad.codegen.schedule.stage_parts import StageBody
from symgrad.codegen.target import Target
from symgrad.cost_model import (
    LEAST_DISTRIBUTED_FLOPS,
    LEAST_SPLIT_CYCLES,
    ROWS_A_STAGE,
)
from symgrad.graph.scalars import SCALAR_OPS
from symgrad.records import replace


def distribute_rows(kernel: Kernel, target: Target, *, pipelines: bool = False) -> Kernel:
    """Return `kernel` with loops over short rows distributed by stages, some rows at a time.

    Or with loops over rows pipelined, where it `pipelines`.
    """
    if kernel.can_fail or not is_free_of(kernel.body, Generated):
        return kernel
    every = statements(kernel.body)
    searches = (isinstance(s, Let) and isinstance(s.value, BinarySearch) for s in every)
    if any(searches):
        return kernel
    return _RowDistribution(kernel, target, pipelines).distributed()


def rows_in_stages(loop: For) -> int:
    """Return how many rows a distributed loop takes at a time, 0 if it is none."""
    stages = [s for s in loop.body if isinstance(s, For) and s.vector == 1 and not s.parallel]
    counts = {stage.extent for stage in stages}
    if len(stages) < max(2, len(loop.body)) or len(counts) > 1:
        return 0
    has_folds = any(isinstance(s, Reduction) for s in stages[0].body)
    return stages[0].extent if has_folds and stages[0].extent <= ROWS_A_STAGE else 0


class _RowDistribution:
    """Finds the loops over rows of a kernel, and counts how many rows its scratch memory is of."""

    def __init__(self, kernel: Kernel, target: Target, pipelines: bool) -> None:
        self._kernel = kernel
        self._target = target
        self._pipelines = pipelines
        self._params = {param.name: param for param in kernel.params}

    def distributed(self) -> Kernel:
        """Return the kernel with its first loop over rows distributed, and then the next ones."""
        body = self._statements(self._kernel.body, ())
        return replace(self._kernel, params=tuple(self._params.values()), body=body)

    def _statements(self, body: Sequence[Stmt], around: tuple[For, ...]) -> tuple[Stmt, ...]:
        return tuple(new for s in body for new in self._statement(s, around))

    def _statement(self, statement: Stmt, around: tuple[For, ...]) -> tuple[Stmt, ...]:
        if not isinstance(statement, For) or statement.vector > 1:
            return (statement,)
        if any(isinstance(s, For) and s.vector == 1 for s in statement.body):
            inner = (*around, statement)
            return (replace(statement, body=self._statements(statement.body, inner)),)
        return self._in_stages(statement, around)

    def _in_stages(self, loop: For, around: tuple[For, ...]) -> tuple[Stmt, ...]:
        if sum(isinstance(s, Loop) for s in loop.body) < 2:
            return (loop,)
        if loop.parallel:
            return (self._in_parts(loop, around),)
        if statement_cycles(loop) * _runs(around) < LEAST_SPLIT_CYCLES:
            return (loop,)
        waits = self._waits_for_memory(loop)
        if waits and self._pipelines:
            return (loop,)
        sums = accumulators(loop)
        scratch = self._private(loop, around, sums) if loop.ordered else {}
        nbytes = self._row_bytes(loop)
        if scratch is None or nbytes is None:
            return (loop,)
        stages = Stages(loop.body).found()
        if not self._pipelines:
            joined = [join_stage(s, loop.var, n, self._target) for n, s in enumerate(stages)]
            count = 1 if waits or len(stages) < 2 else self._rows_at_a_time(loop, nbytes)
            if count > 1:
                return (self._some_at_a_time(loop, joined, scratch, sums, count),)
            return (loop if joined == stages else _one_at_a_time(loop, joined),)
        if len(stages) < 2:
            return (loop,)
        found = pipeline_rows(loop, stages, self._params, scratch, sums, self._target, nbytes)
        if found is None:
            return (loop,)
        self._enlarge(scratch, found.rows)
        return (*found.before, found.loop)

    def _in_parts(self, loop: For, around: tuple[For, ...]) -> For:
        """Return a loop that threads share with the rows of each of them distributed."""
        parts = parts_apart(loop)
        if not isinstance(parts, For) or parts is loop or parts.parts == 1:
            return loop
        changed = self._statements(parts.body, (*around, parts))
        return loop if changed == parts.body else replace(parts, body=changed)

    def _some_at_a_time(
        self,
        loop: For,
        stages: Sequence[StageBody],
        scratch: Mapping[str, int],
        sums: set[str],
        count: int,
    ) -> For:
        self._enlarge(scratch, count)
        row = f"{loop.var}.row"
        at = index_of((loop.var, count), (row, 1))
        body: list[Stmt] = []
        for stage in stages:
            moved = map_indices(stage, lambda i: substitute_variable(i, loop.var, at))
            for name, size in scratch.items():
                moved = change_indices(
                    moved, name, partial(of_row, row=row, size=size, count=count)
                )
            body.append(For(row, count, moved, ordered=not sums.isdisjoint(buffers_used(stage)[1])))
        return replace(loop, extent=loop.extent // count, body=tuple(body))

    def _enlarge(self, scratch: Iterable[str], rows: int) -> None:
        for name in scratch:
            param = self._params[name]
            self._params[name] = replace(param, count=param.count * rows)

    def _waits_for_memory(self, loop: For) -> bool:
        """Return whether rows come from memory: then that is waited for, and not for folds.

        And stages of rows beside each other read by turns and in bursts. While a function is
        computed more can be fetched.
        """
        nbytes = max(self._params[name].nbytes for name in set().union(*buffers_used((loop,))))
        values = (s.value for s in statements(loop.body) if isinstance(s, Let))
        has_function = any(map(_is_function, values))
        return nbytes > (1 + has_function) * self._target.memory.shared_bytes

    def _rows_at_a_time(self, loop: For, nbytes: int) -> int:
        """Return how many rows the nearest cache holds, a power of 2 that divides their number."""
        most = min(ROWS_A_STAGE, self._target.memory.l1_bytes // 2 // max(nbytes, 1))
        return math.gcd(loop.extent, 1 << most.bit_length() - 1) if most else 1

    def _row_bytes(self, loop: For) -> int | None:
        """Return how much memory a row reaches of its own, None if that is not known."""
        nbytes = 0
        if not all(isinstance(atom, str) for _, i in accesses((loop,)) for atom, _ in i.terms):
            return None
        for name in set().union(*buffers_used((loop,))):
            indices = [i for buffer, i in accesses((loop,)) if buffer == name]
            within = [substitute_variable(i, loop.var, Index()) for i in indices]
            if all(i == w for i, w in zip(indices, within, strict=True)) and (
                self._params[name].mode != "scratch"
            ):
                continue  # every row reads the same
            inner = index_extents((loop,))
            spans = [bounds(_only(i, inner), inner) for i in within]
            elements = 1 + max(high for _, high in spans) - min(low for low, _ in spans)
            nbytes += elements * self._params[name].dtype.itemsize
        return nbytes

    def _private(self, loop: For, around: tuple[For, ...], sums: set[str]) -> dict[str, int] | None:
        """Privatisation: return the scratch memory each iteration could have its own of, by size.

        None if iterations depend on each other by anything else.
        """
        found: dict[str, int] = {}
        for name in buffers_used((loop,))[1]:
            if name in sums or own_row(loop, around, name) is not None:
                continue
            param = self._params[name]
            parts = math.prod(a.extent for a in around if a.parallel)
            size = param.count // parts
            if param.mode != "scratch" or not self._is_written_first(loop, around, name, size):
                return None
            found[name] = size
        return found

    def _is_written_first(self, loop: For, around: tuple[For, ...], name: str, size: int) -> bool:
        """Return whether an iteration writes all of its scratch memory before it reads any."""
        for statement in self._kernel.body:
            outer = around[0].var if around else loop.var
            is_around = isinstance(statement, For) and statement.var == outer
            if not is_around and name in set().union(*buffers_used((statement,))):
                return False
        used = [s for s in loop.body if name in set().union(*buffers_used((s,)))]
        if not used or not isinstance(used[0], For) or used[0].extent != size:
            return False
        first, parts = used[0], [a for a in around if a.parallel]
        expected = index_of(*((a.var, size) for a in parts), (first.var, 1))
        indices = {i for buffer, i in accesses((first,)) if buffer == name}
        is_stored = any(isinstance(s, Store) and s.buffer == name for s in first.body)
        return is_stored and indices == {expected} and name not in buffers_used((first,))[0]


def _one_at_a_time(loop: For, stages: Sequence[StageBody]) -> For:
    """Return a loop whose rows do stage by stage, with what these compute again once."""
    kept: list[Stmt] = []
    known: set[str] = set()
    for statement in (s for stage in stages for s in stage):
        name = statement.name if isinstance(statement, Binding) else ""
        if name not in known:
            kept.append(statement)
        known |= {name} if name else set()
    return replace(loop, body=tuple(kept))


def _is_function(value: Expr) -> bool:
    return isinstance(value, Op) and SCALAR_OPS[value.name].flops >= LEAST_DISTRIBUTED_FLOPS


def _runs(around: Sequence[For]) -> int:
    return math.prod(loop.extent for loop in around)


def _only(index: Index, names: Mapping[str, int]) -> Index:
    """Return the part of an index that depends on loops and data within a row."""
    terms = (t for t in index.terms if not isinstance(t[0], str) or t[0] in names)
    return index_of(*terms, const=index.const)


class Stages:
    """The stages of a row: a loop that needs what a fold has come to begins a new one."""

    def __init__(self, body: Sequence[Stmt]) -> None:
        self._body = body
        self._defined = {s.name: n for n, s in enumerate(body) if isinstance(s, Binding)}
        for number, statement in enumerate(body):
            if isinstance(statement, Reduction):
                names = (a.name for a in statement.accumulators)
                self._defined |= dict.fromkeys(names, number)

    def found(self) -> list[tuple[Stmt, ...]]:
        """Return the statements of each stage, with the values that it computes or reads again."""
        cuts = self._cuts()
        ends = [*cuts[1:], len(self._body)]
        return [
            (*(self._body[n] for n in self._again(first, last)), *self._body[first:last])
            for first, last in zip(cuts, ends, strict=True)
        ]

    def _cuts(self) -> list[int]:
        """Return where stages begin: before what waits for a fold of the stage before."""
        cuts = [0]
        known: set[str] = set()  # values and buffers that have what folds of this stage come to
        late: set[str] = set()  # values that are read from there
        behind = 0  # the last loop
        for number, statement in enumerate(self._body):
            if isinstance(statement, Loop):
                needed = _uses(statement) | buffers_used((statement,))[0]
                waits = not needed.isdisjoint(known | late)
                if waits and (cut := self._cut(behind, number)) is not None:
                    cuts.append(cut)
                    known, late = set(), set()
                behind = number + 1
            if isinstance(statement, Reduction):
                known |= {a.name for a in statement.accumulators}
            elif isinstance(statement, Let):
                used = names_used(statement.value) | buffers_used((statement,))[0]
                late |= set() if used.isdisjoint(known | late) else {statement.name}
            elif isinstance(statement, Store) and not _uses(statement).isdisjoint(known | late):
                known.add(statement.buffer)
        return cuts

    def _cut(self, first: int, last: int) -> int | None:
        """Return where between two loops no value crosses that cannot be had again."""
        places = range(first, last + 1)
        return next((n for n in places if self._crossing(n, len(self._body)) is not None), None)

    def _again(self, first: int, last: int) -> list[int]:
        crossing = self._crossing(first, last)
        assert crossing is not None, "a cut is where values can be had again"
        return sorted(crossing)

    def _crossing(self, first: int, last: int) -> set[int] | None:
        """Return what is needed from before `first`, None if some of it cannot be had again."""
        crossing: set[int] = set()
        pending = [n for s in self._body[first:last] for n in _uses(s)]
        while pending:
            number = self._defined.get(pending.pop(), first)
            if number >= first or number in crossing:
                continue
            if not self._is_cheap_again(number):
                return None
            crossing.add(number)
            pending += _uses(self._body[number])
        return crossing

    def _is_cheap_again(self, number: int) -> bool:
        """Return whether a statement is no costly one, and gives the same wherever it is later."""
        statement = self._body[number]
        if isinstance(statement, Check):
            return not statement.can_fail
        if not isinstance(statement, Let):
            return False
        match statement.value:
            case Load(buffer):
                return buffer not in buffers_used(self._body[number:])[1]
            case Op() as value:
                return not _is_function(value)
            case Const() | Ref() | Select() | Cast() | IndexValue():
                return True
            case BinarySearch():
                return False


def _uses(statement: Stmt) -> set[str]:
    """Return the values and checked indices that a statement needs."""
    if isinstance(statement, Loop):
        return {*free_values(statement), *free_indices(statement)}
    match statement:
        case Let():
            return names_used(statement.value)
        case Check():
            return _names(statement.value)
        case Store():
            return _names(statement.value) | set(index_names(statement.index))
        case SortRows():
            return set()


def _names(atom: Atom) -> set[str]:
    return {atom.name} if isinstance(atom, Ref) else set()
