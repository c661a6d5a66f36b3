"""Compilation cache of groups: found by their keys, before any pass over loops is run.

    key of a group, target, threads, compiler  ->  scheduled kernels, by the sizes of the group

All groups of a key are in one entry, so a model whose layers have 24 widths has a few entries. In a
process they are read once, and written when there are twice as many as were written: each size of a
batch adds one.
"""

from __future__ import annotations

import marshal
from collections import OrderedDict
from typing import Any

from symgrad.codegen.loops.encoding import Encoder, Row, decoded
from symgrad.codegen.native.compiler_version import compiler_version
from symgrad.codegen.native.object_store import EntryKey, ObjectStore, digest_of, object_store
from symgrad.codegen.native.objects import made_for
from symgrad.codegen.program.kept_groups import KeptGroup
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import Target
from symgrad.forks import held_over_forks

_MAX_KEPT = 128  # of a key in an entry; one that would have more is begun anew
_MAX_KINDS = 256  # that a process keeps in memory

_lock = held_over_forks()


class _Kind:
    """Groups of one key, in memory and in an entry of a store."""

    def __init__(self, store: ObjectStore, key: EntryKey) -> None:
        self._store = store
        self._key = key
        self._encoder: Encoder | None = None
        self._rows: list[Row] = []
        self._groups: dict[tuple[int, ...], KeptGroup] = {}
        self._places: list[list[Any]] = []  # sizes, and the row of what was kept
        self._written = 0
        self._new = 0
        found = store.read(key)
        if found is not None:
            self._rows, self._places = marshal.loads(found)
            values = decoded(self._rows)
            self._groups = {tuple(sizes): KeptGroup(*values[n]) for sizes, n in self._places}

    def found(self, sizes: tuple[int, ...]) -> KeptGroup | None:
        return self._groups.get(sizes)

    def keep(self, sizes: tuple[int, ...], group: KeptGroup) -> None:
        with _lock:
            if len(self._groups) >= _MAX_KEPT:
                self._groups, self._rows, self._places, self._encoder = {}, [], [], None
            self._encoder = self._encoder or Encoder(self._rows)
            parts = group.text, group.kernel, group.alone, group.starts, group.order, group.printed
            self._places.append([sizes, self._encoder.encode(parts)])
            self._groups[sizes] = group
            self._new += 1

    def write(self) -> None:
        """Write the entry, if it lacks as many groups as this process has written."""
        with _lock:
            if self._new and self._new >= self._written:
                self._written += self._new
                self._new = 0
                # JSON takes several times as long to read; the version of Python is in the key.
                self._store.write(self._key, marshal.dumps([self._rows, self._places]))


_kinds: OrderedDict[tuple[ObjectStore, EntryKey], _Kind] = OrderedDict()


class KnownGroups:
    """The groups that programs for a machine have had."""

    def __init__(
        self, store: ObjectStore, target: Target, opt_level: int, threads: Threads, version: str
    ) -> None:
        self._store = store
        self._made_for = made_for(target, opt_level)
        self._version = f"{threads}, {version}"
        self._asked: list[_Kind] = []

    def of_kind(self, stated: str) -> _Kind:
        """Return the groups whose key has a certain text."""
        digest = digest_of(self._version, stated)
        place = self._store, EntryKey("groups", self._made_for, digest)
        with _lock:
            kind = _kinds[place] = _kinds.get(place) or _Kind(*place)
            _kinds.move_to_end(place)
            if len(_kinds) > _MAX_KINDS:
                _kinds.popitem(last=False)
        self._asked.append(kind)
        return kind

    def write(self) -> None:
        """Write what was kept of the groups that were asked for."""
        for kind in self._asked:
            kind.write()


def known_groups(target: Target, opt_level: int, threads: Threads) -> KnownGroups | None:
    """Return the groups of the store in force, None where none may be known."""
    version, store = compiler_version(), object_store()
    if version is None or store is None:
        return None
    return KnownGroups(store, target, opt_level, threads, version)
