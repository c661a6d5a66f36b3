"""A program in the loop language: kernels, the order of their calls, and the memory they use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from symgrad.codegen.llvm.products import blocking_of, product_plan
from symgrad.codegen.llvm.target import Target
from symgrad.codegen.loops import For, Kernel, Param, Product, Stmt
from symgrad.codegen.loops_print import canonical, print_kernel
from symgrad.codegen.lower import lower_copy, lower_group
from symgrad.codegen.relocate import Relocated, relocate
from symgrad.codegen.schedule import schedule_kernel
from symgrad.graph.dtypes import uint8
from symgrad.graph.types import TensorType
from symgrad.passes.buffers import Buffer, Buffers
from symgrad.passes.partition import Group, Partition
from symgrad.passes.plan_memory import Request, plan_memory


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One step of a program: a kernel on buffers. `label` names it in reports.

    `starts` says at which element of each buffer the kernel begins, and `statuses` what its status
    1, 2, ... are as a status of the program. `group` is what is computed; None for the copy of a
    new value to its variable.
    """

    label: str
    kernel: Kernel
    arguments: tuple[Buffer, ...]
    starts: tuple[int, ...]
    statuses: tuple[int, ...]
    group: Group | None


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A compiled graph in the loop language.

    `kernels` are the different ones; calls of equal kernels share one. `offsets` says where in the
    arena of `arena_bytes` each temporary lies.
    """

    partition: Partition
    buffers: Buffers
    kernels: tuple[Kernel, ...]
    calls: tuple[Call, ...]
    offsets: dict[Buffer, int]
    lifetimes: dict[Buffer, tuple[int, int]]
    arena_bytes: int

    def __str__(self) -> str:
        body = "\n".join(print_kernel(k) for k in self.kernels)
        steps = "".join(f"  {_print_call(self, call)}\n" for call in self.calls)
        head = f"program @{self.partition.graph.name} arena({self.arena_bytes})"
        return f"{body}\n{head} {{\n{steps}}}\n"


def _print_call(program: Program, call: Call) -> str:
    places = zip(call.arguments, call.starts, strict=True)
    names = (_print_place(program, buffer, start) for buffer, start in places)
    return f"call @{call.kernel.name}({', '.join(names)})  // {call.label}"


def _print_place(program: Program, buffer: Buffer, start: int) -> str:
    if buffer.place == "temporary":
        return f"arena[{program.offsets[buffer] + start * buffer.type.dtype.itemsize}]"
    return f"{buffer}[{start}]" if start else str(buffer)


def build_program(partition: Partition, buffers: Buffers, target: Target) -> Program:
    """Lower and schedule every group, share equal kernels and lay out the arena."""
    pool = _KernelPool(target)
    temporaries = buffers.temporaries
    calls: list[Call] = []
    for group in partition.groups:
        lowered = lower_group(partition, buffers, group, "kernel")
        shared = pool.add(lowered.kernel)
        arguments, starts = lowered.arguments, shared.starts
        for param in shared.kernel.params[len(arguments) :]:
            scratch = Buffer("temporary", temporaries, TensorType(param.dtype, (param.count,)))
            arguments, starts = (*arguments, scratch), (*starts, 0)
            temporaries += 1
        label = _label(group)
        calls.append(Call(label, shared.kernel, arguments, starts, shared.statuses, group))
    for source, to in buffers.late:
        shared = pool.add(lower_copy(source, to, "kernel"))
        label = "copy of a new value"
        calls.append(Call(label, shared.kernel, (source, to), shared.starts, (), None))
    offsets, lifetimes, size = _lay_out(calls)
    return Program(partition, buffers, tuple(pool.kernels), tuple(calls), offsets, lifetimes, size)


def _label(group: Group) -> str:
    ops = [node.op for node in group.nodes]
    if not ops:
        return "copy of a result"
    shown = dict.fromkeys(op for op in ops if op not in ("broadcast_to", "reshape"))
    return " ".join(list(shown)[:6]) + (" ..." if len(shown) > 6 else "")


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


def _lay_out(calls: Sequence[Call]) -> tuple[dict[Buffer, int], dict[Buffer, tuple[int, int]], int]:
    lifetimes: dict[Buffer, tuple[int, int]] = {}
    for step, call in enumerate(calls):
        for buffer in call.arguments:
            if buffer.place == "temporary":
                first, _ = lifetimes.get(buffer, (step, step))
                lifetimes[buffer] = (first, step)
    requests = [Request(b.type.nbytes, *life) for b, life in lifetimes.items()]
    offsets, size = plan_memory(requests)
    return dict(zip(lifetimes, offsets, strict=True)), lifetimes, size
