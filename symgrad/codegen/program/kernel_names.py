"""Name supply for kernels that passes over programs make of those there are."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.loops.canonical import canonical
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.records import replace


class KernelNames:
    """Names for kernels that a pass makes: equal ones have one, and no other kernel has it."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self._taken = {kernel.name for kernel in kernels}
        self._by_text: dict[str, Kernel] = {}

    @property
    def made(self) -> tuple[Kernel, ...]:
        return tuple(self._by_text.values())

    def shared(self, kernel: Kernel) -> Kernel:
        """Return `kernel` with canonical names, or an equal one that was made before."""
        kernel = replace(canonical(kernel), name="k")
        text = print_kernel(kernel)
        if text not in self._by_text:
            number = len(self._taken)
            while f"k{number}" in self._taken:
                number += 1
            self._taken.add(f"k{number}")
            self._by_text[text] = replace(kernel, name=f"k{number}")
        return self._by_text[text]
