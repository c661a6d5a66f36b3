"""Layers: functions of an input and of parameters that the caller holds."""

from __future__ import annotations

from typing import Any

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.gathering import gather
from symgrad.graph.ops.indexing import index_tensor
from symgrad.graph.ops.summation import einsum
from symgrad.graph.public_ops import public
from symgrad.nn.class_losses import cross_entropy
from symgrad.nn.reductions import Reduction


@public(known_as=["dense"])
def linear(x: Any, w: Any, b: Any = None) -> Tensor:
    """Compute `x @ w + b`, where the weights `w` have shape (features in, features out).

    >>> sg.run(sg.nn.linear([[1.0, 2.0]], [[1.0, 0.0, 3.0], [0.0, 1.0, 0.0]], 0.5))
    array([[1.5, 2.5, 3.5]], dtype=float32)
    """
    x, w = as_tensor(x), as_tensor(w)
    if w.ndim != 2:
        raise ShapeError("linear", f"w: {w.type} is no matrix", source=user_source())
    features = x.shape[-1:], w.shape[:1]
    if features[0] != features[1] and all(isinstance(n, int) for pair in features for n in pair):
        problem = f"x: {x.type} does not fit axis 0 of w: {w.type}"
        raise ShapeError("linear", problem, source=user_source())
    product = matmul(x, w)
    return product if b is None else add(product, b)


@public()
def bilinear(x: Any, y: Any, weight: Any, bias: Any = None) -> Tensor:
    """Compute `x @ weight[:, :, k] @ y + bias[k]` for each k, along the last axes of `x` and `y`.

    `weight` has shape (features of x, features of y, features out), and the other axes of `x` and
    `y` are equal. Raises `ShapeError` for sizes that do not fit.

    >>> sg.run(sg.nn.bilinear([[1.0, 2.0]], [[3.0]], [[[1.0]], [[10.0]]]))
    array([[63.]], dtype=float32)
    """
    weight = as_tensor(weight)
    if weight.ndim != 3:
        problem = f"weight: {weight.type} has not three axes"
        raise ShapeError("bilinear", problem, source=user_source())
    x, y = as_tensor(x), as_tensor(y)
    for name, operand, axis in (("x", x, 0), ("y", y, 1)):
        sizes = operand.shape[-1:], weight.shape[axis : axis + 1]
        if not operand.ndim or (sizes[0] != sizes[1] and all(isinstance(n, int) for (n,) in sizes)):
            problem = f"{name}: {operand.type} does not fit axis {axis} of weight: {weight.type}"
            raise ShapeError("bilinear", problem, source=user_source())
    product = einsum("...i,ijk,...j->...k", x, weight, y)
    return product if bias is None else add(product, bias)


@public()
def linear_cross_entropy(
    x: Any,
    weight: Any,
    labels: Any,
    bias: Any = None,
    *,
    weights: Any = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the cross-entropy of a last layer: `cross_entropy(linear(x, weight, bias), labels)`.

    `x` is (*examples, features) and `weight` (features, classes), as in `linear`; PyTorch's is its
    transpose. Labels and the other arguments, dtypes and errors are those of `cross_entropy`, with
    classes along the last axis. The gradient to `weight` is a product of `x` with the softmax less
    the labels.

    >>> x, weight = sg.constant([[1.0, 0.0]]), sg.zeros((2, 3))
    >>> sg.run(sg.nn.linear_cross_entropy(x, weight, [1]))
    array(1.0986123, dtype=float32)
    """
    return cross_entropy(
        linear(x, weight, bias),
        labels,
        weights=weights,
        label_smoothing=label_smoothing,
        ignore_index=ignore_index,
        reduction=reduction,
    )


@public(known_as=["embedding_lookup"])
def embedding(indices: Any, table: Any) -> Tensor:
    """Look up embeddings: the rows of `table` at `indices`, in the place of these as a last axis.

    `indices` are integers of any shape, `table` is (rows, features). A negative index counts from
    the end; the gradient to `table` is a scatter of rows, of which no dense array is made where an
    optimizer moves single rows. Raises `DTypeError` for indices that are no integers, `ShapeError`
    for a table that is no matrix, and `IndexOutOfRangeError` for an index outside of it, now if it
    is known and else when the program runs.

    >>> sg.run(sg.nn.embedding([2, 0], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    array([[5., 6.],
           [1., 2.]], dtype=float32)
    """
    table, given = as_tensor(table), as_tensor(indices)
    if table.ndim != 2:
        raise ShapeError("embedding", f"table: {table.type} is no matrix", source=user_source())
    if not given.dtype.is_integer and given.size != 0:
        problem = f"indices: {given.type} are of no integer dtype"
        raise DTypeError("embedding", problem, source=user_source())
    return gather(table, [index_tensor("embedding", indices, table.shape[0], 0)], 0)
