"""In-axes and out-axes of vmap: which axis of which array is mapped, read from prefixes of nests.

A prefix is a nest whose leaves stand for all that another nest has in their places. Here they are
ints, the axes, and None for what is not mapped, or not to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.nests import (
    Nest,
    describe,
    flatten,
    flatten_whole,
    leaf_names,
    leaves_beside,
    none_as,
    unflatten,
)
from symgrad.frontend.tensor_array import TensorArray
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import normalize_axis
from symgrad.graph.ops.marks import match_shape
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.sizes import Dim
from symgrad.records import dataclass

_SUBJECT = "vmap"


class _NotMapped:
    """What stands for None in a prefix, where it is a leaf."""

    def __repr__(self) -> str:
        return "None"


_NOT_MAPPED = _NotMapped()
Axis = int | _NotMapped


@dataclass(frozen=True, slots=True)
class AxesPrefix:
    """The value of `in_axes` or `out_axes`; two of equal axes are equal."""

    label: str
    axes: tuple[Axis, ...]
    nest: Nest

    @property
    def tree(self) -> Any:
        """The prefix as a nest of axes."""
        return unflatten(self.nest, self.axes)

    def beside(self, tree: Any, what: str) -> list[int | None]:
        """Return the axis of each leaf of `tree`; raises `GraphError` if it has another nest."""
        try:
            axes = leaves_beside(self.tree, tree)
        except ValueError as error:
            raise GraphError(
                _SUBJECT,
                f"{self.label} is {self.tree!r}, and {what} are {describe(flatten(tree)[1])}",
                hint="an axis stands for all that is below it",
                source=user_source(),
            ) from error
        return [None if isinstance(axis, _NotMapped) else axis for axis in axes]


def read_axes(label: str, axes: Any) -> AxesPrefix:
    """Return `axes` as a prefix; raises `DTypeError` for what are neither ints nor None."""
    leaves, nest = flatten(none_as(_NOT_MAPPED, axes))
    for axis in leaves:
        if as_int(axis) is None and not isinstance(axis, _NotMapped):
            raise DTypeError(
                _SUBJECT,
                f"{label} has {axis!r}, which is neither an int nor None",
                source=user_source(),
            )
    return AxesPrefix(
        label, tuple(a if isinstance(a, _NotMapped) else int(a) for a in leaves), nest
    )


@dataclass(frozen=True, slots=True, eq=False)
class MappedArguments:
    """The arguments of one call: their leaves, and of those that are mapped the stacks.

    A stack is a leaf with its axis in front; `stacks` has None for a leaf that is not mapped.
    """

    leaves: tuple[Any, ...]
    nest: Nest
    stacks: tuple[Tensor | None, ...]
    size: Dim

    def with_slices(self, slices: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of one case, positional ones and those by keyword."""
        rest = iter(slices)
        pairs = zip(self.leaves, self.stacks, strict=True)
        args, kwargs = unflatten(
            self.nest, [leaf if stack is None else next(rest) for leaf, stack in pairs]
        )
        return args, kwargs


def read_arguments(
    in_axes: AxesPrefix, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> MappedArguments:
    """Return the arguments with what is mapped found and checked.

    Raises `GraphError` where `in_axes` does not fit or nothing is mapped, `ShapeError` where there
    is no such axis or where sizes differ.
    """
    leaves, nest = flatten((args, dict(kwargs)))
    names = _names(args, kwargs)
    axes = [*_of_positions(in_axes, args), *(0 for _ in flatten(dict(kwargs))[0])]
    _refuse_arrays_of_tensors(names, axes, (args, dict(kwargs)))
    stacks = [
        None if axis is None else _stack(name, leaf, axis)
        for name, leaf, axis in zip(names, leaves, axes, strict=True)
    ]
    size = _common_size(names, axes, stacks)
    matched = [None if t is None else match_shape(t, (size, *t.shape[1:])) for t in stacks]
    return MappedArguments(tuple(leaves), nest, tuple(matched), size)


def _names(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """Return what to call each leaf of the arguments."""
    labelled = [*((f"argument {i}", a) for i, a in enumerate(args)), *sorted(kwargs.items())]
    return [name for label, argument in labelled for name in leaf_names(label, argument)]


def _of_positions(in_axes: AxesPrefix, args: tuple[Any, ...]) -> list[int | None]:
    """Return the axis of each leaf of the positional arguments."""
    tree = in_axes.tree
    if isinstance(tree, list | tuple):
        if len(tree) != len(args):
            raise GraphError(
                _SUBJECT,
                f"in_axes has {len(tree)} entries for {len(args)} arguments by position",
                source=user_source(),
            )
        given = [read_axes(f"in_axes[{i}]", axes) for i, axes in enumerate(tree)]
    else:
        given = [in_axes] * len(args)
    return [
        axis
        for i, (prefix, argument) in enumerate(zip(given, args, strict=True))
        for axis in prefix.beside(argument, f"the arrays of argument {i}")
    ]


def _refuse_arrays_of_tensors(names: Sequence[str], axes: Sequence[int | None], tree: Any) -> None:
    # Each of them is one leaf, so the places are the same.
    for name, axis, whole in zip(names, axes, flatten_whole(tree, TensorArray), strict=True):
        if axis is not None and isinstance(whole, TensorArray):
            raise GraphError(
                _SUBJECT,
                f"{name.removesuffix('[0]')} is a TensorArray, which has no axis to map",
                hint="map over array.stack(), or give it the axis None",
                source=user_source(),
            )


def _stack(name: str, leaf: Any, axis: int) -> Tensor:
    """Return a leaf with the axis in front."""
    if not isinstance(leaf, Tensor):
        raise DTypeError(
            _SUBJECT,
            f"{name} is {leaf!r}, which has no axis to map",
            hint="give it the axis None in in_axes, or bind it with functools.partial",
            source=user_source(),
        )
    if not leaf.ndim:
        raise ShapeError(
            _SUBJECT,
            f"{name} is {leaf.type}, which has no axis to map",
            hint="give it the axis None in in_axes",
            source=user_source(),
        )
    return moveaxis(leaf, normalize_axis(_SUBJECT, axis, leaf.ndim, f"{name}: axis"), 0)


def _common_size(
    names: Sequence[str], axes: Sequence[int | None], stacks: Sequence[Tensor | None]
) -> Dim:
    """Return the size that all mapped axes have."""
    sizes = [
        (stack.shape[0], f"{name} along axis {axis}")
        for name, axis, stack in zip(names, axes, stacks, strict=True)
        if stack is not None
    ]
    if not sizes:
        raise GraphError(_SUBJECT, "there is nothing to map", source=user_source())
    known = [(size, place) for size, place in sizes if isinstance(size, int)]
    if not known:
        return sizes[0][0]
    size, first = known[0]
    for other, place in known:
        if other != size:
            raise ShapeError(
                _SUBJECT,
                f"sizes differ: {size} in {first}, {other} in {place}",
                source=user_source(),
            )
    return size
