"""Common subexpressions of launches: panels that several of them would make are made once.

    launch @k0(input0, input1, output0, temporary0)          // the first 512 keys in panels, ...
    launch @k1(input0[32768], input1, output1, temporary1)   // the first 1,024 in panels, ...

becomes

    launch @k2(input1, temporary1)                           // the first 1,024 keys in panels
    launch @k3(input0, temporary1, output0)
    launch @k4(input0[32768], temporary1, output1)

since panels of fewer keys are the first of those of more. So it is with blocks of queries of a
causal attention, where matrices are too few for `fuse_batches.py` to take one after another. What
panels are `schedule/fuse_products.py` says: here they are loops that come first in a kernel, and
copy one buffer to scratch memory. No result changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence

from symgrad.codegen.loops.canonical import canonical
from symgrad.codegen.loops.language import For, Kernel, Param
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import buffers_used
from symgrad.codegen.program.fuse_batches import RowKernel
from symgrad.codegen.program.language import Argument, Instr, Launch, Program, root
from symgrad.codegen.program.launch_fusions import LaunchFusions
from symgrad.codegen.program.rewrite_launches import rewrite_launches
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class _Panels:
    """Loops that copy a buffer to scratch memory: number `statement` of the launch at a place."""

    position: int
    statement: int
    loop: For
    source: Param
    panels: Param


def share_panels(program: Program, by_rows: MutableMapping[str, RowKernel]) -> Program:
    """Return `program` with panels made once that several kernels of products by rows make.

    What takes the place of a kernel in `by_rows` is added there.
    """
    fusions = LaunchFusions(program)

    def rewrite(instrs: list[Instr]) -> None:
        _share_in(instrs, fusions, by_rows)

    return rewrite_launches(program, fusions.names, rewrite)


def _share_in(
    instrs: list[Instr], fusions: LaunchFusions, by_rows: MutableMapping[str, RowKernel]
) -> None:
    """Share panels of instructions that run one after another, in place."""
    found: dict[tuple[Argument, int, str], list[_Panels]] = {}
    for position, instr in enumerate(instrs):
        if isinstance(instr, Launch) and instr.name in by_rows:
            for panels in _panels_of(position, instr.kernel):
                number = instr.kernel.params.index(panels.source)
                place = instr.arguments[number], instr.starts[number]
                found.setdefault((*place, _text(panels)), []).append(panels)
    made: dict[int, list[Launch]] = {}
    given: dict[int, dict[int, Buffer]] = {}
    for (argument, start, _), group in found.items():
        first, last = group[0].position, group[-1].position
        if first == last or any(_may_write(i, argument) for i in instrs[first:last]):
            continue
        largest = max(group, key=lambda panels: panels.loop.extent)
        memory = fusions.temporary(largest.panels)
        maker = instrs[largest.position]
        assert isinstance(maker, Launch), "a launch makes panels"
        params = largest.source, replace(largest.panels, mode="out")
        kernel = fusions.names.shared(Kernel("panels", params, (largest.loop,)))
        label = f"panels of {maker.label}"
        launch = Launch(label, kernel, (argument, memory), (start, 0), (), (maker,))
        made.setdefault(first, []).append(launch)
        for panels in group:
            given.setdefault(panels.position, {})[panels.statement] = memory
    for position in sorted(given, reverse=True):
        reader = instrs[position]
        assert isinstance(reader, Launch), "launches read panels"
        reading = _reading(reader, given[position], fusions, by_rows)
        instrs[position : position + 1] = [*made.get(position, ()), reading]


def _panels_of(position: int, kernel: Kernel) -> Iterator[_Panels]:
    """Yield the loops that come first in a kernel and copy a buffer to scratch memory."""
    params = {p.name: p for p in kernel.params}
    for number, loop in enumerate(kernel.body):
        loaded, stored = buffers_used([loop])
        if not isinstance(loop, For) or len(loaded) != 1 or len(stored) != 1:
            return
        source, panels = params[min(loaded)], params[min(stored)]
        if (source.mode, panels.mode) != ("in", "scratch"):
            return
        if panels.name not in buffers_used(kernel.body[number + 1 :])[1]:
            yield _Panels(position, number, loop, source, panels)


def _text(panels: _Panels) -> str:
    """Return the text of what makes the first panel: that of others is alike."""
    params = (replace(p, count=1, mode="inout") for p in (panels.source, panels.panels))
    first = replace(panels.loop, extent=1, parallel=None)
    return print_kernel(canonical(Kernel("panels", tuple(params), (first,))))


def _may_write(instr: Instr, argument: Argument) -> bool:
    return not isinstance(instr, Launch) or any(
        param.mode != "in" and root(other) == root(argument)
        for param, other in zip(instr.kernel.params, instr.arguments, strict=True)
    )


def _reading(
    launch: Launch,
    given: Mapping[int, Buffer],
    fusions: LaunchFusions,
    by_rows: MutableMapping[str, RowKernel],
) -> Launch:
    """Return a launch that reads panels of the statements with these numbers."""
    rows = by_rows[launch.name]
    kernel = _without(launch.kernel, [*given])
    shared = fusions.names.shared(kernel)
    is_alone = rows.alone == launch.kernel
    alone = shared if is_alone else _without(rows.alone, [*given])
    by_rows[shared.name] = replace(rows, alone=alone)
    arguments = dict(zip((p.name for p in launch.kernel.params), launch.arguments, strict=True)) | {
        _stored(launch.kernel, number): memory for number, memory in given.items()
    }
    came_of = launch.fused or (launch,)
    return replace(launch, kernel=shared, arguments=tuple(arguments.values()), fused=came_of)


def _without(kernel: Kernel, numbers: Sequence[int]) -> Kernel:
    """Return a kernel that is given what the statements with these numbers make."""
    names = {_stored(kernel, number) for number in numbers}
    params = (replace(p, mode="in") if p.name in names else p for p in kernel.params)
    body = (s for number, s in enumerate(kernel.body) if number not in numbers)
    return replace(kernel, params=tuple(params), body=tuple(body))


def _stored(kernel: Kernel, number: int) -> str:
    (name,) = buffers_used([kernel.body[number]])[1]
    return name
