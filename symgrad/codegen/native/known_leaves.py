"""Compilation cache of leaf functions: found by what they are made of, before any text is made.

    record of a tile or a packer, target, compiler  ->  how it is declared, and its digest

Only those that were precompiled are found so (`runtime/precompile.py`): for any other one it takes
longer to keep that than to emit it again.
"""

from __future__ import annotations

import json
from dataclasses import fields

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.leaf_functions import Leaf, known_as
from symgrad.codegen.native.compiler_version import compiler_version
from symgrad.codegen.native.object_store import EntryKey, digest_of, precompiled_store
from symgrad.codegen.native.objects import made_for
from symgrad.codegen.target import Target


class KnownLeaves:
    """The leaf functions that were precompiled for a machine by this compiler."""

    def __init__(self, target: Target, opt_level: int) -> None:
        version, store = compiler_version(), precompiled_store()
        self._store = None if version is None else store
        self._version = version or ""
        self._made_for = made_for(target, opt_level)
        self._is_empty = self._store is None or not self._store.folder.is_dir()

    def find(self, leaf: Leaf) -> ir.KnownFunction | None:
        """Return how the function of a leaf is declared, None if it was not precompiled."""
        kept = None
        if self._store is not None and not self._is_empty:
            kept = self._store.read(self._key(leaf))
        if kept is None:
            return None
        name, takes, digest = json.loads(kept)
        return ir.KnownFunction(name, tuple(takes), digest)

    def keep(self, leaf: Leaf, digest: str) -> None:
        """Note that the function of a leaf, whose text has this digest, was precompiled."""
        if self._store is not None and self._store.read(self._key(leaf)) is None:
            known = json.dumps(known_as(leaf, digest)).encode()
            self._store.write(self._key(leaf), known)

    def _key(self, leaf: Leaf) -> EntryKey:
        return EntryKey("declared", self._made_for, digest_of(self._version, _stated(leaf)))


def _stated(leaf: Leaf) -> str:
    """Return all that a leaf states, but for the target."""
    values = (getattr(leaf, field.name) for field in fields(leaf))
    stated = (
        f"{value.stored} as {value.compute}" if isinstance(value, Elements) else repr(value)
        for value in values
        if not isinstance(value, Target)
    )
    return f"{type(leaf).__name__} {', '.join(stated)}"
