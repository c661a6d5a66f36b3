"""A program in the loop language: kernels, the order of their calls, and the memory they use."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from symgrad.codegen.llvm.products import blocking_of, product_plan
from symgrad.codegen.llvm.target import Target
from symgrad.codegen.loops import For, Kernel, Param, Product, Stmt
from symgrad.codegen.loops_print import canonical, print_kernel
from symgrad.codegen.lower import lower_copy, lower_group, lower_zeros
from symgrad.codegen.relocate import Relocated, relocate
from symgrad.codegen.schedule import schedule_kernel
from symgrad.graph.dtypes import bool_, uint8
from symgrad.graph.graph import Graph
from symgrad.graph.kernel_spec import Branches, KernelSpec, Loop, Reshape, Scan, View
from symgrad.graph.node import Node, Tensor
from symgrad.graph.types import Literal, NestedGraph, State, TensorType, is_unbounded
from symgrad.passes.buffers import Buffer, assign_buffers
from symgrad.passes.fuse import fuse
from symgrad.passes.partition import Group, Partition
from symgrad.passes.plan_memory import Request, plan_memory

_COPIED_BYTES = 1 << 16  # of a loop variable: what is larger stays where it has to end up

# From a nested graph, the first number its nodes may have as a status, and its carried outputs and
# inputs, to its groups.
Nest = Callable[[Graph, int, Sequence[tuple[int, int]]], Partition]


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a stack that belongs to the current iteration of a loop."""

    stack: Argument
    loop: int
    type: TensorType


Argument = Buffer | Slice


