"""Persistent memoisation of lowering: what is kept of a group, and by which text it is found.

    the key of a group (`group_key.py`) as text, its sizes  ->  its kernel, scheduled

Where a program that was compiled before had an equal group, neither lowering nor a schedule is run.
What keeps groups is handed down by who knows where (`native/known_groups.py`); here it is said
what of a group's key has a text that says all of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Protocol

from symgrad.codegen.loops.language import Kernel
from symgrad.graph.dtypes import DType
from symgrad.graph.node import OpDef
from symgrad.passes.fusion.partition import FusionGroup
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class KeptGroup:
    """What lowering and scheduling have made of a group.

    `text` is the canonical one before scheduling, by which a pool knows kernels; `alone` the kernel
    for one thread where threads share it. `starts` are where in its buffers a call begins, and
    `order` says which of the group's buffers the arguments are. `printed` is the digest of the
    kernel's text, by which its machine code is found.
    """

    text: str
    kernel: Kernel
    alone: Kernel | None
    starts: tuple[int, ...]
    order: tuple[int, ...]
    printed: str


@dataclass(frozen=True, slots=True, eq=False)
class Printed:
    """A kernel, and the digest of its text."""

    kernel: Kernel
    digest: str


def text_digest(text: str) -> str:
    """Return the digest of the text of a kernel that is called "kernel"."""
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


class KeptKind(Protocol):
    """Groups whose keys are equal, by their sizes."""

    def found(self, sizes: tuple[int, ...]) -> KeptGroup | None:
        """Return what was kept of the group of some sizes."""

    def keep(self, sizes: tuple[int, ...], group: KeptGroup) -> None:
        """Keep what was made of the group of some sizes."""


class KeptGroups(Protocol):
    """Groups of programs that were compiled before."""

    def of_kind(self, stated: str) -> KeptKind:
        """Return those whose key has a certain text."""


class NoTextError(Exception):
    """Something in a key has no text that says all of it."""


def stated_key(key: Hashable) -> str:
    """Return a text that no other key of groups has; raises `NoTextError` where there is none."""
    if type(key) is tuple:
        return f"({','.join(map(stated_key, key))},)"
    if key is None or type(key) in (str, int, bool, bytes):
        return repr(key)
    if type(key) is DType:
        return f"dtype {key.short}"
    if isinstance(key, type):
        return f"type {key.__qualname__}"
    raise NoTextError


def has_own_ops(group: FusionGroup, known: dict[OpDef, bool]) -> bool:
    """Return whether the ops of a group are symgrad's own: what others are, names do not say.

    To what is `known` of those of a program what is found is added.
    """
    used = {node.definition for node in group.nodes}
    known |= {definition: _is_own(definition) for definition in used.difference(known)}
    return all([known[definition] for definition in used])


def _is_own(definition: OpDef) -> bool:
    rules = (rule for rule in (definition.kernel, definition.infer) if rule is not None)
    return all(str(rule.__module__).startswith("symgrad.") for rule in rules)
