"""Compilation cache of object files: made, or found where an earlier process left them.

    entry of a program  ---> the objects that it was linked from, and what it is passed
    kernel, or leaf     ---> the object that defines it
    some leaves         ---> the objects that define them
    precompiled leaf    ---> the object that defines it alone
    text of a module    ---> object file

The last is the cache proper: an object is kept under the very text that LLVM was given, and what
else it depends on, which is the target, LLVM and how it is run. So whatever changes in the compiler
changes the key. The first two lines only say where to look: a kernel has a name of its content
(`codegen/llvm/linkable.py`), so the kernels that a program shares with one before it, such as all
but those of the layer that was edited, are not compiled again. Nor are leaf functions, such as the
tiles of products, which are in objects of their own: one for all that a program is the first to
need. Those that many programs need may be there before any of them was compiled: in stores of
their own (`packed_store.py`), where each has an object. They are found by the same digests, so it
makes no difference to what a program computes whether they are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType

import llvmlite

from symgrad.codegen import target as description
from symgrad.codegen.llvm.linkable import LinkableModule
from symgrad.codegen.native import jit
from symgrad.codegen.native.jit import (
    assembly_of_calls,
    emit_as_is,
    emit_assembly,
    emit_calls,
    emit_object,
    optimize,
    optimize_leaves,
)
from symgrad.codegen.native.object_store import (
    EntryKey,
    ObjectStore,
    digest_of,
    object_store,
)
from symgrad.codegen.native.packed_store import Precompiled
from symgrad.codegen.target import Target, llvm_version
from symgrad.records import dataclass

_NONE_THERE: Mapping[str, Collection[str]] = MappingProxyType({})


def compile_object(module_text: str, target: Target, opt_level: int) -> bytes:
    """Compile a module to an object file."""
    return emit_object(optimize(module_text, target, opt_level), target, opt_level)


def compile_leaves(module_text: str, target: Target, opt_level: int) -> bytes:
    """Compile a module of leaf functions to an object file."""
    return emit_object(optimize_leaves(module_text, target, opt_level), target, opt_level)


def compile_module(module: LinkableModule, target: Target, opt_level: int) -> list[bytes]:
    """Compile a module with all that it needs to object files, of which none is kept."""
    images = [compile_object(module.text(module.kernels), target, opt_level)]
    if module.leaves:
        images.append(compile_leaves(module.text_of_leaves(module.leaves), target, opt_level))
    if module.calls is not None:
        images.append(emit_calls(module.calls, target))
    return images


def optimized_text(module: LinkableModule, target: Target, opt_level: int) -> str:
    """Return the LLVM IR of which `compile_module` makes machine code."""
    text = str(optimize(module.optimized, target, opt_level))
    if module.leaves:
        leaves = module.text_of_leaves(module.leaves)
        text += str(optimize_leaves(leaves, target, opt_level))
    return LinkableModule.without_aliases(text)


def assembly_of(module: LinkableModule, target: Target, opt_level: int) -> str:
    """Return the assembly of what `compile_module` makes."""
    texts = [emit_assembly(optimize(module.computing, target, opt_level), target, opt_level)]
    if module.leaves:
        leaves = module.text_of_leaves(module.leaves)
        optimized = optimize_leaves(leaves, target, opt_level)
        texts.append(emit_assembly(optimized, target, opt_level))
    if module.calls is not None:
        texts.insert(0, assembly_of_calls(module.calls, target))
    return LinkableModule.without_aliases("".join(texts))


def object_of(module_text: str, target: Target, opt_level: int) -> bytes:
    """Return the object file of a module, which is kept for other processes."""
    store = object_store()
    if store is None:
        return compile_object(module_text, target, opt_level)
    key = EntryKey("object", made_for(target, opt_level), digest_of(module_text))
    found = store.read(key)
    if found is None:
        found = compile_object(module_text, target, opt_level)
        store.write(key, found)
    return found


def final_object_of(module_text: str, target: Target, opt_level: int) -> bytes:
    """Return the object file of a module that is in its final form: no pass runs on it.

    It is for a level of the instruction set, as leaf functions are, perhaps before any program.
    The `opt_level` may be `ONLY_CALLS`.
    """
    found = known_final_object(digest_of(module_text), target, opt_level)
    if found is None:
        target, store = target.shared_level or target, object_store()
        found = emit_as_is(module_text, target, opt_level)
        if store is not None:
            store.write(_final_key(digest_of(module_text), target, opt_level), found)
    return found


def known_final_object(text_digest: str, target: Target, opt_level: int) -> bytes | None:
    """Return what `final_object_of` has made of a module, by the digest of its text."""
    target, store = target.shared_level or target, object_store()
    if store is None:
        return None
    key = _final_key(text_digest, target, opt_level)
    return store.read(key) or Precompiled(target).read(key)


def precompile_final(module_text: str, target: Target, opt_level: int) -> bool:
    """Compile what `final_object_of` would, into the folder of what is precompiled.

    Returns whether it is there now.
    """
    target = target.shared_level or target
    there, key = Precompiled(target), _final_key(digest_of(module_text), target, opt_level)
    if there.read(key) is not None:
        return True
    return there.write(key, emit_as_is(module_text, target, opt_level))


def _final_key(text_digest: str, target: Target, opt_level: int) -> EntryKey:
    return EntryKey("final", made_for(target, opt_level), text_digest)


@lru_cache(maxsize=64)
def made_for(target: Target, opt_level: int) -> str:
    """Return what code depends on besides its text: the machine, LLVM, and how that is run."""
    versions = f"LLVM {llvm_version()}, llvmlite {llvmlite.__version__}, pipeline {_pipeline()}"
    return f"{target}, level {opt_level}, {versions}"


def leaves_made_for(target: Target, opt_level: int) -> str:
    """Return what the code of precompiled leaf functions depends on: no CPU, where that may be."""
    return made_for(target.shared_level or target, opt_level)


@cache
def _pipeline() -> str:
    """Return a digest of how LLVM is run here: the passes, and how a target machine is made."""
    sources = [Path(str(module.__file__)).read_text("utf-8") for module in (jit, description)]
    return digest_of(*sources)[:16]


@dataclass(frozen=True, slots=True, eq=False)
class ProgramObjects:
    """The object files of a program by their digests, the last that of its entry.

    `passed` is what an entry that is a closure is passed (`llvm/entry_closure.py`), else None. Of a
    closure those that are in memory are empty.
    """

    images: Mapping[str, bytes]
    passed: tuple[int | str, ...] | None


class ObjectsOfKernels:
    """The objects of programs for a machine, in a store, and what was precompiled."""

    def __init__(
        self,
        store: ObjectStore,
        target: Target,
        opt_level: int,
        in_memory: Mapping[str, Collection[str]] = _NONE_THERE,
    ) -> None:
        """Take those of a store; of closures, what is `in_memory` is not read.

        These are digests of objects, each with the kernels that it defines.
        """
        self._store = store
        self._in_memory = in_memory
        self._places = {symbol: [digest] for digest, of in in_memory.items() for symbol in of}
        self._precompiled = Precompiled(target)
        self._target = target
        self._opt_level = opt_level
        self._made_for = made_for(target, opt_level)
        self._leaves_made_for = leaves_made_for(target, opt_level)

    def images(self, module: LinkableModule) -> ProgramObjects:
        """Return object files that define the entry of `module` and all its kernels.

        Kernels that no object in the store has are compiled together, with the rest of the module.
        The leaf functions that they call are in others. Raises `AssertionError` for a kernel that
        is in no object and was not emitted.
        """
        whole = self.images_of(module.entry)
        if whole is not None:
            return whole
        closed = module.closure is not None
        there = self._places if closed else {}
        elsewhere = [symbol for symbol in module.kernels if symbol not in there]
        listed = self._listed_each("kernel", elsewhere)
        places = {s: there[s] if s in there else listed[s] for s in module.kernels}
        digests = list(dict.fromkeys(d for found in places.values() for d in found))
        images = self._objects(digests, is_closed=closed)
        missing = [s for s, found in places.items() if not found or found[0] not in images]
        assert not module.known.intersection(missing), "known kernels are in no object"
        return self._made(module, missing, images)

    def images_of(self, entry: str) -> ProgramObjects | None:
        """Return the objects of the program whose entry has this name, None without all."""
        kept = self._store.read(self._key("program", entry))
        if kept is None:
            return None
        listed, passed = json.loads(kept)
        images = self._objects(listed, is_closed=passed is not None)
        if not listed or len(images) != len(listed):
            return None
        return ProgramObjects(
            {d: images[d] for d in listed}, None if passed is None else tuple(passed)
        )

    def images_of_leaves(self, leaves: Iterable[str], module: LinkableModule | None) -> list[bytes]:
        """Return object files that define `leaves`; what is in none is compiled, of `module`.

        Raises `AssertionError` for one that is neither in the store nor of the module.
        """
        wanted = list(leaves)
        if not wanted:
            return []
        together = self._key("leaves", digest_of(*wanted))
        listed = self._listed(together)
        images = self._objects(listed)
        if listed and len(images) == len(listed):
            return [*images.values()]
        places = self._listed_each("leaf", wanted)
        images = self._objects(list(dict.fromkeys(d for found in places.values() for d in found)))
        lacking = [s for s, found in places.items() if not found or found[0] not in images]
        there = self._found_precompiled(lacking)
        images |= there
        missing = [symbol for symbol in lacking if symbol not in there]
        if missing:
            assert module is not None, f"{missing} are in no object"
            unknown = set(missing).difference(module.leaves)
            assert not unknown, f"{unknown} are in no object, and of no kernel"
            made, image = self._made_leaves(module, missing)
            images[made] = image
        if not there:
            self._list(together, list(images))
        return [*images.values()]

    def _found_precompiled(self, leaves: Iterable[str]) -> dict[str, bytes]:
        """Return the objects of leaf functions that were precompiled."""
        if self._precompiled.is_empty:
            return {}
        found = {symbol: self._precompiled.read(self._leaf_key(symbol)) for symbol in leaves}
        return {symbol: image for symbol, image in found.items() if image is not None}

    def precompile(self, module: LinkableModule, leaves: Iterable[str]) -> dict[str, bool]:
        """Compile each of some leaf functions of a module, by their names by content.

        Returns those that were not there, and whether they are now.
        """
        made = {}
        for symbol in leaves:
            key = self._leaf_key(symbol)
            if self._precompiled.read(key) is None:
                text = module.text_of_leaves([symbol])
                image = compile_leaves(text, self._target, self._opt_level)
                made[symbol] = self._precompiled.write(key, image)
        return made

    def _leaf_key(self, symbol: str) -> EntryKey:
        return EntryKey("precompiled", self._leaves_made_for, symbol)

    def made_anew(self, module: LinkableModule) -> ProgramObjects:
        """Compile all of `module` as if nothing were in the store; return what `images` does."""
        if module.leaves:
            self._made_leaves(module, module.leaves)
        return self._made(module, module.kernels, {})

    def _made(
        self, module: LinkableModule, missing: list[str], others: dict[str, bytes]
    ) -> ProgramObjects:
        """Compile the kernels that are `missing`, and note where all of them are."""
        images = dict(others)
        passed: tuple[int | str, ...] | None = None
        # An object of kernels needs no other, for any program may have them: so the entry is with
        # them only if they are all.
        if module.calls is None and not others:
            made, image = self._compiled(module.text(missing), "kernel", missing)
            images[made] = image
        else:
            if missing:
                text = module.text_of_kernels(missing)
                made, image = self._compiled(text, "kernel", missing)
                images[made] = image
            made, image, passed = self._made_entry(module)
            images[made] = image
        kept = json.dumps([list(images), passed]).encode()
        self._store.write(self._key("program", module.entry), kept)
        return ProgramObjects(images, passed)

    def _made_entry(
        self, module: LinkableModule
    ) -> tuple[str, bytes, tuple[int | str, ...] | None]:
        """Return the digest and the object of an entry, and what it is passed if it is a closure.

        Another entry may have the text of that.
        """
        if not module.only_calls:
            return *self._compiled(module.alone, "kernel", ()), None
        closure = module.closure
        text = module.alone if closure is None else closure.text
        made = digest_of(text)
        image = None if closure is None else self._objects([made], is_closed=True).get(made)
        if image is None:
            image = emit_calls(text, self._target)
            self._store.write(self._key("object", made), image)
        return made, image, None if closure is None else closure.passed

    def _made_leaves(self, module: LinkableModule, missing: list[str]) -> tuple[str, bytes]:
        return self._compiled(module.text_of_leaves(missing), "leaf", missing)

    def _compiled(self, text: str, kind: str, defined: Iterable[str]) -> tuple[str, bytes]:
        """Compile a module, and note that the functions of a kind that it defines are there."""
        compile_text = compile_leaves if kind == "leaf" else compile_object
        made, image = digest_of(text), compile_text(text, self._target, self._opt_level)
        self._store.write(self._key("object", made), image)
        listed = _listing([made])
        self._store.write_each(kind, self._made_for, dict.fromkeys(defined, listed))
        return made, image

    def _objects(self, digests: list[str], *, is_closed: bool = False) -> dict[str, bytes]:
        """Return the objects that are there, of a closure nothing of those in memory."""
        there = self._in_memory if is_closed else _NONE_THERE
        lacking = [digest for digest in digests if digest not in there]
        found = self._store.read_each("object", self._made_for, lacking)
        found |= dict.fromkeys(there.keys() & digests, b"")
        return {digest: found[digest] for digest in digests if digest in found}

    def _key(self, kind: str, digest: str) -> EntryKey:
        return EntryKey(kind, self._made_for, digest)

    def _listed(self, key: EntryKey) -> list[str]:
        listed = self._store.read(key)
        return [] if listed is None else _digests_of(listed)

    def _listed_each(self, kind: str, symbols: Iterable[str]) -> dict[str, list[str]]:
        """Return in which objects functions of a kind are, for those in none nothing."""
        there = self._store.read_each(kind, self._made_for, symbols)
        return {s: _digests_of(there[s]) if s in there else [] for s in symbols}

    def _list(self, key: EntryKey, digests: list[str]) -> None:
        self._store.write(key, _listing(digests))


def _listing(digests: list[str]) -> bytes:
    return json.dumps(digests).encode()


def _digests_of(listing: bytes) -> list[str]:
    return [str(digest) for digest in json.loads(listing)]
