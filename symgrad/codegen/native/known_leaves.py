"""Compilation cache of leaf functions: found by what they are made of, before any text is made.

    record of a tile or a packer, target, compiler  ->  how it is declared, and its digest

Those that were precompiled have an entry each (`runtime/precompile.py`), which is the same on all
machines of a level. All others that programs before had are in one entry: a file for each would
take longer to keep than the leaf takes to be emitted again.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Hashable, Mapping
from dataclasses import fields
from functools import lru_cache

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.kernels.leaf_functions import Leaf, known_as
from symgrad.codegen.llvm.linkable import LinkableModule
from symgrad.codegen.native.compiler_version import compiler_version, leaf_version
from symgrad.codegen.native.object_store import EntryKey, ObjectStore, digest_of, object_store
from symgrad.codegen.native.objects import leaves_made_for, made_for
from symgrad.codegen.native.packed_store import Precompiled
from symgrad.codegen.target import Target
from symgrad.forks import cached_property, held_over_forks

_MAX_NOTED = 4096  # leaf functions of one entry; one that would have more is begun anew

_lock = held_over_forks()


class _Noted:
    """What is known of leaf functions by what they state, in memory and in one entry of a store."""

    def __init__(self, store: ObjectStore, key: EntryKey) -> None:
        self._store = store
        self._key = key
        found = store.read(key)
        self._known: dict[str, ir.KnownFunction] = {}
        if found is not None:
            self._known = {s: ir.KnownFunction(*kept) for s, kept in marshal.loads(found).items()}
        self._written = len(self._known)

    def find(self, stated: str) -> ir.KnownFunction | None:
        return self._known.get(stated)

    def note(self, known: Mapping[str, ir.KnownFunction]) -> None:
        """Keep what is new; the entry is written when a good part of it is."""
        with _lock:
            self._known = self._known if len(self._known) < _MAX_NOTED else {}
            self._known |= known
            if len(self._known) - self._written > self._written // 8:
                self._written = len(self._known)
                kept = {s: (f.name, f.takes, f.digest) for s, f in self._known.items()}
                self._store.write(self._key, marshal.dumps(kept))


@lru_cache(maxsize=16)
def _noted(store: ObjectStore, key: EntryKey) -> _Noted:
    return _Noted(store, key)


@lru_cache(maxsize=16)
def _declared(place: Hashable, made_for: str, version: str) -> dict[Leaf, ir.KnownFunction]:
    """Return what was read of precompiled leaf functions of a place: programs share most of them.

    What is gone from there since is one of those that are known and in no object: its program is
    emitted anew (`machine_code.py`).
    """
    return {}


class KnownLeaves:
    """The leaf functions that this compiler has made for a machine, before any program or since."""

    def __init__(self, target: Target, opt_level: int, version: str | None = None) -> None:
        """Find those of this compiler, or of one whose `version` is known."""
        self._there = Precompiled(target)
        self._given = version
        self._made_for = leaves_made_for(target, opt_level)
        self._noted_for = made_for(target, opt_level)

    @cached_property
    def _version(self) -> str | None:
        """The compiler's version: files are read for it, but not for a program without products."""
        return self._given or leaf_version()

    def find(self, leaf: Leaf) -> ir.KnownFunction | None:
        """Return how the function of a leaf is declared, None if it was not precompiled."""
        found = None
        if not self._there.is_empty and self._version is not None:
            declared = _declared(self._there.place, self._made_for, self._version)
            found = declared.get(leaf) or self._read(leaf)
            if found is not None and len(declared) < _MAX_NOTED:
                declared[leaf] = found
        if found is None and self._noted is not None:
            found = self._noted.find(_stated(leaf))
        return found

    def _read(self, leaf: Leaf) -> ir.KnownFunction | None:
        """Return how a leaf that was precompiled is declared, as its entry says."""
        kept = self._there.read(self._key(_stated(leaf)))
        if kept is None:
            return None
        name, takes, digest = json.loads(kept)
        return ir.KnownFunction(name, tuple(takes), digest)

    @cached_property
    def _noted(self) -> _Noted | None:
        """What programs before have had, None where nothing may be known of it."""
        version, store = compiler_version(), object_store()
        if self._given is not None or version is None or store is None:
            return None
        return _noted(store, EntryKey("noted", self._noted_for, version))

    def note(self, module: LinkableModule) -> None:
        """Note the leaf functions that a module has."""
        emitted = set(module.leaves)
        if emitted and self._noted is not None:
            names = module.names_of_leaves().items()
            there = {leaf: digest for leaf, (symbol, digest) in names if symbol in emitted}
            new = {_stated(leaf): known_as(leaf, digest) for leaf, digest in there.items()}
            if new:
                self._noted.note(new)

    def keep(self, leaf: Leaf, digest: str) -> bool:
        """Note that the function of a leaf, whose text has this digest, was precompiled.

        Returns whether that is there now.
        """
        key = self._key(_stated(leaf))
        if self._version is None or self._there.read(key) is not None:
            return True
        return self._there.write(key, json.dumps(known_as(leaf, digest)).encode())

    def _key(self, stated: str) -> EntryKey:
        return EntryKey("declared", self._made_for, digest_of(str(self._version), stated))


@lru_cache(maxsize=1024)
def _stated(leaf: Leaf) -> str:
    """Return all that a leaf states, but for the target."""
    values = (getattr(leaf, field.name) for field in fields(leaf))
    stated = (
        f"{value.stored} as {value.compute}" if isinstance(value, Elements) else repr(value)
        for value in values
        if not isinstance(value, Target)
    )
    return f"{type(leaf).__name__} {', '.join(stated)}"
