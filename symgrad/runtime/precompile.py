"""Precompilation: leaf functions of common products, in the cache before a program needs them.

    product of each of some sizes and forms, with what often follows it
        ---> its microkernels and packers  ---> an object for each, which any program finds

Of a small training step half of LLVM's time goes into these functions. What they do depends on the
shapes of tiles and no more on the sizes of a product than in how many elements the last tile of a
row has, so a finite set serves most products of the sizes that layers have. They are found by their
text (`codegen/native/objects.py`): a program has the same machine code with them and without, and
a set that another version has made is as good as none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from symgrad.codegen import ir
from symgrad.codegen.contract.kernels.leaf_functions import Leaf, known_as, shared_level
from symgrad.codegen.native.compiler_version import sources_of_leaves
from symgrad.codegen.native.known_leaves import KnownLeaves
from symgrad.codegen.native.object_store import object_store, precompiled_store
from symgrad.codegen.native.objects import ObjectsOfKernels
from symgrad.codegen.native.packed_store import pack_name, write_pack
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import Target, measured_at, target_named
from symgrad.compiler import CompileOptions, emit_linkable, lower_graph
from symgrad.config import override
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder
from symgrad.graph.ops.transcendental import tanh
from symgrad.records import dataclass
from symgrad.runtime.entry import precompile_entry

# Of the x86-64 psABI: those that have vectors of 32 and 64 bytes.
LEVELS = ("x86-64-v3", "x86-64-v4")
_LEVEL = 3  # of optimization: the default of `compile`
# Sizes of layers: examples of a batch, features that are summed over, and features that come out.
# Of these the remainders count that tiles leave, so small ones come in steps of half a register;
# 10, 100 and 1,000 are classes.
_BATCHES = (16, 32, 64, 128, 256, 512)
_SUMMED = (10, 32, 128, 512)
_FEATURES = (*range(8, 136, 8), 10, 100, 160, 192, 224, 256, 384, 512, 768, 1000, 1024)
# Of larger ones tiles are told how far rows are apart: powers of two, what is halfway between them,
# and the pixels of small images.
_POWERS = tuple(1 << power for power in range(6, 13))
_WIDE = (*_POWERS, *(size * 3 // 2 for size in _POWERS[:-1]), 28 * 28)

Follows = Literal["nothing", "activation", "update"]


@dataclass(frozen=True, slots=True)
class Sample:
    """A product of `m` by `k` and `k` by `n` elements, of which either may be transposed.

    What follows is nothing, a bias and an activation, or an update of a weight.
    """

    sizes: tuple[int, int, int]
    is_transposed: tuple[bool, bool]
    follows: Follows

    def graph(self) -> Graph:
        """Return the graph of a program that has this product."""
        m, k, n = self.sizes
        left, right = self.is_transposed
        a = placeholder((k, m) if left else (m, k))
        b = placeholder((n, k) if right else (k, n))
        product = (a.T if left else a) @ (b.T if right else b)
        match self.follows:
            case "activation":
                bias = placeholder((n,))
                return Graph([tanh(product + bias)], [a, b, bias])
            case "update":
                weight = placeholder((m, n))
                return Graph([weight - 0.1 * product], [a, b, weight])
            case "nothing":
                return Graph([product], [a, b])


def samples() -> Iterator[Sample]:
    """Yield the products whose leaf functions are compiled."""
    forms = ((False, False), (True, False), (False, True))
    follows: tuple[Follows, ...] = ("nothing", "activation", "update")
    narrow = itertools.product(_BATCHES, _SUMMED, _FEATURES)
    wide = itertools.product(_BATCHES[1:], _WIDE, _WIDE)
    sizes = dict.fromkeys(itertools.chain(narrow, wide))
    return itertools.starmap(Sample, itertools.product(sizes, forms, follows))


@dataclass(frozen=True, slots=True)
class Precompilation:
    """How many leaf functions were compiled, and of how many there is all that programs look for.

    `is_whole`: nothing is missing, of those that were there before and of what calls steps either.
    """

    compiled: int = 0
    kept: int = 0
    is_whole: bool = True


def precompile(
    some: Iterable[Sample] | None = None,
    target: Target | None = None,
    version: str | None = None,
) -> Precompilation:
    """Compile the leaf functions of some samples, of all if none are given, and keep them.

    Those that are there already are not compiled again. The `version` of what emits them is that of
    this compiler if it is not given.
    """
    store = object_store()
    if store is None or precompiled_store() is None:
        return Precompilation()
    target = target or target_named("native")
    # Those of one thread are among them.
    options = CompileOptions(target, _LEVEL, fast_math=False, cache=False, threads=Threads(2))
    objects, known = ObjectsOfKernels(store, target, _LEVEL), KnownLeaves(target, _LEVEL, version)
    made, lost, seen = dict[str, bool](), set[str](), dict[Leaf, ir.KnownFunction]()
    for sample in samples() if some is None else some:
        program = lower_graph(sample.graph(), options).program
        module = emit_linkable(program, target, find=seen.get)
        new = {leaf: at for leaf, at in module.names_of_leaves().items() if leaf not in seen}
        seen |= {leaf: known_as(leaf, digest) for leaf, (_, digest) in new.items()}
        # Others of a machine that has a level could not be told from those of another CPU.
        kept = {leaf: at for leaf, at in new.items() if target.shared_level == shared_level(leaf)}
        made |= objects.precompile(module, (symbol for symbol, _ in kept.values()))
        for leaf, (symbol, digest) in kept.items():
            # A function whose object is not there is not to be found by its leaf.
            if not (made.get(symbol, True) and known.keep(leaf, digest)):
                lost.add(symbol)
    is_called = precompile_entry(target)
    return Precompilation(len(made), len(made.keys() - lost), is_called and not lost)


def pack(
    folder: Path, levels: Sequence[str] = LEVELS, some: Sequence[Sample] | None = None
) -> None:
    """Compile for levels of the instruction set, and write a file for each into `folder`.

    It is part of a package that is built then, of which nobody changes a file meanwhile.
    """
    for name in levels:
        with TemporaryDirectory() as made, override(cache=True, precompiled=True, cache_dir=made):
            target = target_named(name)
            path = folder / pack_name(target)
            path.unlink(missing_ok=True)  # what is found there would not be compiled
            targets = target, *measured_at(target)
            if not all([precompile(some, t, sources_of_leaves()).is_whole for t in targets]):
                raise OSError(f"{made} has no room for what is compiled for {name}")
            store = precompiled_store()
            assert store is not None, "the cache is on"
            write_pack(path, store.contents())
