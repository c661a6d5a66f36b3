"""Program construction: from groups of nodes, and the graphs nested among them, to instructions.

The graph of a branch or of a body is partitioned and lowered like a program of its own; what are
inputs and outputs to it are buffers of the graph around it, or slices of stacks.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import assert_never

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.lower.groups import lower_copy, lower_zeros
from symgrad.codegen.program.kept_groups import KeptGroups
from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    ExternInstr,
    Instr,
    Launch,
    NativeCall,
    Program,
    Routine,
    ScanInstr,
    Slice,
    SwitchInstr,
    WhileInstr,
    routines_of,
)
from symgrad.codegen.program.lowered_groups import LoweredGroups
from symgrad.codegen.program.slices import slices_of, tapes_among
from symgrad.codegen.program.source_map import BuiltProgram, SourceMap
from symgrad.codegen.schedule.kernel_pool import KernelPool
from symgrad.codegen.schedule.passes import Machine
from symgrad.cost_model import COPIED_BYTES
from symgrad.graph.dtypes import bool_, uint8
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Call, Extern, KernelSpec, Nested, Scan, Switch, While
from symgrad.graph.types import ArrayLiteral, NestedGraph, TensorType, is_unbounded
from symgrad.passes.fusion.buffers import Buffer, Buffers, assign_buffers
from symgrad.passes.fusion.partition import FusionGroup, Partition
from symgrad.passes.loops.extend_loop import trips_of
from symgrad.passes.pipeline import FUSE, Nesting
from symgrad.passes.table import PassRunner
from symgrad.records import dataclass


def build_program(
    partition: Partition, machine: Machine, runner: PassRunner, kept: KeptGroups | None = None
) -> BuiltProgram:
    """Lower and schedule every group, share equal kernels, and put instructions in order.

    Nested graphs, which the passes have seen too, become groups here. Temporaries lie nowhere yet.
    Groups that are `kept` of other programs are not lowered again.
    """
    builder = _Builder(machine, runner, kept)
    buffers = assign_buffers(partition)
    outermost = builder.of_graph(partition, _Surroundings((), ()), buffers)
    instrs = outermost.build()
    graph = partition.graph
    program = Program(
        name=graph.name,
        inputs=tuple(t.type for t in graph.inputs),
        outputs=tuple(t.type for t in graph.outputs),
        variables=buffers.variables,
        constants=tuple(builder.constants),
        tapes=tuple(builder.tapes),
        kernels=tuple(builder.pool.kernels),
        instrs=instrs,
        routines=routines_of(instrs),
        offsets={},
        lifetimes={},
        arena_bytes=0,
    )
    nested = tuple(builder.partitions)
    temporaries = outermost.temporaries()
    sources = SourceMap(partition, nested, builder.groups, builder.failures, temporaries)
    return BuiltProgram(program, sources, builder.pool.alone, builder.groups_lowered.printed)


@dataclass(frozen=True, slots=True, eq=False)
class _Surroundings:
    """What the inputs and outputs of a nested graph are; empty for the whole program."""

    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]


class _Builder:
    """Builds the instructions of a program; numbers what is global to it."""

    def __init__(self, machine: Machine, runner: PassRunner, kept: KeptGroups | None) -> None:
        self.pool = KernelPool(machine, runner)
        self.groups_lowered = LoweredGroups(self.pool, runner, kept)
        self.constants: dict[ArrayLiteral, Buffer] = {}
        self.failures: dict[int, tuple[Node, KernelSpec | None]] = {}
        self.partitions: list[Partition] = []  # those of nested graphs
        self.groups: dict[NativeCall, FusionGroup] = {}
        self.tapes: list[TensorType] = []
        self._runner = runner
        self._temporaries = itertools.count()
        self._loops = itertools.count()
        self._routines: dict[Graph, Routine] = {}
        self._names: list[str] = []  # of the functions whose routines are being built

    def instrs(self, partition: Partition, around: _Surroundings) -> tuple[Instr, ...]:
        """Return the instructions of a graph between `around.inputs` and `around.outputs`."""
        return self.of_graph(partition, around, assign_buffers(partition)).build()

    def of_graph(
        self, partition: Partition, around: _Surroundings, buffers: Buffers
    ) -> _GraphInstrs:
        """Return what builds the instructions of a graph."""
        names = {status: (n, partition.specs[n]) for n, status in partition.status.items()}
        self.failures |= names
        return _GraphInstrs(self, partition, around, buffers)

    def nested(self, graph: NestedGraph, carried: Sequence[tuple[int, int]] = ()) -> Partition:
        """Return the groups of a nested graph."""
        assert isinstance(graph, Graph), "a nested graph is a graph"
        nesting = Nesting(max(self.failures, default=0) + 1, carried)
        self.partitions.append(self._runner.apply(FUSE, graph, nesting))
        return self.partitions[-1]

    def temporary(self, type_: TensorType) -> Buffer:
        """Return a new buffer of the arena; a tape for a stack without a bound."""
        if is_unbounded(type_):
            self.tapes.append(type_)
            return Buffer("tape", len(self.tapes) - 1, type_)
        return Buffer("temporary", next(self._temporaries), type_)

    def routine(self, callee: NestedGraph) -> Routine:
        """Return the routine of a function; all calls of one graph share it."""
        assert isinstance(callee, Graph), "a function is a graph"
        if callee not in self._routines:
            self._names.append(callee.name)
            instrs = self.instrs(self.nested(callee), _Surroundings((), ()))
            self._names.pop()
            self._routines[callee] = Routine(
                name=re.sub(r"\W", "_", callee.name) + f".{len(self._routines)}",
                inputs=tuple(t.type for t in callee.inputs),
                outputs=tuple(t.type for t in callee.outputs),
                instrs=instrs,
                scratch=self.temporary(TensorType(uint8, (0,))),
                offsets={},
                inner=routines_of(instrs),
            )
        return self._routines[callee]

    def label(self, text: str) -> str:
        """Return what a call is named in reports: within a function, its name comes first."""
        return f"{self._names[-1]}: {text}" if self._names else text

    def loop(self) -> int:
        """Return the number of a new loop."""
        return next(self._loops)

    def constant(self, literal: ArrayLiteral) -> Buffer:
        """Return the buffer of a constant; equal ones share it."""
        number = len(self.constants)
        return self.constants.setdefault(literal, Buffer("constant", number, literal.type))

    def copy(self, source: Argument, to: Argument, label: str) -> Launch:
        """Return the call that copies a buffer."""
        return self._plain(label, lower_copy(source.type, "kernel"), source, to)

    def zeros(self, target: Argument, label: str) -> Launch:
        """Return the call that fills a buffer with zeros."""
        return self._plain(label, lower_zeros(target.type, "kernel"), target)

    def _plain(self, label: str, kernel: Kernel, *arguments: Argument) -> Launch:
        shared = self.pool.add(kernel)
        return Launch(self.label(label), shared.kernel, arguments, shared.starts, ())


class _GraphInstrs:
    """Builds the instructions of one graph. Its own buffers are translated into the program's."""

    def __init__(
        self, builder: _Builder, partition: Partition, around: _Surroundings, buffers: Buffers
    ) -> None:
        self._builder = builder
        self._partition = partition
        self._around = around
        self._buffers = buffers
        self._temporaries: dict[Buffer, Buffer] = {}

    def build(self) -> tuple[Instr, ...]:
        instrs: list[Instr] = []
        for group in self._partition.groups:
            anchor = group.anchor
            spec = None if anchor is None else self._partition.specs[anchor]
            if self._partition.is_left_out(group):
                continue
            if anchor is not None and isinstance(spec, Extern):
                instrs += self._extern(group, anchor, spec)
            elif anchor is None or not isinstance(spec, Nested):
                instrs.append(self._launch(group))
            else:
                instrs += self._nested(anchor, spec)
        for source, to in self._buffers.late:
            copied = self._argument(source), self._argument(to)
            instrs.append(self._builder.copy(*copied, "copy of a new value"))
        return tuple(instrs)

    def temporaries(self) -> dict[Tensor, Buffer]:
        """Return the buffers of the program for what its groups leave in the arena."""
        places = {t: ends[0] for t, ends in self._buffers.destinations.items()}
        found = places | dict(self._buffers.source)
        return {t: self._temporaries[b] for t, b in found.items() if b in self._temporaries}

    def _nested(self, anchor: Node, spec: Nested) -> list[Instr]:
        """Return the instructions that run the graphs of `anchor`."""
        match spec:
            case Switch(graphs):
                return self._switch(anchor, graphs)
            case While():
                return self._while(anchor, spec)
            case Scan():
                return self._scan(anchor, spec)
            case Call(graph):
                return self._call(anchor, graph)
            case _:
                assert_never(spec)

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

    def _launch(self, group: FusionGroup) -> Launch:
        shared, places = self._builder.groups_lowered.lowered(self._partition, self._buffers, group)
        arguments = [self._argument(b) for b in places]
        starts = list(shared.starts[: len(arguments)])
        for param in shared.kernel.params[len(arguments) :]:
            scratch = TensorType(param.dtype, (param.count,))
            arguments.append(self._builder.temporary(scratch))
            starts.append(0)
        label = self._builder.label(_label(self._partition, group))
        launch = Launch(label, shared.kernel, tuple(arguments), tuple(starts), shared.statuses)
        self._builder.groups[launch] = group
        return launch

    def _source(self, tensor: Tensor) -> Argument:
        return self._argument(self._buffers.read(self._partition.stored(tensor)))

    def _outputs(self, anchor: Node, carried: range = range(0)) -> tuple[list[Buffer], list[Instr]]:
        """Return a buffer for each result of a nested op, and the copies to the other places.

        The outputs in `carried` hold loop variables while the loop runs. An array of the caller
        may lie across cache lines: one copy at the end costs less than that in each iteration.
        """
        buffers, copies = [], []
        for position, tensor in enumerate(anchor.outputs):
            first, *others = (self._argument(b) for b in self._buffers.written(tensor))
            is_small = position in carried and tensor.type.nbytes <= COPIED_BYTES
            if isinstance(first, Slice) or (is_small and first.place == "output"):
                others.insert(0, first)
                first = self._builder.temporary(tensor.type)
            buffers.append(first)
            copies += [self._builder.copy(first, other, "copy of a result") for other in others]
        return buffers, list(copies)

    def _switch(self, anchor: Node, graphs: tuple[NestedGraph, ...]) -> list[Instr]:
        index, *operands = (self._source(t) for t in anchor.inputs)
        results, copies = self._outputs(anchor)
        around = _Surroundings(tuple(operands), tuple(results))
        branches = tuple(
            self._builder.instrs(self._builder.nested(graph), around) for graph in graphs
        )
        return [SwitchInstr(index, branches), *copies]

    def _call(self, anchor: Node, callee: NestedGraph) -> list[Instr]:
        inputs = tuple(self._source(t) for t in anchor.inputs)
        results, copies = self._outputs(anchor)
        return [CallInstr(self._builder.routine(callee), inputs, tuple(results)), *copies]

    def _extern(self, group: FusionGroup, anchor: Node, spec: Extern) -> list[Instr]:
        builder = self._builder
        inputs = [self._source(t) for t in anchor.inputs]
        outputs, copies = self._outputs(anchor)
        if spec.is_ordered:  # the function is not passed the tokens
            inputs, outputs = inputs[:-1], outputs[:-1]
        filled = [
            builder.copy(inputs[operand], outputs[result], "what a function writes over")
            for result, operand in spec.copied
            if inputs[operand] != outputs[result]
        ]
        bytes_ = TensorType(uint8, (spec.workspace,))
        call = ExternInstr(
            builder.label(f"{anchor.op} {spec.function.name}"),
            spec.function,
            spec.layout,
            tuple(inputs),
            tuple(outputs),
            builder.temporary(bytes_) if spec.workspace else None,
            self._partition.status[anchor],
        )
        builder.groups[call] = group
        return [*filled, call, *copies]

    def _while(self, anchor: Node, loop: While) -> list[Instr]:
        """Lay out a loop with a condition."""
        builder = self._builder
        operands = [self._source(t) for t in anchor.inputs]
        (count, *results), copies = self._outputs(anchor, range(1, 1 + loop.carried))
        state, stacks = results[: loop.carried], results[loop.carried :]
        inputs = (*state, *operands[loop.carried :])
        number = builder.loop()
        test = builder.temporary(TensorType(bool_, ()))
        condition = builder.instrs(builder.nested(loop.condition), _Surroundings(inputs, (test,)))
        slices = slices_of(stacks, anchor.outputs[1 + loop.carried :], number)
        body = self._body(loop.body, inputs, state, slices)
        capacity = loop.capacity if stacks else 0
        instr = WhileInstr(number, condition, test, body, count, capacity, tapes_among(slices))
        return [*self._before(operands, state, stacks), instr, *copies]

    def _scan(self, anchor: Node, scan: Scan) -> list[Instr]:
        """Lay out a loop over slices."""
        trips, *operands = (self._source(t) for t in anchor.inputs)
        results, copies = self._outputs(anchor, range(scan.carried))
        state, stacks = results[: scan.carried], results[scan.carried :]
        number = self._builder.loop()
        width = scan.carried + scan.scanned
        scanned = slice(scan.carried, width)
        read = slices_of(operands[scanned], anchor.inputs[1:][scanned], number)
        inputs = (*state, *read, *operands[width:])
        written = slices_of(stacks, anchor.outputs[scan.carried :], number)
        body = self._body(scan.body, inputs, state, written)
        instr = ScanInstr(number, trips, body, scan.capacity, scan.reverse, tapes_among(written))
        # Each iteration writes its slices: what as many of them as there are write needs no zeros.
        is_filled = trips_of(anchor) is not None
        return [*self._before(operands, state, [] if is_filled else stacks), instr, *copies]

    def _before(
        self, operands: Sequence[Argument], state: Sequence[Buffer], stacks: Sequence[Buffer]
    ) -> list[Instr]:
        """Fill the buffers of loop variables, and of stacks of which slices may stay unwritten."""
        builder = self._builder
        first = [
            builder.copy(given, own, "first loop variable")
            for given, own in zip(operands, state, strict=False)
        ]
        bounded = [stack for stack in stacks if stack.place != "tape"]
        return [*first, *(builder.zeros(stack, "empty stack") for stack in bounded)]

    def _body(
        self,
        body: NestedGraph,
        inputs: tuple[Argument, ...],
        state: Sequence[Buffer],
        slices: Sequence[Slice],
    ) -> tuple[Instr, ...]:
        """Return the instructions of one iteration, which writes `slices` of stacks.

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
        instrs = builder.instrs(partition, _Surroundings(inputs, (*following, *slices)))
        advance = [
            builder.copy(new, state[i], "next loop variable")
            for new, i in zip(following, changing, strict=True)
            if new is not state[i]
        ]
        return (*instrs, *advance)


def _label(partition: Partition, group: FusionGroup) -> str:
    ops = [n.op for n in group.nodes if not partition.traits(n).only_moves]
    if not group.nodes:
        return "copy of a result"
    shown = list(dict.fromkeys(ops or [n.op for n in group.nodes]))
    return " ".join(shown[:6]) + (" ..." if len(shown) > 6 else "")
