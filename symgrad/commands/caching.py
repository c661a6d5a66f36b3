"""Subcommands about the object cache: where it is, what is in it, and emptying it."""

from __future__ import annotations

from tabulate import tabulate

from symgrad.codegen.native.object_store import ObjectStore, object_store
from symgrad.config import settings

ACTIONS = ("show", "path", "clear")
_OFF = "the cache is off: the setting cache says so, or this user has no folder for caches\n"


def cache_text(action: str) -> str:
    """Do what `python -m symgrad cache` is asked for, and return what it says."""
    store = object_store()
    if store is None:
        return _OFF
    if action == "path":
        return f"{store.folder}\n"
    if action == "clear":
        files, size = store.clear()
        return f"removed {files} files of {_megabytes(size)} from {store.folder}\n"
    return _show(store)


def _show(store: ObjectStore) -> str:
    sizes: dict[str, list[int]] = {}
    for path, state in store.entries():
        sizes.setdefault(path.suffix[1:] or "unfinished", []).append(state.st_size)
    total = sum(map(sum, sizes.values()))
    rows = [
        ("folder", str(store.folder)),
        ("limit", _megabytes(settings().cache_megabytes << 20)),
        ("size", _megabytes(total)),
        *((f"{kind} entries", str(len(found))) for kind, found in sorted(sizes.items())),
    ]
    return f"{tabulate(rows, tablefmt='plain', disable_numparse=True)}\n"


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MB"
