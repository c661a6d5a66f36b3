"""Declarations of code that is elsewhere: digests of kernels, what calls pass, leaf functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from symgrad.codegen import ir
from symgrad.codegen.contract.kernels.leaf_functions import Leaf
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class Passed:
    """What calls pass to a kernel: a constant, or a leaf function of the digest `text`.

    Of a function there are the types that it `takes`.
    """

    type: str
    text: str
    takes: tuple[str, ...] | None = None

    def value(self, module: ir.Module) -> ir.Value:
        """Return the value in a module, in which functions are called by their digests."""
        if self.takes is None:
            return _literal(self.type, self.text)
        known: ir.LLVMFunction | None = module.globals.get(self.text)
        if known is None:
            takes = [ir.Type(kind) for kind in self.takes]
            known = ir.LLVMFunction(module, ir.FunctionType(ir.VoidType(), takes), self.text)
        return known


@lru_cache(maxsize=1024)  # kernels are passed the same few numbers
def _literal(kind: str, text: str) -> ir.Value:
    return ir.Literal(ir.Type(kind), text)


@dataclass(frozen=True, slots=True)
class KnownKernel:
    """A kernel whose code is elsewhere: its digest, and what is `lifted` of it."""

    digest: str
    lifted: tuple[Passed, ...] = ()

    @property
    def leaves(self) -> list[str]:
        """The digests of the leaf functions among what is passed."""
        return [passed.text for passed in self.lifted if passed.takes is not None]


NONE_KNOWN: Mapping[str, KnownKernel] = MappingProxyType({})

# Says what to declare of a leaf function whose code is elsewhere, None if it is nowhere.
FindLeaf = Callable[[Leaf], ir.KnownFunction | None]


def no_leaf(_leaf: Leaf) -> None:
    """Find none: all leaf functions are emitted."""
