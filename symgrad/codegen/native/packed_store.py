"""Read-only content-addressed store: the entries of a folder in one file, part of an installation.

    magic, count, then of each entry, in the order of their keys:
        digest of its key, where it begins, its length, its checksum
    the entries

What a package was built with is as trusted as the modules beside it, so nobody asks who may write
the file. But it is as good as none if it is damaged, and an entry that is not found by its key, of
another version or machine, is not there.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from bisect import bisect_left
from collections.abc import Hashable, Iterable
from functools import lru_cache
from pathlib import Path

from symgrad.codegen.native.object_store import EntryKey, digest_of, precompiled_store
from symgrad.codegen.target import Target

_MAGIC = b"symgrad pack 1\n\0"
_COUNT = struct.Struct("<Q")
_ROW = struct.Struct("<20sQQ16s")
_HEAD = len(_MAGIC) + _COUNT.size
_PACKS = Path(__file__).parents[2] / "precompiled"  # of the package


def pack_name(level: Target) -> str:
    """Return the name of the file of what was compiled for a level of the instruction set."""
    return f"{level.name}.pack"


def write_pack(path: Path, entries: Iterable[tuple[EntryKey, bytes]]) -> int:
    """Make a file of some entries; return how many there are."""
    by_digest = sorted({_digest(key): payload for key, payload in entries}.items())
    start = _HEAD + len(by_digest) * _ROW.size
    rows = []
    for digest, payload in by_digest:
        rows.append(_ROW.pack(digest, start, len(payload), _checksum(digest, payload)))
        start += len(payload)
    payloads = (payload for _, payload in by_digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join((_MAGIC, _COUNT.pack(len(rows)), *rows, *payloads)))
    return len(rows)


class PackedStore:
    """The entries of a file, of which there are none where it is not what `write_pack` makes."""

    def __init__(self, path: Path) -> None:
        self._content: mmap.mmap | bytes = _mapped(path)
        count = 0
        if self._content[: len(_MAGIC)] == _MAGIC and len(self._content) >= _HEAD:
            (count,) = _COUNT.unpack_from(self._content, len(_MAGIC))
        is_whole = len(self._content) >= _HEAD + count * _ROW.size
        self._count = count if is_whole else 0

    def __len__(self) -> int:
        return self._count

    def read(self, key: EntryKey) -> bytes | None:
        """Return what is there for `key`, None if that is nothing, or not what was written."""
        digest = _digest(key)
        place = bisect_left(range(self._count), digest, key=lambda row: self._row(row)[0])
        if place == self._count:
            return None
        found, start, length, checksum = self._row(place)
        payload = self._content[start : start + length]
        return payload if found == digest and checksum == _checksum(digest, payload) else None

    def _row(self, place: int) -> tuple[bytes, int, int, bytes]:
        digest, start, length, checksum = _ROW.unpack_from(self._content, _HEAD + place * _ROW.size)
        return digest, start, length, checksum


def _mapped(path: Path) -> mmap.mmap | bytes:
    try:
        with path.open("rb") as opened:
            return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # there is none, or it is empty
        return b""


def _digest(key: EntryKey) -> bytes:
    return bytes.fromhex(digest_of(key.kind, key.made_for, key.digest))[:20]


def _checksum(digest: bytes, payload: bytes) -> bytes:
    return hashlib.blake2b(payload, key=digest, digest_size=16).digest()


# ---------------------------------------------------------------------- of this user and package


class Precompiled:
    """What was compiled for a machine before any program.

    By a command, into a folder of the user, or where the package was built.
    """

    def __init__(self, target: Target) -> None:
        self._store = precompiled_store()
        level = target.shared_level
        is_used = self._store is not None and level is not None
        self._pack = _pack(_PACKS / pack_name(level)) if is_used and level is not None else None
        has_folder = self._store is not None and self._store.has_folder
        self.is_empty = not has_folder and not self._pack

    @property
    def place(self) -> Hashable:
        """Which folder and file this is of."""
        return self._store, self._pack

    @property
    def packaged(self) -> int:
        """How many entries the package brings along."""
        return len(self._pack) if self._pack is not None else 0

    def read(self, key: EntryKey) -> bytes | None:
        """Return what is there for `key`, None if that is nothing."""
        found = None if self._store is None or self.is_empty else self._store.read(key)
        return self._pack.read(key) if found is None and self._pack else found

    def write(self, key: EntryKey, payload: bytes) -> bool:
        """Keep `payload` for `key` in the folder, if there is to be one; return whether it was."""
        is_kept = self._store is not None and self._store.write(key, payload)
        self.is_empty = self.is_empty and not is_kept
        return is_kept


@lru_cache(maxsize=8)
def _pack(path: Path) -> PackedStore:
    return PackedStore(path)
