"""Compilation cache of one process of tests: a kernel that it has compiled is not compiled again.

It is in the place of `compile_module`, which programs are compiled by where no folder keeps code.
Nothing is found by what was compiled: emitting is never left out, and an object is found by the
very text that LLVM would be given, which is what kernels and leaf functions are named by
(`symgrad/codegen/llvm/linkable.py`). So programs that differ in how they were made have each their
own code as far as their code differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from symgrad.codegen.llvm.linkable import LinkableModule, leaf_symbols
from symgrad.codegen.native.jit import emit_calls
from symgrad.codegen.native.objects import compile_leaves, compile_object
from symgrad.codegen.target import Target

# Most of what is found was compiled shortly before, by the same test or the one before it.
MOST_BYTES = 64 << 20


@dataclass(slots=True)
class _Objects:
    """What was compiled for a target at a level, by names by content, and the leaves it needs."""

    kernels: dict[str, bytes] = field(default_factory=dict)
    leaves: dict[str, bytes] = field(default_factory=dict)
    needed: dict[bytes, list[str]] = field(default_factory=dict)


class CompiledKernels:
    """The objects that a process has compiled."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._made: dict[tuple[Target, int], _Objects] = {}

    def images(self, module: LinkableModule, target: Target, opt_level: int) -> list[bytes]:
        """Return object files of a module with all that it needs, as `compile_module` does."""
        if self._bytes > self._most_bytes:
            self._made, self._bytes = {}, 0
        made = self._made.setdefault((target, opt_level), _Objects())
        there = {made.kernels[s]: None for s in module.kernels if s in made.kernels}
        images = [*there, *self._compiled(made, module, target, opt_level)]
        needed = _reached(made, images)
        while missing := [symbol for symbol in needed if symbol not in made.leaves]:
            text = module.text_of_leaves(missing)
            image = self._noted(made, compile_leaves(text, target, opt_level))
            made.leaves |= dict.fromkeys(missing, image)
            needed = _reached(made, images)
        return [*images, *dict.fromkeys(made.leaves[symbol] for symbol in needed)]

    def _compiled(
        self, made: _Objects, module: LinkableModule, target: Target, opt_level: int
    ) -> Iterator[bytes]:
        """Compile the entry of a module, and the kernels that no object has."""
        missing = [symbol for symbol in module.kernels if symbol not in made.kernels]
        is_new = len(missing) == len(module.kernels)
        if missing or is_new:
            text = module.text(missing) if is_new else module.text_of_kernels(missing)
            image = self._noted(made, compile_object(text, target, opt_level))
            made.kernels |= dict.fromkeys(missing, image)
            yield image
        if module.calls is not None or (not is_new and module.only_calls):
            yield self._noted(made, emit_calls(module.alone, target))
        elif not is_new:
            yield self._noted(made, compile_object(module.alone, target, opt_level))

    def _noted(self, made: _Objects, image: bytes) -> bytes:
        made.needed[image] = leaf_symbols(image)
        self._bytes += len(image)
        return image


def _reached(made: _Objects, images: Iterable[bytes]) -> list[str]:
    """Return the leaf functions that objects need, and those that these need."""
    pending, found = [*images], dict[str, None]()
    while pending:
        new = [symbol for symbol in made.needed[pending.pop()] if symbol not in found]
        found |= dict.fromkeys(new)
        pending += [made.leaves[symbol] for symbol in new if symbol in made.leaves]
    return [*found]
