"""Compilation cache of kernels: found by their loops, before any LLVM IR is made of them.

    text of a scheduled kernel, target, compiler  ->  the digest that its code is linked by,
                                                      and what calls pass to it (`lifting.py`)

A kernel that a program before has had need not be emitted: its function is declared, and the object
that defines it is found by the digest (`objects.py`). What is made of a kernel must not depend on
that, so one that would be merged with similar ones (`llvm/similar_kernels.py`) is not known.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from symgrad.codegen.llvm.alike_kernels import print_alike
from symgrad.codegen.llvm.known_kernel import KnownKernel, Passed
from symgrad.codegen.llvm.linkable import LinkableModule
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.native.compiler_version import compiler_version
from symgrad.codegen.native.object_store import digest_of, object_store
from symgrad.codegen.native.objects import made_for
from symgrad.codegen.program.kept_groups import Printed, text_digest
from symgrad.codegen.target import Target
from symgrad.cost_model import MIN_SIMILAR_KERNELS
from symgrad.records import dataclass

NONE_PRINTED: Mapping[str, Printed] = MappingProxyType({})

_KIND = "loops"  # of entries
# Similar kernels: so many that those which are left in an edited program are still too many.
_VERY_MANY = 2 * MIN_SIMILAR_KERNELS


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept of a kernel; `shape` is what similar ones have in common, None if unknown."""

    kernel: KnownKernel
    shape: str | None


class KnownKernels:
    """The kernels of a program, and which of them another program has had, by their names."""

    def __init__(
        self,
        kernels: Sequence[Kernel],
        target: Target,
        opt_level: int,
        printed: Mapping[str, Printed] = NONE_PRINTED,
    ) -> None:
        """Find those of a machine; what is known of the texts of kernels is not printed again."""
        version, store = compiler_version(), object_store()
        self._store = None if version is None else store
        self._made_for = made_for(target, opt_level)
        self._digests: dict[str, str] = {}
        if self._store is not None and version is not None:
            for name, digest in _text_digests(kernels, printed).items():
                self._digests[name] = digest_of(version, digest)
        self._are_many = len(kernels) >= MIN_SIMILAR_KERNELS

    def found(self) -> dict[str, KnownKernel]:
        """Return what is known of kernels, by their names."""
        if self._store is None:
            return {}
        found = self._store.read_each(_KIND, self._made_for, self._digests.values())
        read = {digest: _read(kept) for digest, kept in found.items()}
        known = {name: read[digest] for name, digest in self._digests.items() if digest in read}
        if self._are_many:
            # Of those that are not known, any may be similar to one that is.
            like = Counter(kept.shape for kept in known.values())
            most = MIN_SIMILAR_KERNELS - 1 - (len(self._digests) - len(known))
            is_apart = {shape for shape, count in like.items() if shape and count <= most}
            known = {name: kept for name, kept in known.items() if kept.shape in is_apart}
        return {name: kept.kernel for name, kept in known.items()}

    def keep(self, module: LinkableModule) -> None:
        """Note what there is to know of the kernels that were emitted in a module.

        Not of very many that are similar: in a program like this one they are not known anyway.
        """
        if self._store is None:
            return
        emitted = module.emitted_kernels()
        shapes = {name: module.shape(name) if self._are_many else None for name in emitted}
        like = Counter(shapes.values())
        kept = {
            self._digests[name]: _written(_Kept(module.known_as(name), shape))
            for name, shape in shapes.items()
            if shape is None or like[shape] < _VERY_MANY
        }
        self._store.write_each(_KIND, self._made_for, kept)


def _text_digests(kernels: Sequence[Kernel], printed: Mapping[str, Printed]) -> dict[str, str]:
    """Return the digests of the texts of kernels, by their names."""
    there = ((kernel, printed.get(kernel.name)) for kernel in kernels)
    # Passes over programs may have made another kernel of it, and given the name to a new one.
    known = {k.name: found.digest for k, found in there if found and found.kernel is k}
    others = [kernel for kernel in kernels if kernel.name not in known]
    texts = zip(others, print_alike(others), strict=True)
    return known | {kernel.name: text_digest(text) for kernel, text in texts}


def _written(kept: _Kept) -> bytes:
    lifted = [[passed.type, passed.text, passed.takes] for passed in kept.kernel.lifted]
    return json.dumps([kept.kernel.digest, lifted, kept.shape]).encode()


def _read(text: bytes) -> _Kept:
    digest, lifted, shape = json.loads(text)
    passed = (Passed(kind, text, takes and tuple(takes)) for kind, text, takes in lifted)
    return _Kept(KnownKernel(digest, tuple(passed)), shape)
