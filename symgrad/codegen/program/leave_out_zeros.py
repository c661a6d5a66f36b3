"""Sparsity of causal masks: products of what a mask leaves are told where it does not hold.

So are products of whose results a mask leaves some, which then need not compute the others.

    launch @k0(temporary0)            // temporary0[64*i + j] = i >= j
    launch @k1(..., temporary0, ...)  // w = select(temporary0[64*i + j], ..., 0.0), products

A mask that a kernel computes of nothing is the same in each step, so that kernel is run here, in
the interpreter. What is made of products `schedule/diagonal_zeros.py` says, and of results that
nothing reads `schedule/unread_results.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from typing import Any

import numpy as np

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.program.fuse_batches import RowKernel
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import Instr, Launch, Program
from symgrad.codegen.program.rewrite_launches import rewrite_launches
from symgrad.codegen.schedule.diagonal_zeros import has_masks, leave_out_zeros, mask_names
from symgrad.codegen.schedule.unread_results import leave_out_unread
from symgrad.codegen.target import Target
from symgrad.cost_model.products import LARGEST_MASK
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import replace

_Array = np.ndarray[Any, Any]


def tell_of_zeros(
    program: Program, target: Target, by_rows: MutableMapping[str, RowKernel]
) -> Program:
    """Return `program` with products that are told of zeros and unread results beside a diagonal.

    Those are told that are fused by rows, so it is the same ones, in the same tiles, whatever
    number of threads there is: a sum that underflows has the sign of the terms that are added.
    """
    if not any(has_masks(k) for k in program.kernels if k.name in by_rows):
        return program
    names = KernelNames(program.kernels)
    masks = _masks(program)

    def changed(instr: Instr) -> Instr:
        if not isinstance(instr, Launch) or instr.kernel.name not in by_rows:
            return instr
        kernel = _told(instr.kernel, instr, masks, target)
        if kernel == instr.kernel:
            return instr
        shared, rows = names.shared(kernel), by_rows[instr.kernel.name]
        is_alone = rows.alone == instr.kernel
        alone = shared if is_alone else _told(rows.alone, instr, masks, target)
        by_rows[shared.name] = replace(rows, alone=alone)
        return replace(instr, kernel=shared, fused=instr.fused or (instr,))

    def rewrite(instrs: list[Instr]) -> None:
        instrs[:] = map(changed, instrs)

    return rewrite_launches(program, names, rewrite)


def _told(kernel: Kernel, launch: Launch, masks: Mapping[Any, _Array], target: Target) -> Kernel:
    """Return `kernel`, launched as `launch` says, with products told of what is in `masks`."""
    if not has_masks(kernel):
        return kernel
    reading = mask_names(kernel)
    known = {
        param.name: masks[argument][start:]
        for param, argument, start in zip(
            kernel.params, launch.arguments, launch.starts, strict=True
        )
        if param.name in reading and argument in masks
    }
    return leave_out_unread(leave_out_zeros(kernel, known, target), known, target)


def _masks(program: Program) -> Mapping[Any, _Array]:
    """Return what constants of bools hold, and temporaries that one launch computes of nothing."""
    written = Counter(
        argument
        for launch in program.launches
        for argument, param in zip(launch.arguments, launch.kernel.params, strict=True)
        if param.mode != "in"
    )
    found: dict[Any, _Array] = {
        buffer: program.constants[buffer.number].array.reshape(-1)
        for buffer in program.mentions
        if buffer.place == "constant" and buffer.type.dtype.is_bool
    }
    for instr in program.instrs:
        if not isinstance(instr, Launch) or len(instr.arguments) != 1 or instr.starts != (0,):
            continue
        (argument,), (param,) = instr.arguments, instr.kernel.params
        is_whole = isinstance(argument, Buffer) and argument.place == "temporary"
        is_mask = param.dtype.is_bool and param.mode == "out" and param.count <= LARGEST_MASK
        if is_whole and is_mask and written[argument] == 1 and not instr.kernel.can_fail:
            found[argument] = _computed(instr.kernel)
    return found


@lru_cache(maxsize=64)
def _computed(kernel: Kernel) -> _Array:
    (param,) = kernel.params
    mask = np.zeros(param.count, np.bool_)
    run_kernel(kernel, {param.name: mask})
    return mask
