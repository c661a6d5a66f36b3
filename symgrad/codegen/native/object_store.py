"""Content-addressed store: entries in files of a folder, the same for all processes of a user.

An entry is what a key stands for, such as the object file of a module. A file states the whole key
and a checksum, so what is not exactly what was asked for, be it of another version, of another CPU
or damaged, counts as nothing. It is written beside its place and renamed, so there is never half of
one. Nothing here raises: a folder that cannot be made or written is one in which nothing is found.

Small entries that are written at once are one file, of which each has a hard link under its name:
to make a file takes ten times as long as to link one, and who asks for many of them reads it once.

It knows nothing of what the entries are, and of no key more than its text.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from symgrad.config import settings
from symgrad.records import dataclass

_MAGIC = b"symgrad cache 1"
_OF_SEVERAL = "together"  # in the place of a digest: of entries that were written at once
_UNFINISHED = ".unfinished-"
_PROCESS = os.urandom(8).hex()  # in the names of such files, with the number of the process
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_NEW |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_BESIDE = "-link"  # behind the name of such a file: a link that is to take the place of another
_ABANDONED = 3600.0  # seconds: whoever began to write a file so old was killed
_FRESH = 60.0  # seconds: an entry used so lately need not be marked as used again
_KEPT = 0.75  # of the limit is what is left when entries had to go
_LOOKED_THROUGH = ".looked-through"  # a file that was changed when entries were last let go
_DAY = 86400.0
_MUCH = 64  # a part of the limit
_BLOCK = 4096  # bytes that a file takes at least
_MAX_SHARE = 0.25  # of the limit that one entry may take
_PRECOMPILED_LIMIT = 64 << 20  # bytes: several versions, each of some thousand small files

_unfinished = itertools.count()


@dataclass(frozen=True, slots=True)
class EntryKey:
    """What an entry is of: a kind, what it was made for and with, and a digest of its content."""

    kind: str
    made_for: str
    digest: str

    def __post_init__(self) -> None:
        stated = f"{self.kind}{self.made_for}{self.digest}"
        assert "\n" not in stated, f"{self} is of no lines"

    @property
    def file_name(self) -> str:
        """The name of the file: of all that the key states."""
        return f"{digest_of(self.made_for, self.digest)[:40]}.{self.kind}"

    def stated(self) -> bytes:
        return f"{self.kind}\n{self.made_for}\n{self.digest}".encode()


def digest_of(*texts: str) -> str:
    """Return the digest of some texts, in hexadecimal."""
    state = hashlib.blake2b(digest_size=32)
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(encoded))
        state.update(encoded)
    return state.hexdigest()


def _checksum(stated: bytes, payload: bytes) -> bytes:
    state = hashlib.blake2b(stated, digest_size=32)
    state.update(payload)
    return state.hexdigest().encode()


def _content(key: EntryKey, payload: bytes) -> bytes:
    """Return the file of what is kept for a key."""
    stated = key.stated()
    return b"\n".join((_MAGIC, stated, _checksum(stated, payload), payload))


def _payload(content: bytes, key: EntryKey) -> bytes | None:
    """Return what is kept for a key, of its file; None if it is another one, or damaged."""
    stated = key.stated()
    head = b"%s\n%s\n" % (_MAGIC, stated)
    if not content.startswith(head):
        return None
    payload = content[len(head) + 65 :]
    return payload if content.startswith(_checksum(stated, payload) + b"\n", len(head)) else None


class ObjectStore:
    """Entries in a folder that belongs to this user, up to a number of bytes.

    When they are more, those go that were not used for longest.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._written = 0  # bytes, since the folder was last looked through
        self._is_due_at = 0.0  # when it is to be looked through for its age, at the earliest

    @property
    def has_folder(self) -> bool:
        """Whether the folder is there, as far as this user may know."""
        state = _state(self.folder)
        return state is not None and stat.S_ISDIR(state.st_mode)

    def read(self, key: EntryKey) -> bytes | None:
        """Return what is there for `key`, None if that is nothing, or not what was written."""
        return self.read_each(key.kind, key.made_for, (key.digest,)).get(key.digest)

    def read_each(self, kind: str, made_for: str, digests: Iterable[str]) -> dict[str, bytes]:
        """Return what is there of a kind, made for the same, by the digests."""
        found: dict[str, bytes] = {}
        together: dict[str, str] = {}  # entries of files that were read for others
        for digest in digests:
            if digest not in together:
                key = EntryKey(kind, made_for, digest)
                # As text, since a program asks for a thousand kernels, and joining a path takes as
                # long as finding out that there is no such file.
                content = self._contents(f"{self.folder}/{key.file_name}")
                if content is None:
                    continue
                payload = _payload(content, key)
                if payload is not None:
                    found[digest] = payload
                    continue
                several = _payload(content, EntryKey(kind, made_for, _OF_SEVERAL))
                together |= {} if several is None else json.loads(several)
            if digest in together:
                found[digest] = together[digest].encode("latin-1")
        return found

    def write(self, key: EntryKey, payload: bytes) -> bool:
        """Keep `payload` for `key`, in place of what is there; return whether it was kept.

        It is not where the folder cannot be written, has no room, or is not this user's alone.
        """
        return self._write(_content(key, payload), [key])

    def write_each(self, kind: str, made_for: str, payloads: Mapping[str, bytes]) -> None:
        """Keep entries of a kind, made for the same, by their digests, as `write` keeps one."""
        keys = [EntryKey(kind, made_for, digest) for digest in payloads]
        texts = {digest: payload.decode("latin-1") for digest, payload in payloads.items()}
        together = _content(EntryKey(kind, made_for, _OF_SEVERAL), json.dumps(texts).encode())
        if len(keys) > 1 and self._write(together, keys):
            return
        for key in keys:  # where there are no hard links, or not so many
            if not self.write(key, payloads[key.digest]):
                return

    def _write(self, content: bytes, keys: list[EntryKey]) -> bool:
        """Make one file the entries of some keys; return whether it is that of all."""
        if len(content) > self.limit * _MAX_SHARE or not self._is_ready():
            return False
        # No two files of any processes are called so; `tempfile` takes several times as long.
        unfinished = f"{self.folder}/{_UNFINISHED}{_PROCESS}-{os.getpid()}-{next(_unfinished)}"
        try:
            with os.fdopen(_new_file(unfinished), "wb") as opened:
                opened.write(content)
            for key in keys[1:]:
                self._link(unfinished, f"{self.folder}/{key.file_name}")
            Path(unfinished).replace(self.folder / keys[0].file_name)
        except OSError:
            _remove(Path(unfinished))
            _remove(Path(f"{unfinished}{_BESIDE}"))
            return False
        self._keep_to_limit(len(content))
        return True

    @staticmethod
    def _link(whole: str, place: str) -> None:
        """Make a file that is whole the one at `place` too, in place of what is there."""
        try:
            os.link(whole, place)
        except FileExistsError:
            beside = f"{whole}{_BESIDE}"
            os.link(whole, beside)
            Path(beside).replace(place)

    def entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield the files of the folder that are entries, or were to become some."""
        try:
            paths = list(self.folder.iterdir())
        except OSError:
            return
        for path in paths:
            state = _state(path)
            is_file = state is not None and stat.S_ISREG(state.st_mode)
            if state is not None and is_file and path.name != _LOOKED_THROUGH:
                yield path, state

    def contents(self) -> Iterator[tuple[EntryKey, bytes]]:
        """Yield the keys of all entries that are whole, and what they are of."""
        for path, _ in self.entries():
            content = self._contents(str(path)) or b""
            stated = content.split(b"\n", 4)[1:4]
            if len(stated) != 3:
                continue
            # A damaged line is that of no entry.
            kind, made_for, digest = (line.decode(errors="replace") for line in stated)
            several = _payload(content, EntryKey(kind, made_for, _OF_SEVERAL)) or b"{}"
            keys = (EntryKey(kind, made_for, d) for d in (json.loads(several) or [digest]))
            for key in keys:
                payload = self.read(key) if key.file_name == path.name else None
                if payload is not None:
                    yield key, payload

    def clear(self) -> tuple[int, int]:
        """Remove all entries; return how many these were, and their bytes."""
        there = [*self.entries()]
        gone = [bytes_of(state) for path, state in there if _remove(path)]
        return len(gone), sum(gone)

    def _contents(self, path: str) -> bytes | None:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            with os.fdopen(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as opened:
                state = os.fstat(opened.fileno())
                if not stat.S_ISREG(state.st_mode) or not _is_private(state):
                    return None
                content = opened.read()
        except OSError:
            return None
        if time.time() - state.st_mtime > _FRESH:
            with suppress(OSError):
                os.utime(path)
        return content

    def _is_ready(self) -> bool:
        """Make the folder if it is not there; return whether only this user can write in it."""
        state = _state(self.folder)
        if state is None:
            with suppress(OSError):
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            state = _state(self.folder)
        return state is not None and stat.S_ISDIR(state.st_mode) and _is_private(state)

    def _keep_to_limit(self, added: int) -> None:
        """Let entries go if they are too many.

        Looking through the folder takes a second if it is full. It is done once a day, and by a
        process that has written much.
        """
        self._written += _on_disk(added)
        mark = self.folder / _LOOKED_THROUGH
        if time.time() > self._is_due_at:
            state = _state(mark)
            self._is_due_at = 0.0 if state is None else state.st_mtime + _DAY
        is_due = time.time() > self._is_due_at
        if not is_due and self._written <= self.limit // _MUCH:
            return
        self._written = 0
        with suppress(OSError):
            mark.touch(mode=0o600)
        by_age = sorted(self.entries(), key=lambda entry: entry[1].st_mtime)
        left = sum(_on_disk(state.st_size) / _links_of(state) for _, state in by_age)
        most = self.limit * _KEPT if left > self.limit else self.limit
        for path, state in by_age:
            if path.name.startswith(_UNFINISHED):
                goes = time.time() - state.st_mtime > _ABANDONED
            else:
                goes = left > most
            if goes and _remove(path):
                left -= _on_disk(state.st_size) / _links_of(state)


def bytes_of(state: os.stat_result) -> int:
    """Return how much of a file is an entry of it: what has several links is of as many entries."""
    return state.st_size // _links_of(state)


def _new_file(path: str) -> int:
    """Make and open a file that was not there, which is this user's alone."""
    return os.open(path, _NEW, 0o600)


