"""Nests: trees of lists, tuples and dicts, through the library that handles them.

This is the one place that names the library, and the one that gives its calls types: its own say
what a tree of one leaf type is, and ours hold anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import optree

Nest = optree.PyTreeSpec
_NAMESPACE = "symgrad"
_SUFFIX = f", namespace={_NAMESPACE!r}"


def register(
    cls: type,
    take_apart: Callable[[Any], tuple[tuple[Any, ...], Any]],
    put_together: Callable[[Any, Any], Any],
) -> None:
    """Make `cls` a kind of nest.

    `take_apart` gives the children, and what nests of one kind must have in common;
    `put_together` takes the two in the other order.
    """
    optree.register_pytree_node(cls, take_apart, put_together, namespace=_NAMESPACE)


def flatten(tree: Any) -> tuple[list[Any], Nest]:
    """Return the leaves of `tree` and its nest; None is a nest without leaves."""
    leaves, nest = optree.tree_flatten(tree, namespace=_NAMESPACE)
    return list(leaves), nest


def flatten_as(nest: Nest, tree: Any) -> list[Any]:
    """Return what stands in `tree` where `nest` has leaves; `ValueError` if it does not fit."""
    return list(nest.flatten_up_to(tree))


def flatten_with_nones(tree: Any) -> list[Any]:
    """Return the leaves of `tree`, each None among them."""
    return list(optree.tree_leaves(tree, none_is_leaf=True, namespace=_NAMESPACE))


def describe(nest: Nest) -> str:
    """Return text with `*` for each leaf: `({'a': *}, [*, *])`."""
    return str(nest).removeprefix("PyTreeSpec(").removesuffix(")").removesuffix(_SUFFIX)


def unflatten(nest: Nest, leaves: Iterable[Any]) -> Any:
    """Return the tree of `nest` with `leaves`."""
    return optree.tree_unflatten(nest, leaves)


def is_leaf(nest: Nest) -> bool:
    """Return whether `nest` is that of a single leaf."""
    return bool(optree.treespec_is_leaf(nest))
