"""Launch fusion: how one launch takes the place of several, with names and temporaries of its own.

Which launches come together, and what their kernel does, is for each pass to say
(`fuse_products.py`, `fuse_batches.py`, `fuse_blocks.py`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from symgrad.codegen.loops.language import Kernel, Param
from symgrad.codegen.program.kernel_names import KernelNames
from symgrad.codegen.program.language import Argument, Launch, Program, buffers_of
from symgrad.graph.types import TensorType
from symgrad.passes.fusion.buffers import Buffer


class LaunchFusions:
    """The kernels that a pass makes, how often buffers are named, and numbers of new ones."""

    def __init__(self, program: Program) -> None:
        self._named = Counter(buffers_of(program.all_instrs))
        # No instruction names the memory of a routine.
        held = (*self._named, *(routine.scratch for routine in program.routines))
        numbers = (b.number for b in held if b.place == "temporary")
        self._numbers = itertools.count(max(numbers, default=-1) + 1)
        self.names = KernelNames(program.kernels)

    def temporary(self, param: Param) -> Buffer:
        """Return a new temporary, as large as a parameter."""
        return Buffer("temporary", next(self._numbers), TensorType(param.dtype, (param.count,)))

    def own_temporaries(self, launches: Sequence[Launch]) -> set[Buffer]:
        """Return the temporaries that nothing but `launches` names."""
        named = Counter(buffers_of(launches))
        return {b for b, n in named.items() if b.place == "temporary" and n == self._named[b]}

    def launch(
        self, launches: Sequence[Launch], kernel: Kernel, arguments: Mapping[str, Buffer]
    ) -> Launch:
        """Return one launch of `kernel` for several; what it has no argument for is a temporary."""
        places: list[Argument] = []
        for param in kernel.params:
            argument = None if param.mode == "scratch" else arguments.get(param.name)
            places.append(self.temporary(param) if argument is None else argument)
        return Launch(
            f"{launches[0].label} with {len(launches) - 1} more",
            self.names.shared(kernel),
            tuple(places),
            (0,) * len(places),
            (),
            tuple(launches),
        )
