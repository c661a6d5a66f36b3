"""Memory reuse: a temporary that is last read where a result is written lies where the result will.

    launch @k0(input0, temporary0)
    launch @k1(temporary0, temporary1)           // a sum over all of it
    launch @k2(temporary0, temporary1, output0)  // output0[i] is made of temporary0[i]

becomes

    launch @k0(input0, output0)
    launch @k1(output0, temporary1)
    launch @k3(temporary1, output0)

What is read and written anew stays in a cache that would not hold both. Only large temporaries are
placed so, whose users are launches of the program itself and not of its loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from symgrad.codegen.loops.canonical import renamed
from symgrad.codegen.loops.language import For, Index, Kernel, Loop, Stmt
from symgrad.codegen.loops.rewrite import accesses
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import Instr, Launch, Program, buffers_of, launches_of
from symgrad.cost_model import LEAST_REUSED
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import replace

_Item = TypeVar("_Item")


def reuse_results(program: Program) -> Program:
    """Return `program` with temporaries in the memory of results that are made of them."""
    names = KernelNames(program.kernels)
    instrs = list(program.instrs)
    for number, instr in enumerate(instrs):
        pairs = _pairs(instr) if isinstance(instr, Launch) else []
        found = next((pair for pair in pairs if _may_share(number, instrs, *pair)), None)
        if found is not None:
            _share(number, instrs, *found, names)
    if not names.made:
        return program
    changed = replace(program, instrs=tuple(instrs))
    used = {launch.kernel.name for launch in launches_of(changed.all_instrs)}
    kernels = (*program.kernels, *names.made)
    return replace(changed, kernels=tuple(k for k in kernels if k.name in used))


def _pairs(launch: Launch) -> list[tuple[Buffer, Buffer]]:
    """Return the temporaries that a launch reads, each with a result that could be in its place."""
    if not any(isinstance(a, Buffer) and a.place == "output" for a in launch.arguments):
        return []
    whole = [
        (param, argument)
        for param, argument, start in zip(
            launch.kernel.params, launch.arguments, launch.starts, strict=True
        )
        if isinstance(argument, Buffer) and start == 0 and param.count == argument.type.count
    ]
    read = [(p, a) for p, a in whole if p.mode == "in" and a.place == "temporary"]
    written = [(p, a) for p, a in whole if p.mode == "out" and a.place == "output"]
    return [
        (temporary, result)
        for source, temporary in read
        for target, result in written
        if temporary.type.nbytes >= LEAST_REUSED
        and (source.dtype, source.count) == (target.dtype, target.count)
        and _is_replaced(launch.kernel, source.name, target.name)
    ]


def _is_replaced(kernel: Kernel, source: str, target: str) -> bool:
    """Return whether each element of `source` is read only where that of `target` is written."""
    places = _places(kernel.body, source, target)
    for loop in (s for s in kernel.body if isinstance(s, For)):
        while len(loop.body) == 1 and isinstance(loop.body[0], For):
            loop = loop.body[0]
        here = _places(loop.body, source, target)
        if here and not any(isinstance(s, Loop) for s in loop.body):
            *read, (last, index) = here
            return here == places and last == target and all(r == (source, index) for r in read)
    return False


def _places(body: Sequence[Stmt], source: str, target: str) -> list[tuple[str, Index]]:
    return [place for place in accesses(body) if place[0] in (source, target)]


def _may_share(number: int, instrs: Sequence[Instr], temporary: Buffer, result: Buffer) -> bool:
    """Return whether launches alone use the temporary, up to this one, which alone the result."""
    users = [i for i, instr in enumerate(instrs) if temporary in buffers_of([instr])]
    writers = [i for i, instr in enumerate(instrs) if result in buffers_of([instr])]
    are_launches = all(isinstance(instrs[i], Launch) for i in users)
    return are_launches and users[-1] == number and writers == [number]


def _share(
    number: int, instrs: list[Instr], temporary: Buffer, result: Buffer, names: KernelNames
) -> None:
    for place, instr in enumerate(instrs[:number]):
        if isinstance(instr, Launch) and temporary in instr.arguments:
            arguments = (result if a == temporary else a for a in instr.arguments)
            instrs[place] = replace(instr, arguments=tuple(arguments))
    launch = instrs[number]
    assert isinstance(launch, Launch), "a launch reads the temporary last"
    source, target = (launch.arguments.index(buffer) for buffer in (temporary, result))
    names_of = [param.name for param in launch.kernel.params]
    names_of[source] = names_of[target]
    kernel = renamed(launch.kernel, names_of, "")
    params = [*kernel.params]
    params[target] = replace(params[target], mode="inout")
    instrs[number] = replace(
        launch,
        kernel=names.shared(replace(kernel, params=_without(params, source))),
        arguments=_without(launch.arguments, source),
        starts=_without(launch.starts, source),
    )


def _without(items: Sequence[_Item], place: int) -> tuple[_Item, ...]:
    return (*items[:place], *items[place + 1 :])