def root(argument: Argument) -> Buffer:
    """Return the buffer that an argument is, or is a part of."""
    while isinstance(argument, Slice):
        argument = argument.stack
    return argument


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A kernel on buffers. `label` names it in reports.

    `starts` says at which element of each buffer the kernel begins, and `statuses` what its status
    1, 2, ... are as a status of the program. `group` is what is computed; None for a copy or fill.
    """

    label: str
    kernel: Kernel
    arguments: tuple[Argument, ...]
    starts: tuple[int, ...]
    statuses: tuple[int, ...]
    group: Group | None


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Runs the branch whose number is the int64 in `index`, the last one for any other number."""

    index: Argument
    branches: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """Runs `condition`, then `body` if the bool in `test` holds, and so on.

    `number` is that of the loop, which slices name; the number of iterations goes to `count`.
    A loop with stacks ends after `capacity` iterations at the latest. `tapes` grow with it.
    """

    number: int
    condition: tuple[Step, ...]
    test: Buffer
    body: tuple[Step, ...]
    count: Buffer
    capacity: int
    tapes: tuple[Slice, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """Runs `body` as often as the int64 in `trips` says, `capacity` times at the most.

    The slices of an iteration are those of its number, with `reverse` counted from the last.
    """

    number: int
    trips: Argument
    body: tuple[Step, ...]
    capacity: int
    reverse: bool
    tapes: tuple[Slice, ...]


Step = Call | Choice | Repeat | Sweep


def calls_of(steps: Sequence[Step]) -> Iterator[Call]:
    """Yield the calls of kernels in `steps`, nested ones in their place."""
    for step in steps:
        match step:
            case Call():
                yield step
            case Choice():
                for branch in step.branches:
                    yield from calls_of(branch)
            case Repeat():
                yield from calls_of(step.condition)
                yield from calls_of(step.body)
            case Sweep():
                yield from calls_of(step.body)


def buffers_of(steps: Sequence[Step]) -> Iterator[Buffer]:
    """Yield the buffers that `steps` touch, at any depth."""
    for step in steps:
        match step:
            case Call():
                yield from map(root, step.arguments)
            case Choice():
                yield root(step.index)
                for branch in step.branches:
                    yield from buffers_of(branch)
            case Repeat():
                yield from (step.test, step.count)
                yield from buffers_of(step.condition)
                yield from buffers_of(step.body)
            case Sweep():
                yield root(step.trips)
                yield from buffers_of(step.body)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A compiled graph in the loop language.

    `kernels` are the different ones; calls of equal kernels share one. `offsets` says where in the
    arena of `arena_bytes` each temporary lies; `failures` which node each status stands for.
    """

    partition: Partition
    variables: tuple[State, ...]
    constants: tuple[Literal, ...]
    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    offsets: dict[Buffer, int]
    lifetimes: dict[Buffer, tuple[int, int]]
    arena_bytes: int
    failures: dict[int, tuple[Node, KernelSpec | None]]
    tapes: int

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call of a kernel, in the order of the text."""
        return tuple(calls_of(self.steps))

    def __str__(self) -> str:
        body = "\n".join(print_kernel(k) for k in self.kernels)
        head = f"program @{self.partition.graph.name} arena({self.arena_bytes})"
        return f"{body}\n{head} {{\n{self._print(self.steps, '  ')}}}\n"

    def _print(self, steps: Sequence[Step], indent: str) -> str:
        return "".join(self._print_step(step, indent) for step in steps)

    def _print_step(self, step: Step, indent: str) -> str:
        deeper = indent + "  "
        match step:
            case Call():
                places = zip(step.arguments, step.starts, strict=True)
                names = ", ".join(self._print_place(*place) for place in places)
                return f"{indent}call @{step.kernel.name}({names})  // {step.label}\n"
            case Choice():
                parts = "".join(
                    f"{indent}}} case {i} {{\n{self._print(branch, deeper)}"
                    for i, branch in enumerate(step.branches)
                )
                return f"{indent}switch {self._print_argument(step.index)} {{\n{parts}{indent}}}\n"
            case Repeat():
                return (
                    f"{indent}while loop {step.number} {{\n{self._print(step.condition, deeper)}"
                    f"{indent}}} {self._print_argument(step.test)} {{\n"
                    f"{self._print(step.body, deeper)}{indent}}}\n"
                )
            case Sweep():
                way = " backwards" if step.reverse else ""
                head = f"repeat loop {step.number} {self._print_argument(step.trips)}{way}"
                return f"{indent}{head} {{\n{self._print(step.body, deeper)}{indent}}}\n"

    def _print_place(self, argument: Argument, start: int) -> str:
        if isinstance(argument, Buffer) and argument.place == "temporary":
            return f"arena[{self.offsets[argument] + start * argument.type.dtype.itemsize}]"
        return self._print_argument(argument) + (f"[{start}]" if start else "")

    def _print_argument(self, argument: Argument) -> str:
        if isinstance(argument, Slice):
            return f"{self._print_argument(argument.stack)}[iteration of loop {argument.loop}]"
        if argument.place == "temporary":
            return f"arena[{self.offsets[argument]}]"
        return str(argument)


def build_program(partition: Partition, target: Target, nest: Nest = fuse) -> Program:
    """Lower and schedule every group, share equal kernels and lay out the arena.

    `nest` turns the graph of a branch or of a body into groups.
    """
    builder = _Builder(target, nest)
    variables = assign_buffers(partition).variables
    steps = builder.steps(partition, _Surroundings((), ()))
    offsets, lifetimes, size = lay_out(steps)
    return Program(
        partition,
        variables,
        tuple(builder.constants),
        tuple(builder.pool.kernels),
        steps,
        offsets,
        lifetimes,
        size,
        builder.failures,
        len({b for b in buffers_of(steps) if b.place == "tape"}),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Surroundings:
    """What the inputs and outputs of a nested graph are; empty for the whole program."""

    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]


class _Builder:
    """Builds the steps of a program; numbers what is global to it."""

    def __init__(self, target: Target, nest: Nest) -> None:
        self.pool = _KernelPool(target)
        self.constants: dict[Literal, Buffer] = {}
        self.failures: dict[int, tuple[Node, KernelSpec | None]] = {}
        self._nest = nest
        self._temporaries = itertools.count()
        self._tapes = itertools.count()
        self._loops = itertools.count()

    def steps(self, partition: Partition, around: _Surroundings) -> tuple[Step, ...]:
        """Return the steps of a graph between `around.inputs` and `around.outputs`."""
        names = {status: (n, partition.specs[n]) for n, status in partition.status.items()}
        self.failures |= names
        return _GraphSteps(self, partition, around).build()

    def nested(self, graph: NestedGraph, carried: Sequence[tuple[int, int]] = ()) -> Partition:
        """Return the groups of a nested graph."""
        assert isinstance(graph, Graph), "a nested graph is a graph"
        return self._nest(graph, max(self.failures, default=0) + 1, carried)

    def temporary(self, type_: TensorType) -> Buffer:
        """Return a new buffer of the arena; a tape for a stack without a bound."""
        if is_unbounded(type_):
            return Buffer("tape", next(self._tapes), type_)
        return Buffer("temporary", next(self._temporaries), type_)

    def loop(self) -> int:
        """Return the number of a new loop."""
        return next(self._loops)

    def constant(self, literal: Literal) -> Buffer:
        """Return the buffer of a constant; equal ones share it."""
        number = len(self.constants)
        return self.constants.setdefault(literal, Buffer("constant", number, literal.type))

    def copy(self, source: Argument, to: Argument, label: str) -> Call:
        """Return the call that copies a buffer."""
        return self._plain(label, lower_copy(source.type, "kernel"), source, to)

    def zeros(self, target: Argument, label: str) -> Call:
        """Return the call that fills a buffer with zeros."""
        return self._plain(label, lower_zeros(target.type, "kernel"), target)

    def _plain(self, label: str, kernel: Kernel, *arguments: Argument) -> Call:
        shared = self.pool.add(kernel)
        return Call(label, shared.kernel, arguments, shared.starts, (), None)


class _GraphSteps:
    """Builds the steps of one graph. Its own buffers are translated into the program's."""

    def __init__(self, builder: _Builder, partition: Partition, around: _Surroundings) -> None:
        self._builder = builder
        self._partition = partition
        self._around = around
        self._buffers = assign_buffers(partition)
        self._temporaries: dict[Buffer, Buffer] = {}

    def build(self) -> tuple[Step, ...]:
        steps: list[Step] = []
        for group in self._partition.groups:
            anchor = group.anchor
            match None if anchor is None else self._partition.specs[anchor]:
                case Branches(graphs):
                    assert anchor is not None, "only an anchor has branches"
                    steps += self._choice(anchor, graphs)
                case Loop() as loop:
                    assert anchor is not None, "only an anchor has a body"
                    steps += self._repeat(anchor, loop)
                case Scan() as scan:
                    assert anchor is not None, "only an anchor has a body"
                    steps += self._sweep(anchor, scan)
                case _:
                    steps.append(self._call(group))
        for source, to in self._buffers.late:
            copied = self._argument(source), self._argument(to)
            steps.append(self._builder.copy(*copied, "copy of a new value"))
        return tuple(steps)

    def _argument(self, local: Buffer) -> Argument:
        """Return what a buffer of this graph is in the program."""
        if local.place == "input" and self._around.inputs:
            return self._around.inputs[local.number]
        if local.place == "output" and self._around.outputs:
            return self._around.outputs[local.number]
        if local.place == "constant":
            return self._builder.constant(self._buffers.constants[local.number])
        if local.place == "temporary":
            if local not in self._temporaries:
                self._temporaries[local] = self._builder.temporary(local.type)
            return self._temporaries[local]
        return local

    def _call(self, group: Group) -> Call:
        lowered = lower_group(self._partition, self._buffers, group, "kernel")
        shared = self._builder.pool.add(lowered.kernel)
        arguments = [self._argument(b) for b in lowered.arguments]
        starts = list(shared.starts)
        for param in shared.kernel.params[len(arguments) :]:
            scratch = TensorType(param.dtype, (param.count,))
            arguments.append(self._builder.temporary(scratch))
            starts.append(0)
        label = _label(self._partition, group)
        kernel, statuses = shared.kernel, shared.statuses
        return Call(label, kernel, tuple(arguments), tuple(starts), statuses, group)

    def _source(self, tensor: Tensor) -> Argument:
        return self._argument(self._buffers.source[self._partition.stored(tensor)])

    def _outputs(self, anchor: Node, carried: range = range(0)) -> tuple[list[Buffer], list[Step]]:
        """Return a buffer for each result of a nested op, and the copies to the other places.

        The outputs in `carried` hold loop variables while the loop runs. An array of the caller
        may lie across cache lines: one copy at the end costs less than that in each iteration.
        """
        buffers, copies = [], []
        for position, tensor in enumerate(anchor.outputs):
            first, *others = (self._argument(b) for b in self._buffers.destinations[tensor])
            is_small = position in carried and tensor.type.nbytes <= _COPIED_BYTES
            if isinstance(first, Slice) or (is_small and first.place == "output"):
                others.insert(0, first)
                first = self._builder.temporary(tensor.type)
            buffers.append(first)
            copies += [self._builder.copy(first, other, "copy of a result") for other in others]
        return buffers, list(copies)

    def _choice(self, anchor: Node, graphs: tuple[NestedGraph, ...]) -> list[Step]:
        index, *operands = (self._source(t) for t in anchor.inputs)
        results, copies = self._outputs(anchor)
        around = _Surroundings(tuple(operands), tuple(results))
        branches = tuple(
            self._builder.steps(self._builder.nested(graph), around) for graph in graphs
        )
        return [Choice(index, branches), *copies]

    def _repeat(self, anchor: Node, loop: Loop) -> list[Step]:
        """Lay out a loop with a condition."""
        builder = self._builder
        operands = [self._source(t) for t in anchor.inputs]
        (count, *results), copies = self._outputs(anchor, range(1, 1 + loop.carried))
        state, stacks = results[: loop.carried], results[loop.carried :]
        inputs = (*state, *operands[loop.carried :])
        number = builder.loop()
        test = builder.temporary(TensorType(bool_, ()))
        condition = builder.steps(builder.nested(loop.condition), _Surroundings(inputs, (test,)))
        body = self._body(number, loop.body, inputs, state, stacks)
        capacity = loop.capacity if stacks else 0
        repeat = Repeat(number, condition, test, body, count, capacity, _tapes(stacks, number))
        return [*self._before(operands, state, stacks), repeat, *copies]

    def _sweep(self, anchor: Node, scan: Scan) -> list[Step]:
        """Lay out a loop over slices."""
        trips, *operands = (self._source(t) for t in anchor.inputs)
        results, copies = self._outputs(anchor, range(scan.carried))
        state, stacks = results[: scan.carried], results[scan.carried :]
        number = self._builder.loop()
        width = scan.carried + scan.scanned
        slices = [_slice(stack, number) for stack in operands[scan.carried : width]]
        inputs = (*state, *slices, *operands[width:])
        body = self._body(number, scan.body, inputs, state, stacks)
        tapes = _tapes(stacks, number)
        sweep = Sweep(number, trips, body, scan.capacity, scan.reverse, tapes)
        return [*self._before(operands, state, stacks), sweep, *copies]

    def _before(
        self, operands: Sequence[Argument], state: Sequence[Buffer], stacks: Sequence[Buffer]
    ) -> list[Step]:
        """Fill the buffers of the results: they hold the loop variables while the loop runs."""
        builder = self._builder
        first = [
            builder.copy(given, own, "first loop variable")
            for given, own in zip(operands, state, strict=False)
        ]
        bounded = [stack for stack in stacks if stack.place != "tape"]
        return [*first, *(builder.zeros(stack, "empty stack") for stack in bounded)]

    def _body(
        self,
        number: int,
        body: NestedGraph,
        inputs: tuple[Argument, ...],
        state: Sequence[Buffer],
        stacks: Sequence[Buffer],
    ) -> tuple[Step, ...]:
        """Return the steps of one iteration.

        The next loop variables are written over the old ones, or beside them and then copied.
        """
        builder = self._builder
        assert isinstance(body, Graph), "the body of a loop is a graph"
        outputs, own = body.outputs, range(len(state))
        changing = [i for i in own if outputs[i] is not body.inputs[i]]
        graph = Graph(
            [outputs[i] for i in (*changing, *range(len(state), len(outputs)))],
            body.inputs,
            name=body.name,
            region=body.region,
        )
        partition = builder.nested(graph, list(enumerate(changing)))
        following: list[Argument] = [
            state[i] if n in partition.overwriting else builder.temporary(state[i].type)
            for n, i in enumerate(changing)
        ]
        results = (*following, *(_slice(stack, number) for stack in stacks))
        steps = builder.steps(partition, _Surroundings(inputs, results))
        advance = [
            builder.copy(new, state[i], "next loop variable")
            for new, i in zip(following, changing, strict=True)
            if new is not state[i]
        ]
        return (*steps, *advance)


def _tapes(stacks: Sequence[Buffer], loop: int) -> tuple[Slice, ...]:
    return tuple(_slice(stack, loop) for stack in stacks if stack.place == "tape")


def _slice(stack: Argument, loop: int) -> Slice:
    return Slice(stack, loop, stack.type.with_shape(stack.type.shape[1:]))


def _label(partition: Partition, group: Group) -> str:
    moves = (View, Reshape)
    ops = [n.op for n in group.nodes if not isinstance(partition.specs[n], moves)]
    if not group.nodes:
        return "copy of a result"
    shown = list(dict.fromkeys(ops or [n.op for n in group.nodes]))
    return " ".join(shown[:6]) + (" ..." if len(shown) > 6 else "")


class _KernelPool:
    """The kernels of a program: equal ones, up to the names in them and the place, are one."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._by_text: dict[str, Relocated] = {}
        self._different: dict[str, Kernel] = {}  # by the text with canonical names

    @property
    def kernels(self) -> list[Kernel]:
        return list(self._different.values())

    def add(self, plain: Kernel) -> Relocated:
        """Return the scheduled kernel for `plain`, a new one or an equal one."""
        text = print_kernel(plain)
        if text not in self._by_text:
            # Names are given out in order, so equal groups mostly have equal text as they are.
            moved = relocate(plain)
            self._by_text[text] = replace(moved, kernel=self._add_relocated(moved.kernel))
        return self._by_text[text]

    def _add_relocated(self, plain: Kernel) -> Kernel:
        text = print_kernel(canonical(plain))
        if text not in self._different:
            kernel = schedule_kernel(plain, self._target.vector_bytes)
            kernel = _with_plans(kernel, self._target)
            name = f"k{len(self._different)}"
            self._different[text] = replace(canonical(kernel), name=name)
        return self._different[text]


def _with_plans(kernel: Kernel, target: Target) -> Kernel:
    """Choose how each product is computed, and add the scratch memory that takes."""
    params = list(kernel.params)
    body = tuple(_plan(statement, params, target) for statement in kernel.body)
    return replace(kernel, params=tuple(params), body=body)


def _plan(statement: Stmt, params: list[Param], target: Target) -> Stmt:
    if isinstance(statement, For):
        return replace(statement, body=tuple(_plan(s, params, target) for s in statement.body))
    if not isinstance(statement, Product):
        return statement
    blocking = blocking_of(product_plan(statement, target))
    if not blocking.scratch:
        return replace(statement, blocking=blocking)
    name = f"scratch{len(params)}"
    params.append(Param(name, uint8, blocking.scratch, "scratch"))
    return replace(statement, blocking=blocking, scratch=name)


def lay_out(
    steps: Sequence[Step],
) -> tuple[dict[Buffer, int], dict[Buffer, tuple[int, int]], int]:
    """Return the offset and the lifetime of each temporary, and the size of the arena."""
    lifetimes = _Lifetimes()
    lifetimes.visit(steps)
    requests = [Request(b.type.nbytes, *life) for b, life in lifetimes.of.items()]
    offsets, size = plan_memory(requests)
    return dict(zip(lifetimes.of, offsets, strict=True)), lifetimes.of, size


class _Lifetimes:
    """From when to when each temporary is needed, in positions of the text of the program."""

    def __init__(self) -> None:
        self.of: dict[Buffer, tuple[int, int]] = {}
        self._now = -1

    def visit(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._now += 1
            match step:
                case Call():
                    for argument in step.arguments:
                        self._touch(argument)
                case Choice():
                    self._touch(step.index)
                    for branch in step.branches:
                        self.visit(branch)
                case Repeat():
                    self._visit_loop(step)
                case Sweep():
                    self._visit_sweep(step)

    def _visit_loop(self, loop: Repeat) -> None:
        """Visit a loop: what it uses from before is needed until its last iteration."""
        start = self._now
        self.visit(loop.condition)
        self._touch(loop.test)
        self.visit(loop.body)
        self._now += 1
        self._extend(start)
        self._touch(loop.count)

    def _visit_sweep(self, sweep: Sweep) -> None:
        start = self._now
        self._touch(sweep.trips)
        self.visit(sweep.body)
        self._now += 1
        self._extend(start)

    def _extend(self, start: int) -> None:
        for buffer, (first, last) in self.of.items():
            if first < start < last:
                self.of[buffer] = (first, self._now)

    def _touch(self, argument: Argument) -> None:
        buffer = root(argument)
        if buffer.place == "temporary":
            first, _ = self.of.get(buffer, (self._now, self._now))
            self.of[buffer] = (first, self._now)
