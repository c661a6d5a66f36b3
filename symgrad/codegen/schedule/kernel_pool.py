"""Kernel deduplication: kernels are scheduled, given plans, and shared where they are equal."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from symgrad.codegen.contract.plans.products import hand_on_plan
from symgrad.codegen.loops.canonical import canonical
from symgrad.codegen.loops.language import Kernel, Product
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule.passes import KERNEL_PASSES, PARALLELIZE, RELOCATE, Machine
from symgrad.codegen.schedule.relocate import Relocated, statuses_of, unmoved
from symgrad.passes.table import PassRunner
from symgrad.records import replace


class KernelPool:
    """The kernels of a program, deduplicated: equal ones, up to names and the place, are one."""

    def __init__(self, machine: Machine, runner: PassRunner) -> None:
        self._machine = machine
        self._runner = runner
        self._by_place = runner.chosen([RELOCATE])
        self._once = runner.chosen([row for row in KERNEL_PASSES if row is not RELOCATE])
        self._by_text: dict[str, Relocated] = {}
        self._alone: dict[str, Kernel] = {}
        self._kernels: list[Kernel] = []
        self._different: dict[str, Kernel] = {}  # by the text with canonical names
        # Kernels, as they were and are, whose text is not needed as long as no other is like them.
        self._unprinted: dict[Hashable, tuple[Kernel, Kernel]] = {}
        self._likenesses: set[Hashable] = set()
        self._are_texts_given = False

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
        text = print_kernel(plain)
        if text not in self._by_text:
            # Names are given out in order, so equal groups mostly have equal text as they are.
            self._by_text[text] = self.add_apart(plain)
        return self._by_text[text]

    def add_apart(self, plain: Kernel) -> Relocated:
        """Return the scheduled kernel for `plain`, whose text is likely no other's as it is."""
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
        self._are_texts_given = True
        for likeness in [*self._unprinted]:
            self._print(likeness)
        return self._of_text(text, make)

    def _of_text(self, text: str, make: Callable[[], tuple[Kernel, Kernel | None]]) -> Kernel:
        if text not in self._different:
            self._different[text] = self._new(make)
        return self._different[text]

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

        likeness = _likeness(moved.kernel)
        if not self._are_texts_given and likeness not in self._likenesses:
            self._likenesses.add(likeness)
            made = self._new(make)
            self._unprinted[likeness] = moved.kernel, made
            return made
        self._print(likeness)
        return self._of_text(print_kernel(canonical(moved.kernel)), make)

    def _print(self, likeness: Hashable) -> None:
        """Print the kernel that is found by its likeness only, if there is one."""
        if likeness in self._unprinted:
            kernel, made = self._unprinted.pop(likeness)
            self._different[print_kernel(canonical(kernel))] = made

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


def _likeness(kernel: Kernel) -> Hashable:
    """Return what kernels of one canonical text have in common."""
    params = tuple([(param.dtype, param.count, param.mode) for param in kernel.params])
    return params, tuple(map(type, kernel.body))


def _products(kernel: Kernel) -> list[Product]:
    return [each for each in statements(kernel.body) if isinstance(each, Product)]
