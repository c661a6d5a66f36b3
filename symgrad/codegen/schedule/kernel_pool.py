"""Kernel deduplication: kernels are scheduled, given plans, and shared where they are equal."""

from __future__ import annotations

from collections.abc import Callable

from symgrad.codegen.contract.plans.products import hand_on_plan
from symgrad.codegen.loops.canonical import CANONICAL_NAME, canonical, canonical_buffers
from symgrad.codegen.loops.language import Kernel, Product
from symgrad.codegen.loops.print import print_head, print_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule.passes import KERNEL_PASSES, PARALLELIZE, RELOCATE, Machine
from symgrad.codegen.schedule.relocate import Relocated, statuses_of, unmoved
from symgrad.passes.table import PassRunner
from symgrad.records import replace


class KernelPool:
    """The kernels of a program, deduplicated: equal ones, up to names and the place, are one.

    Interning by canonical text, which is made of a kernel when it first meets another one whose
    text begins with the same line. Invariant: a kernel whose first line is in `_sole` with it is
    the only one with that line, all others are in `_by_text`.
    """

    def __init__(self, machine: Machine, runner: PassRunner) -> None:
        self._machine = machine
        self._runner = runner
        self._by_place = runner.chosen([RELOCATE])
        self._once = runner.chosen([row for row in KERNEL_PASSES if row is not RELOCATE])
        self._alone: dict[str, Kernel] = {}
        self._kernels: list[Kernel] = []
        self._by_text: dict[str, Kernel] = {}
        # By first lines: kernels as they were and are, None where texts are made of those with it.
        self._sole: dict[str, tuple[Kernel, Kernel] | None] = {}

    def empty(self) -> KernelPool:
        """Return a pool without kernels, for the same machine."""
        return KernelPool(self._machine, self._runner)

    def silent(self) -> KernelPool:
        """Return an empty pool whose passes tell nobody, and are not verified."""
        return KernelPool(self._machine, self._runner.silent())

    @property
    def kernels(self) -> list[Kernel]:
        return list(self._kernels)

    @property
    def alone(self) -> dict[str, Kernel]:
        """The kernels that threads share, by name, as they are where there is one thread."""
        return dict(self._alone)

    def add(self, plain: Kernel) -> Relocated:
        """Return the scheduled kernel for `plain`, a new one or an equal one."""
        moved = self.relocated(plain)
        kernel = self._add_relocated(moved)
        # Loops without iterations are gone, and the checks in them.
        statuses = moved.statuses[: statuses_of(kernel)]
        return replace(moved, kernel=kernel, statuses=statuses)

    def relocated(self, plain: Kernel) -> Relocated:
        """Return `plain` as it is before it is scheduled: the same wherever it is called."""
        moved = unmoved(plain)
        for row in self._by_place:
            moved = self._runner.apply(row, moved, self._machine, is_shown=False)
        return moved

    def add_scheduled(self, text: str, make: Callable[[], tuple[Kernel, Kernel | None]]) -> Kernel:
        """Return the kernel of a canonical text, made where it is new.

        `make` gives it with canonical names, and as it is for one thread where threads share it.
        """
        head = text.partition("\n")[0]
        sole = self._sole.get(head)
        if sole is not None:
            kernel, made = sole
            self._by_text[print_kernel(canonical(kernel))] = made
        self._sole[head] = None
        if text not in self._by_text:
            self._by_text[text] = self._new(make)
        return self._by_text[text]

    def _new(self, make: Callable[[], tuple[Kernel, Kernel | None]]) -> Kernel:
        name = f"k{len(self._kernels)}"
        kernel, alone = make()
        made = replace(kernel, name=name)
        self._kernels.append(made)
        if alone is not None:
            self._alone[name] = replace(alone, name=name)
        return made

    def _add_relocated(self, moved: Relocated) -> Kernel:
        def make() -> tuple[Kernel, Kernel | None]:
            named = replace(moved, kernel=replace(moved.kernel, name=f"k{len(self._kernels)}"))
            for row in self._by_place:
                self._runner.show(row, named)
            return self.scheduled(named)

        head = print_head(moved.kernel, CANONICAL_NAME, canonical_buffers(moved.kernel))
        if head in self._sole:
            return self.add_scheduled(print_kernel(canonical(moved.kernel)), make)
        made = self._new(make)
        self._sole[head] = moved.kernel, made
        return made

    def scheduled(self, moved: Relocated) -> tuple[Kernel, Kernel | None]:
        """Return the schedule of a kernel, and that for one thread where threads share it."""
        alone = None
        for row in self._once:
            before, moved = moved, self._runner.apply(row, moved, self._machine)
            if row.name == PARALLELIZE.name and moved.kernel != before.kernel:
                alone = before
            elif alone is not None:
                alone = self._runner.apply(row, alone, self._machine, is_shown=False)
        kernel = self._named(moved.kernel)
        return kernel, None if alone is None else self._named(alone.kernel)

    def _named(self, kernel: Kernel) -> Kernel:
        """Return `kernel` with canonical names; its products keep their plans."""
        named = canonical(kernel)
        for product, renamed in zip(_products(kernel), _products(named), strict=True):
            hand_on_plan(product, renamed, self._machine.target)
        return named


def _products(kernel: Kernel) -> list[Product]:
    return [each for each in statements(kernel.body) if isinstance(each, Product)]
