"""Unpooling: what pooling has taken, put back where it was."""

from __future__ import annotations

from typing import Any

from symgrad.errors import DTypeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.gathering import iota, set_rows
from symgrad.graph.ops.indexing import index_tensor
from symgrad.graph.ops.structure import reshape
from symgrad.graph.public_ops import public
from symgrad.nn.layouts import Layout, channel_axis
from symgrad.nn.operand_shapes import shaped
from symgrad.nn.spatial import axes_of_space, sizes_of_space


@public()
def max_unpool(x: Any, indices: Any, size: Any, *, layout: Layout = "NHWC") -> Tensor:
    """Put maxima back where `max_pool_with_indices` has found them; everywhere else is 0.

    `x` and `indices` have shape (n, *out, c), with `layout="NCHW"` (n, c, *out), for 1 to 3 axes of
    space, and the result has `size` in the place of these, an int or one for each. An index is a
    row-major position in the axes of space of the result, in its own image and channel; a negative
    one counts from the end. Where windows share a maximum the last of its values stays. The dtype
    is that of `x`. The gradient is a gather: an element has that of its place, and 0 if another
    one was written over it.

        >>> x = sg.constant([[[1.0], [3.0], [5.0], [2.0]]])
        >>> y, indices = sg.nn.max_pool_with_indices(x, 2)
        >>> sg.run(sg.nn.max_unpool(y, indices, 4))[0, :, 0]
        array([0., 3., 5., 0.], dtype=float32)

    Raises `ShapeError` for indices that have not the shape of `x` and a size that does not fit,
    `DTypeError` for indices that are no integers, and `IndexOutOfRangeError` for one outside of the
    result, now if it is known and else when the program runs.

    M. Zeiler, R. Fergus, "Visualizing and understanding convolutional networks", 2014.
    """
    x, given = as_tensor(x), as_tensor(indices)
    axes = axes_of_space("max_unpool", x, layout)
    sizes = sizes_of_space("max_unpool", size, len(axes))
    if not given.dtype.is_integer:
        problem = f"indices: {given.type} are of no integer dtype"
        raise DTypeError("max_unpool", problem, source=user_source())
    channels, volume = channel_axis("max_unpool", x, layout), x.type.with_shape(sizes).size
    place = index_tensor("max_unpool", indices, volume, axes[0])
    place = shaped("max_unpool", "indices", place, "x", x.shape)
    # All axes are one: of places that meet the gradient then asks once which is the last.
    places = {axis: reshape(iota(x.shape, axis), (-1,)) for axis in (0, channels)}
    places[axes[0]] = reshape(place, (-1,))
    order = sorted(places)
    base = filled(tuple(volume if a == axes[0] else x.shape[a] for a in order), 0, x.dtype)
    written = set_rows(base, reshape(x, (-1,)), [places[a] for a in order], 0)
    longer = dict(zip(axes, sizes, strict=True))
    return reshape(written, tuple(longer.get(a, n) for a, n in enumerate(x.shape)))
