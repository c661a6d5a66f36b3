"""Subcommands about the object cache: where it is, what is in it, filling and emptying it."""

from __future__ import annotations

import itertools

from tabulate import tabulate

from symgrad.codegen.native.object_store import (
    ObjectStore,
    bytes_of,
    object_store,
    precompiled_store,
)
from symgrad.codegen.native.packed_store import Precompiled
from symgrad.codegen.target import target_named
from symgrad.commands.loading import CommandError
from symgrad.config import settings
from symgrad.runtime.precompile import precompile

ACTIONS = ("show", "path", "clear", "precompile")
_WITHOUT = "nothing is precompiled: the setting precompiled says so\n"
_OFF = "the cache is off: the setting cache says so, or this user has no folder for caches\n"


def cache_text(action: str) -> str:
    """Do what `python -m symgrad cache` is asked for, and return what it says.

    Raises `CommandError` where what was precompiled could not all be kept.
    """
    store = object_store()
    if store is None:
        return _OFF
    if action == "path":
        return f"{store.folder}\n"
    if action == "clear":
        return "".join(map(_clear, _stores(store)))
    if action == "precompile":
        return _precompile()
    return _show(store)


def _stores(store: ObjectStore) -> list[ObjectStore]:
    precompiled = precompiled_store()
    return [store] if precompiled is None else [store, precompiled]


def _clear(store: ObjectStore) -> str:
    files, size = store.clear()
    return f"removed {files} files of {_megabytes(size)} from {store.folder}\n"


def _precompile() -> str:
    store = precompiled_store()
    if store is None:
        return _WITHOUT
    made = precompile()
    if not made.is_whole:
        raise CommandError(
            str(store.folder),
            f"of {made.compiled} functions of products that were compiled {made.kept} are kept: "
            "the folder has no room, or cannot be written, or others may write in it",
        )
    return f"compiled {made.compiled} functions of products into {store.folder}\n"


def _show(store: ObjectStore) -> str:
    sizes: dict[str, list[int]] = {}
    for path, state in itertools.chain(*(some.entries() for some in _stores(store))):
        sizes.setdefault(path.suffix[1:] or "unfinished", []).append(bytes_of(state))
    total = sum(map(sum, sizes.values()))
    rows = [
        ("folder", str(store.folder)),
        ("limit", _megabytes(settings().cache_megabytes << 20)),
        ("size", _megabytes(total)),
        ("entries of the package", str(Precompiled(target_named("native")).packaged)),
        *((f"{kind} entries", str(len(found))) for kind, found in sorted(sizes.items())),
    ]
    return f"{tabulate(rows, tablefmt='plain', disable_numparse=True)}\n"


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MB"
