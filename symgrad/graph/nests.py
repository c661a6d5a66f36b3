"""Nests: trees of lists, tuples and dicts, through the library that handles them.

This is the one place that names the library, and the one that gives its calls types: its own say
what a tree of one leaf type is, and ours hold anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import optree

Nest = optree.PyTreeSpec


def flatten(tree: Any) -> tuple[list[Any], Nest]:
    """Return the leaves of `tree` and its nest; None is a nest without leaves."""
    leaves, nest = optree.tree_flatten(tree)
    return list(leaves), nest


def flatten_as(nest: Nest, tree: Any) -> list[Any]:
    """Return what stands in `tree` where `nest` has leaves; `ValueError` if it does not fit."""
    return list(nest.flatten_up_to(tree))


def describe(nest: Nest) -> str:
    """Return text with `*` for each leaf: `({'a': *}, [*, *])`."""
    return str(nest).removeprefix("PyTreeSpec(").removesuffix(")")


def unflatten(nest: Nest, leaves: Iterable[Any]) -> Any:
    """Return the tree of `nest` with `leaves`."""
    return optree.tree_unflatten(nest, leaves)


def is_leaf(nest: Nest) -> bool:
    """Return whether `nest` is that of a single leaf."""
    return bool(optree.treespec_is_leaf(nest))
