"""Compilation cache of leaf functions: found by what they are made of, before any text is made.

    record of a tile or a packer, target, compiler  ->  how it is declared, and its digest

Only those that were precompiled are found so (`runtime/precompile.py`): for any other one it takes
longer to keep that than to emit it again. What is kept is the same on all machines of a level.
"""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cached_property

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.kernels.leaf_functions import Leaf, known_as
from symgrad.codegen.native.compiler_version import leaf_version
from symgrad.codegen.native.object_store import EntryKey, digest_of
from symgrad.codegen.native.objects import leaves_made_for
from symgrad.codegen.native.packed_store import Precompiled
from symgrad.codegen.target import Target


class KnownLeaves:
    """The leaf functions that were precompiled for a machine by this compiler."""

    def __init__(self, target: Target, opt_level: int, version: str | None = None) -> None:
        """Find those of this compiler, or of one whose `version` is known."""
        self._there = Precompiled(target)
        self._given = version
        self._made_for = leaves_made_for(target, opt_level)

    @cached_property
    def _version(self) -> str | None:
        """The compiler's version: files are read for it, but not for a program without products."""
        return self._given or leaf_version()

    def find(self, leaf: Leaf) -> ir.KnownFunction | None:
        """Return how the function of a leaf is declared, None if it was not precompiled."""
        if self._there.is_empty or self._version is None:
            return None
        kept = self._there.read(self._key(leaf))
        if kept is None:
            return None
        name, takes, digest = json.loads(kept)
        return ir.KnownFunction(name, tuple(takes), digest)

    def keep(self, leaf: Leaf, digest: str) -> bool:
        """Note that the function of a leaf, whose text has this digest, was precompiled.

        Returns whether that is there now.
        """
        if self._version is None or self._there.read(self._key(leaf)) is not None:
            return True
        known = json.dumps(known_as(leaf, digest)).encode()
        return self._there.write(self._key(leaf), known)

    def _key(self, leaf: Leaf) -> EntryKey:
        return EntryKey("declared", self._made_for, digest_of(str(self._version), _stated(leaf)))


def _stated(leaf: Leaf) -> str:
    """Return all that a leaf states, but for the target."""
    values = (getattr(leaf, field.name) for field in fields(leaf))
    stated = (
        f"{value.stored} as {value.compute}" if isinstance(value, Elements) else repr(value)
        for value in values
        if not isinstance(value, Target)
    )
    return f"{type(leaf).__name__} {', '.join(stated)}"
