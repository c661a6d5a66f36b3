"""Kernel deduplication: kernels are scheduled, given plans, and shared where they are equal."""

from __future__ import annotations

from dataclasses import replace

from symgrad.codegen.contract.products import blocking_of, product_plan
from symgrad.codegen.loops.language import For, Kernel, Param, Product, Stmt
from symgrad.codegen.loops.print import canonical, print_kernel
from symgrad.codegen.schedule.licm import hoist_uniform
from symgrad.codegen.schedule.parallelize import Threads, share_work
from symgrad.codegen.schedule.relocate import Relocated, relocate
from symgrad.codegen.schedule.two_stage_reduction import split_folds
from symgrad.codegen.schedule.vectorize import schedule_kernel
from symgrad.codegen.target import Target
from symgrad.graph.dtypes import uint8


class KernelPool:
    """The kernels of a program, deduplicated: equal ones, up to names and the place, are one."""

    def __init__(self, target: Target, threads: Threads) -> None:
        self._target = target
        self._threads = threads
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
            kernel = split_folds(plain, self._threads.least_cycles)
            kernel = schedule_kernel(kernel, self._target.vector_bytes)
            kernel = _with_plans(kernel, self._target)
            kernel = share_work(kernel, self._target, self._threads)
            # Last: what stands between two loops would keep them from being merged or moved.
            kernel = hoist_uniform(kernel)
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
