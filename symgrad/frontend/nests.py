"""Pytrees, called nests: trees of lists, tuples and dicts, by the library that handles them.

This is the one place that names the library, and the one that gives its calls types: its own say
what a tree of one leaf type is, and ours hold anything.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import optree

from symgrad.argument_types import too_deep
from symgrad.call_errors import declare_part
from symgrad.errors import GraphError, user_source

declare_part("nest")  # what an error about one names before the call that it was given to is known

Nest = optree.PyTreeSpec
_NAMESPACE = "symgrad"


def register(
    cls: type,
    take_apart: Callable[[Any], tuple[Any, ...]],
    put_together: Callable[[Any, Any], Any],
) -> None:
    """Make `cls` a kind of nest.

    `take_apart` gives the children, what nests of one kind must have in common, and, where paths
    are not to say 0, 1, ..., the keys of the children; `put_together` takes the first two in the
    other order.
    """
    optree.register_pytree_node(cls, take_apart, put_together, namespace=_NAMESPACE)


def flatten(tree: Any) -> tuple[list[Any], Nest]:
    """Return the leaves of `tree` and its nest; None is a nest without leaves."""
    leaves, nest = _of_no_great_depth(optree.tree_flatten, tree, namespace=_NAMESPACE)
    return list(leaves), nest


def _of_no_great_depth(function: Callable[..., Any], tree: Any, **options: Any) -> Any:
    """Call `function` of the library with `tree`; of one that is too deep, say that it is."""
    try:
        return function(tree, **options)
    except RecursionError as error:
        problem = too_deep("a value", tree)
        if problem is None:
            raise
        raise GraphError("nest", problem, source=user_source()) from error


def flatten_whole(tree: Any, kind: type) -> list[Any]:
    """Return the leaves of `tree`, where each `kind`, of one leaf, is given as a whole."""
    is_whole = functools.partial(_is_instance, kind)
    return list(
        _of_no_great_depth(optree.tree_leaves, tree, is_leaf=is_whole, namespace=_NAMESPACE)
    )


def _is_instance(kind: type, value: Any) -> bool:
    return isinstance(value, kind)


def flatten_as(nest: Nest, tree: Any) -> list[Any]:
    """Return what stands in `tree` where `nest` has leaves; `ValueError` if it does not fit."""
    return list(nest.flatten_up_to(tree))


def flatten_with_nones(tree: Any) -> list[Any]:
    """Return the leaves of `tree`, each None among them."""
    return list(
        _of_no_great_depth(optree.tree_leaves, tree, none_is_leaf=True, namespace=_NAMESPACE)
    )


def describe(nest: Nest) -> str:
    """Return text with `*` for each leaf: `({'a': *}, [*, *])`."""
    return repr(unflatten(nest, [_Leaf()] * nest.num_leaves))


class _Leaf:
    """What stands for any leaf in a text."""

    def __repr__(self) -> str:
        return "*"


def unflatten(nest: Nest, leaves: Iterable[Any]) -> Any:
    """Return the tree of `nest` with `leaves`."""
    # As a list: a leaf that is computed only now may fail, and then our frames are innermost.
    return optree.tree_unflatten(nest, list(leaves))


def is_leaf(nest: Nest) -> bool:
    """Return whether `nest` is that of a single leaf."""
    return bool(optree.treespec_is_leaf(nest))


def join(trees: Sequence[Any]) -> tuple[Nest, list[list[Any]]]:
    """Return the largest nest of `trees`, and the leaves of each of them at the leaves of it.

    A leaf of a tree stands for all leaves that the largest has in its place: an array beside a
    nest, for instance, belongs to every leaf. Raises `ValueError` for a tree that does not fit.
    """
    nests = [flatten(tree)[1] for tree in trees]
    sizes = [(not is_leaf(nest), nest.num_leaves) for nest in nests]
    largest = sizes.index(max(sizes))
    full, nest = trees[largest], nests[largest]
    return nest, [leaves_beside(tree, full) for tree in trees]


def leaves_beside(tree: Any, full: Any) -> list[Any]:
    """Return the leaves of `tree` at the leaves of `full`, as `join` does."""
    return list(optree.broadcast_prefix(tree, full, namespace=_NAMESPACE))


def map_leaves(function: Callable[..., Any], *trees: Any) -> Any:
    """Return the nest that `trees` join to, with what `function` gives for the leaves of each.

    Raises `ValueError` for trees that do not fit.
    """
    if len(trees) == 1:
        leaves, nest = flatten(trees[0])
        return unflatten(nest, map(function, leaves))
    nest, columns = join(trees)
    return unflatten(nest, map(function, *columns))


def paths(tree: Any) -> list[tuple[Any, ...]]:
    """Return for each leaf the keys and numbers that lead to it."""
    return [tuple(path) for path in optree.tree_paths(tree, namespace=_NAMESPACE)]


def leaf_names(name: str, tree: Any) -> list[str]:
    """Return what to call each leaf of `tree`, an argument called `name`: `x`, or `x['w'][0]`."""
    return [name + "".join(f"[{key!r}]" for key in path) for path in paths(tree)]


def only(tree: Any, chains: Collection[tuple[Any, ...]], at: tuple[Any, ...] = ()) -> Any:
    """Return `tree` without the entries on the way to no leaf of `chains`.

    `chains` are paths of leaves, as `paths` has them; `at` is where `tree` itself is.
    """
    if at in chains:
        return tree
    children, _, keys, _ = optree.tree_flatten_one_level(tree, namespace=_NAMESPACE)
    entries = {
        key: only(child, chains, (*at, key))
        for key, child in zip(keys, children, strict=True)
        if any(chain[: len(at) + 1] == (*at, key) for chain in chains)
    }
    return type(tree)(entries if isinstance(tree, dict) else entries.values())


def none_as(leaf: Any, tree: Any) -> Any:
    """Return `tree`, in which None says something, with `leaf` in the place of each None."""
    return optree.tree_map(
        lambda value: leaf if value is None else value,
        tree,
        none_is_leaf=True,
        namespace=_NAMESPACE,
    )
