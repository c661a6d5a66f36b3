"""Compressed Jacobians and Hessians: as many seeds as a sparse pattern has colours.

Before, with %y of 5 elements, each of which depends on 2 of the 6 elements of %x that follow one
another:
    the pattern of 5 rows and 6 columns has 10 non-zeros, and columns 0, 2, 4 have no row in common

After: the tangent of %y for the seeds [1, 0, 1, 0, 1, 0] and [0, 1, 0, 1, 0, 1], from which the 10
values are read. The time does not depend on the number of elements that are zero.

The pattern is that of the tangent, which is linear in its seed: what stops a gradient, or gives it
in another way, shows there (`symgrad/passes/sparsity/dependence.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from symgrad.errors import ShapeError, user_source
from symgrad.frontend.sparse_tensor import SparseTensor, SparsityPattern
from symgrad.graph import dtypes
from symgrad.graph.build import outer_tensors
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.comparison import equal
from symgrad.graph.ops.conversion import astype, identity
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.gathering import gather, iota
from symgrad.graph.ops.stand_in import custom_gradient_op
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reshape
from symgrad.graph.traverse import topological
from symgrad.passes.batching.vmap import batch
from symgrad.passes.gradients.forward_mode import jvp
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.passes.gradients.selected_jacobian import jacobian_of_selections
from symgrad.passes.sparsity.colouring import (
    Adjacency,
    Colours,
    colour_columns,
    colour_symmetric,
)
from symgrad.passes.sparsity.dependence import dependences
from symgrad.records import dataclass

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Linear:
    """A tensor that is linear in a seed: a tangent, or a gradient."""

    seed: Tensor
    result: Tensor

    def for_colours(self, colours: Colours, count: int) -> Tensor:
        """Return the results for a seed of each colour, as rows: 1 at what has the colour."""
        chosen = reshape(constant(colours, dtypes.int64), (1, *self.seed.shape))
        shape = (count, *self.seed.shape)
        seeds = equal(broadcast_to(chosen, shape), iota(shape, 0))
        (found,) = batch([self.result], {self.seed: astype(seeds, self.seed.dtype)}, count)
        return reshape(found, (count, self.result.type.size))


def sparse_jacobian(op: str, y: Tensor, x: Tensor) -> SparseTensor:
    """Return the Jacobian of `y` by `x`, by columns or by rows, whatever takes fewer seeds."""
    _require_known_sizes(op, y, x)
    selected = jacobian_of_selections(op, y, x)
    if selected is not None:
        return selected
    tangent = _tangent(y, x)
    rows = _pattern(op, tangent)
    pattern = SparsityPattern.of((y.type.count, x.type.count), rows.ends, rows.others)
    if not len(rows.others):
        return SparseTensor(pattern, filled((0,), 0, x.dtype))
    colours, by_rows = _colours_of_either(rows)
    own = np.repeat(np.arange(rows.count), rows.degrees)
    if by_rows:
        seed = identity(filled_like(y, 0))
        (g,) = gradients(y, x, grad_ys=seed)
        assert g is not None, "what a tangent reaches has a gradient"
        linear, places, along = _Linear(seed, g), rows.others, colours[own]
    else:
        linear, places, along = tangent, own, colours[rows.others]
    return SparseTensor(pattern, _read(linear, colours, along, places))


def sparse_hessian(op: str, y: Tensor, x: Tensor) -> SparseTensor:
    """Return the Hessian of the one element of `y`, all of it, by a star colouring."""
    _require_known_sizes(op, y, x)
    size = x.type.count
    (g,) = gradients(y, x)
    if g is None:
        nothing = np.zeros(size + 1, np.int64)
        pattern = SparsityPattern.of((size, size), nothing, np.zeros(0, np.int64))
        return SparseTensor(pattern, filled((0,), 0, x.dtype))
    if _has_gradient_of_users(y):
        return sparse_jacobian(op, g, x)
    tangent = _tangent(g, x)
    rows = _symmetrised(_pattern(op, tangent))
    pattern = SparsityPattern.of((size, size), rows.ends, rows.others)
    if not len(rows.others):
        return SparseTensor(pattern, filled((0,), 0, x.dtype))
    colours = colour_symmetric(rows)
    own = np.repeat(np.arange(size), rows.degrees)
    along, places = _recovered(own, rows.others, colours)
    return SparseTensor(pattern, _read(tangent, colours, along, places))


def _require_known_sizes(op: str, y: Tensor, x: Tensor) -> None:
    for label, tensor in (("y", y), ("x", x)):
        if not tensor.type.is_static:
            raise ShapeError(
                op,
                f"{label}: {tensor.type} has a size that is not known, and so no static pattern",
                hint="give the placeholder ints as its shape, or leave sparsity out",
                source=user_source(),
            )


def _tangent(y: Tensor, x: Tensor) -> _Linear:
    seed = identity(filled_like(x, 0))
    (result,) = jvp(y, x, seed)
    return _Linear(seed, result)


def _pattern(op: str, tangent: _Linear) -> Adjacency:
    """Return the columns of each row of the matrix that takes the seed to the result."""
    sets, (numbers,) = dependences(op, [tangent.result], tangent.seed)
    flat = numbers.reshape(-1)
    ends = np.concatenate([[0], np.cumsum(sets.sizes_of(flat))])
    return Adjacency(ends, sets.indices_of(flat), sets.size)


def _colours_of_either(rows: Adjacency) -> tuple[Colours, bool]:
    """Return the colours of columns, or of rows where that is fewer, and which it was.

    All elements of a row differ in colour, so the longest row is a bound, as the longest column is.
    """
    columns = rows.turned()
    longest_row, longest_column = rows.degrees.max(), columns.degrees.max()
    if longest_row > longest_column:
        found = colour_columns(columns)
        if found.max() < longest_row:
            return found, True
        other = colour_columns(rows)
        return (other, False) if other.max() <= found.max() else (found, True)
    found = colour_columns(rows)
    if found.max() < longest_column:
        return found, False
    other = colour_columns(columns)
    return (other, True) if other.max() < found.max() else (found, False)


def _read(linear: _Linear, colours: Colours, along: Places, places: Places) -> Tensor:
    """Return the elements of the compressed matrix in rows `along`, columns `places`."""
    count = int(colours.max()) + 1
    compressed = linear.for_colours(colours, count)
    size = linear.result.type.count
    if len(along) == size * count:
        by_row = places.reshape(-1, count)
        each = np.arange(count)
        if (by_row == np.arange(size)[:, None]).all() and (along.reshape(-1, count) == each).all():
            # Blocks along a diagonal: each column has all colours, in their order.
            return reshape(permute_dims(compressed, (1, 0)), (len(along),))
    flat = reshape(compressed, (count * size,))
    return gather(flat, [constant(along * size + places, dtypes.int64)], 0)


# -------------------------------------------------------------------------------------- symmetry


def _symmetrised(rows: Adjacency) -> Adjacency:
    """Return the pattern and its transpose in one."""
    own = np.repeat(np.arange(rows.count), rows.degrees)
    keys = np.concatenate([own * rows.bound + rows.others, rows.others * rows.bound + own])
    own, others = np.divmod(np.unique(keys), rows.bound)
    ends = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=rows.count))])
    return Adjacency(ends, others, rows.bound)


def _recovered(own: Places, others: Places, colours: Colours) -> tuple[Places, Places]:
    """Return for each element the colour and the row at which it stands alone in the product.

    That is its own row and the colour of its column, or else those of the element across.
    """
    count = int(colours.max()) + 1
    _, which, sizes = np.unique(
        own * count + colours[others], return_inverse=True, return_counts=True
    )
    is_alone = sizes[which] == 1
    keys = others * len(colours) + own
    across = np.searchsorted(own * len(colours) + others, keys)
    assert (is_alone | is_alone[across]).all(), "no star colouring: an element stands nowhere alone"
    along = np.where(is_alone, colours[others], colours[own])
    return along, np.where(is_alone, own, others)


def _has_gradient_of_users(y: Tensor) -> bool:
    """Return whether a gradient on the way to `y` is a user's, who is free to give anything."""
    pending = topological([y], outer=outer_tensors())
    met: set[Graph] = set()
    while pending:
        node = pending.pop()
        if node.definition is custom_gradient_op or node.gradient_key is not None:
            return True
        new = {graph for _, graph in graphs_of(node)} - met
        met |= new
        pending += (inner for graph in new for inner in graph.nodes)
    return False