def _links_of(state: os.stat_result) -> int:
    return max(state.st_nlink, 1)  # some file systems do not count them


def _on_disk(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _is_private(state: os.stat_result) -> bool:
    """Return whether a file is this user's, and nobody else may read or write it."""
    if not hasattr(os, "geteuid"):
        return True
    return state.st_uid == os.geteuid() and not state.st_mode & 0o077


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None  # another process has removed it, or this user may not look there


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


# -------------------------------------------------------------------------------- of this process


def cache_folder(environment: Mapping[str, str], chosen: str, platform: str) -> Path | None:
    """Return where the entries of this user are, None where the user has no place for such.

    `chosen` is what the setting says, "" for where the platform keeps caches.
    """
    if chosen:
        return Path(chosen) / "objects"
    stated = Path(environment.get("XDG_CACHE_HOME") or "")
    if platform not in ("darwin", "win32") and stated.is_absolute():
        return stated / "symgrad" / "objects"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if platform == "darwin":
        base = home / "Library" / "Caches"
    elif platform == "win32":
        base = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        base = home / ".cache"
    return base / "symgrad" / "objects"


def object_store() -> ObjectStore | None:
    """Return the store of the settings in force, None if there is to be none."""
    chosen = settings()
    return _store(chosen.cache_dir, chosen.cache_megabytes) if chosen.cache else None


def precompiled_store() -> ObjectStore | None:
    """Return the store of what was compiled before any program, None where there is no cache.

    It is beside the other and has a limit of its own: programs do not push its entries out.
    """
    chosen = settings()
    is_used = chosen.cache and chosen.precompiled
    return _precompiled(chosen.cache_dir) if is_used else None


@lru_cache(maxsize=8)
def _store(chosen: str, megabytes: int) -> ObjectStore | None:
    folder = cache_folder(os.environ, chosen, sys.platform)
    return None if folder is None else ObjectStore(folder, megabytes << 20)


@lru_cache(maxsize=8)
def _precompiled(chosen: str) -> ObjectStore | None:
    folder = cache_folder(os.environ, chosen, sys.platform)
    return (
        None if folder is None else ObjectStore(folder.parent / "precompiled", _PRECOMPILED_LIMIT)
    )
