"""Cross-entropy and the other losses of examples of which each belongs to a class.

A label is the number of a class. One that names no class stops the program, and so does one below
0: it is never counted from the end.
"""

from __future__ import annotations

from typing import Any

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.graph.given_arrays import require_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, normalize_axis, promote_operands
from symgrad.graph.ops.arithmetic import add, divide, isinf, multiply, negative, subtract
from symgrad.graph.ops.comparison import (
    equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    not_equal,
    where,
)
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.elementwise import (
    broadcast_target,
    broadcast_together,
    common_shape,
    filled_like,
    float_operand,
)
from symgrad.graph.ops.gathering import gather, iota
from symgrad.graph.ops.greatest_numbers import greatest_number
from symgrad.graph.ops.indexing import as_int64, take_along_axis
from symgrad.graph.ops.picking import checked_index, pick
from symgrad.graph.ops.reduction import any as any_of
from symgrad.graph.ops.reduction import mean
from symgrad.graph.ops.reduction import min as min_over
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.structure import (
    accumulator_dtype,
    broadcast_to,
    expand_dims,
    reshape,
    squeeze,
)
from symgrad.graph.ops.transcendental import exp, log, pow
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.public_ops import public
from symgrad.nn.operand_shapes import shaped
from symgrad.nn.reductions import Reduction, reduced


@public(
    known_as=[
        "softmax_cross_entropy",
        "sparse_categorical_crossentropy",
        "CrossEntropyLoss",
        "categorical_crossentropy",
        "sparse_softmax_cross_entropy_with_logits",
        "softmax_cross_entropy_with_logits",
    ]
)
def cross_entropy(
    logits: Any,
    labels: Any,
    axis: int = -1,
    *,
    weights: Any = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute `-log(softmax(logits))` at the true class, for each example along the other axes.

    Integer `labels` name the class and have no axis for it; float ones are its probabilities, which
    broadcast to `logits`, and where one is 0 the class may have a logit of -inf.

    - `weights`, a vector, has the weight of each class. With classes as labels the mean divides by
      the sum of the weights of the labels, with probabilities by the number of examples.
    - `label_smoothing` mixes that much of the even distribution over the classes into the labels.
    - Examples whose label is `ignore_index` do not count: their loss is 0, so is their gradient,
      also where their logits are infinite or nan, and the mean is over the others.

    If no example counts, or those that do weigh 0, the mean is 0, and so is its gradient: a batch
    of padding alone trains nothing. (PyTorch's mean is nan there.) All else is as in PyTorch.

    >>> sg.run(sg.nn.cross_entropy(sg.constant([[0.0, 0.0], [9.0, 9.0]]), [1, -1], ignore_index=-1))
    array(0.6931472, dtype=float32)

    Finite for logits of any finite size. The gradient is the softmax less the labels. Of the dtype
    of `logits`, or what that and probabilities promote to; integers become float32. Raises
    `ShapeError` if integer labels do not have one axis less than the logits, or probabilities more
    axes, or the weights are no vector of one a class, `DTypeError` for labels of another kind and
    for `ignore_index` beside probabilities, `GraphError` for a smoothing outside [0, 1], and
    `IndexOutOfRangeError` for a label of no class when the program runs.
    """
    op = "cross_entropy"
    logits, labels = float_operand(logits), as_tensor(labels)
    axis = normalize_axis(op, axis, logits.ndim)
    of_class = class_weights(op, weights, logits, axis)
    _require_a_share(op, label_smoothing)
    if labels.dtype.is_float:
        if ignore_index is not None:
            problem = f"labels: {labels.type} are probabilities, of which ignore_index tells none"
            raise DTypeError(op, problem, source=user_source())
        logits, labels = promote_operands(op, logits, labels)
        _require_no_more_axes(op, labels, logits)
        logits, labels = broadcast_together(op, logits=logits, labels=labels)
        shares = _smoothed(labels, label_smoothing, logits, axis)
        if of_class is not None:
            shares = multiply(shares, along_classes(of_class, axis, logits.ndim))
        _, shifted, total = _shifted(logits, axis)
        whole, own = sum_over(shares, axis), sum_over(_share(shares, shifted), axis)
        losses = subtract(multiply(whole, total), own)
        return reduced(op, losses, reduction)
    if not labels.dtype.is_integer:
        problem = f"labels: {labels.type} are neither classes nor probabilities"
        raise DTypeError(op, problem, source=user_source())
    rows, labels, is_counted = _rows_and_labels(op, logits, labels, axis, ignore_index, "logits")
    losses, of_label = _cross_entropies(rows, labels, is_counted, of_class, label_smoothing)
    return _counted(op, losses, reduction, of_label, is_counted)


def _require_a_share(op: str, label_smoothing: float) -> None:
    """Raise `GraphError` for a smoothing that is no share."""
    if not 0 <= label_smoothing <= 1:
        problem = f"label_smoothing {label_smoothing} is not in [0, 1]"
        raise GraphError(op, problem, source=user_source())


def _require_no_more_axes(op: str, labels: Tensor, logits: Tensor) -> None:
    """Raise `ShapeError` for probabilities to which the logits would be repeated."""
    if labels.ndim > logits.ndim:
        problem = f"labels: {labels.type} have more axes than logits: {logits.type}"
        hint = "logits come first, and class numbers are integers"
        raise ShapeError(op, problem, hint=hint, source=user_source())


# Note [Passes of cross-entropy]
# The loss of a row is log(sum(exp(x - m))) - (x - m)[label], with m the greatest of x. It is not
# written as -log_softmax(x)[label]: a gather wants what it reads in memory, so that would store the
# logarithms of all classes to read one. Both terms see x - m, so that a small loss of large logits
# is not lost; and what is summed over the classes is multiplied by the logarithm afterwards, so
# that the gradient is the softmax times a number of each row, less the labels: one pass.


def _cross_entropies(
    rows: Tensor,
    labels: Tensor,
    is_counted: Tensor | None,
    of_class: Tensor | None,
    smoothing: float,
) -> tuple[Tensor, Tensor | None]:
    """Return the loss of each row, and the weight that is in it if there are weights."""
    score = _pick("cross_entropy", rows, labels)
    if is_counted is not None:
        rows = where(expand_dims(is_counted, axis=-1), rows, 0)
        score = where(is_counted, score, 0)
    greatest, shifted, total = _shifted(rows, -1)
    losses = subtract(total, subtract(score, greatest))
    of_label = _of_labels(of_class, labels, losses)
    if of_label is not None:
        losses = multiply(losses, of_label)
    if smoothing:
        if of_class is None:
            even = subtract(total, mean(shifted, -1))
        else:
            even = subtract(multiply(total, mean(of_class)), mean(_share(of_class, shifted), -1))
        losses = add(multiply(losses, 1 - smoothing), multiply(even, smoothing))
    return losses, of_label


def _shifted(logits: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the greatest logits, how far all are below them, and log(sum(exp)) of that."""
    greatest = greatest_number(logits, (axis % logits.ndim,))
    shifted = subtract(logits, greatest)
    return squeeze(greatest, axis), shifted, log(sum_over(exp(shifted), axis))


@public(known_as=["nll_loss"])
def nll(
    log_p: Any,
    labels: Any,
    axis: int = -1,
    *,
    weights: Any = None,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the negative log-likelihood of the true class: `-log_p` at the integer `labels`.

    The classes are along `axis`, which `labels` do not have. `weights`, `ignore_index` and the mean
    are those of `cross_entropy`, to which this is equal if `log_p` is `sg.nn.log_softmax(logits)`.

    >>> sg.run(sg.nn.nll(sg.log(sg.constant([[0.25, 0.75]])), [1]))
    array(0.2876821, dtype=float32)

    The gradient is -1 at the label and 0 elsewhere. Raises what `cross_entropy` does; probabilities
    as labels are a `DTypeError`.
    """
    scores, labels = float_operand(log_p), as_tensor(labels)
    axis = normalize_axis("nll", axis, scores.ndim)
    of_class = class_weights("nll", weights, scores, axis)
    rows, labels, is_counted = _rows_and_labels("nll", scores, labels, axis, ignore_index, "log_p")
    losses = negative(_pick("nll", rows, labels))
    of_label = _of_labels(of_class, labels, losses)
    if of_label is not None:
        losses = multiply(losses, of_label)
    return _counted("nll", losses, reduction, of_label, is_counted)


@public()
def multi_margin(
    x: Any,
    labels: Any,
    axis: int = -1,
    *,
    p: int = 1,
    margin: float = 1.0,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the multi-class hinge loss of scores `x` along `axis`, and of integer `labels`.

    It is the mean over all classes but with 0 for the true one, y, of
    `max(0, margin - x[y] + x[j]) ** p`. A class's entry of the vector `weights` multiplies the loss
    of its examples; the mean divides by their number, as in PyTorch.

    >>> sg.run(sg.nn.multi_margin(sg.constant([[0.1, 0.2, 0.4]]), [2]))
    array(0.5, dtype=float32)

    Raises what `nll` does, and `GraphError` for a power that is neither 1 nor 2.
    """
    op = "multi_margin"
    if require_int(op, "p", p) not in (1, 2):
        raise GraphError(op, f"p {p} is neither 1 nor 2", source=user_source())
    scores, labels = float_operand(x), as_tensor(labels)
    axis = normalize_axis(op, axis, scores.ndim)
    of_class = class_weights(op, weights, scores, axis)
    rows, labels, _ = _rows_and_labels(op, scores, labels, axis, None, "x")
    own = expand_dims(_pick(op, rows, labels), axis=-1)
    missing = add(subtract(rows, own), margin)
    is_own = equal(iota(rows.shape, rows.ndim - 1), expand_dims(labels, axis=-1))
    is_met = where(is_own, is_own, less(missing, 0))
    losses = mean(pow(where(is_met, 0, missing), p), -1)
    of_label = _of_labels(of_class, labels, losses)
    return reduced(op, losses if of_label is None else multiply(losses, of_label), reduction)


@public()
def multilabel_margin(
    x: Any, targets: Any, axis: int = -1, *, reduction: Reduction = "mean"
) -> Tensor:
    """Multi-label margin loss: hinges between classes that an example has and those it has not.

    It is the sum of `max(0, 1 - x[y] + x[j])` over all classes y that are listed and all j that are
    not, divided by the number of classes. The integer `targets` list the classes of an example
    along `axis`, from the front; the first -1 ends the list, and what is behind it does not count.
    The other axes are those of `x`. A list may be shorter than there are classes; a class listed
    twice counts twice as y. An example of no class, or of all, has loss 0.

    >>> sg.run(sg.nn.multilabel_margin(sg.constant([[0.1, 0.2, 0.4, 0.8]]), [[3, 0, -1, 1]]))
    array(0.85, dtype=float32)

    Of the dtype of `x`, integers become float32, and a 16-bit float is rounded once. The gradient
    of a hinge is 1 where it is positive; where it is just 0 it is 0, as in PyTorch, whose formula
    this is. A nan among the scores that are compared is the loss. The gradient has an
    array of each target beside each class in memory: short lists take less.

    Raises `DTypeError` for targets that are no integers, `ShapeError` if they do not have the axes
    of `x` or no room for a class, and `IndexOutOfRangeError` when the program runs for a target
    that is neither a class nor -1, behind the end of a list too.
    """
    op = "multilabel_margin"
    scores, classes = float_operand(x), as_tensor(targets)
    axis = normalize_axis(op, axis, scores.ndim)
    rows = cast(moveaxis(scores, axis, -1), accumulator_dtype(scores.dtype))
    labels, is_listed = _listed(op, classes, scores, axis)
    own = expand_dims(take_along_axis(rows, labels, axis=-1), axis=-1)
    pairs = (*labels.shape, rows.shape[-1])
    is_same = equal(expand_dims(labels, axis=-1), iota(pairs, len(pairs) - 1))
    is_listed = expand_dims(is_listed, axis=-1)
    is_target = any_of(logical_and(is_listed, is_same), -2, keepdims=True)
    missing = add(subtract(expand_dims(rows, axis=-2), own), 1)
    is_compared = logical_and(is_listed, logical_not(is_target))
    is_counted = logical_and(is_compared, logical_not(less_equal(missing, 0)))
    total = sum_over(where(is_counted, missing, 0), (-2, -1))
    losses = divide(total, size_of(rows.shape[-1], rows.dtype))
    return cast(reduced(op, losses, reduction), scores.dtype)


def _listed(op: str, targets: Tensor, scores: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return lists of classes along the last axis, and which of these are before the first -1."""
    if not targets.dtype.is_integer:
        raise DTypeError(op, f"targets: {targets.type} are no classes", source=user_source())
    if targets.ndim != scores.ndim:
        problem = f"targets: {targets.type} have not the axes of x: {scores.type}"
        raise ShapeError(op, problem, source=user_source())
    count = targets.shape[axis]
    if count == 0:
        problem = f"targets: {targets.type} have no room for a class in axis {axis}"
        raise ShapeError(op, problem, source=user_source())
    shape = (*scores.shape[:axis], count, *scores.shape[axis + 1 :])
    lists = moveaxis(shaped(op, "targets", as_int64(targets), "lists of x", shape), axis, -1)
    is_end = equal(lists, -1)
    place = iota(lists.shape, lists.ndim - 1)
    end = min_over(where(is_end, place, count), -1, keepdims=True)
    return checked_index(where(is_end, 0, lists), scores.shape[axis]), less(place, end)


def class_weights(op: str, weights: Any, scores: Tensor, axis: int) -> Tensor | None:
    """Return the weights of the classes as a vector in the dtype of `scores`."""
    if weights is None:
        return None
    vector = as_tensor(weights)
    count = scores.shape[axis]
    is_known = vector.ndim == 1 and isinstance(vector.shape[0], int) and isinstance(count, int)
    if vector.ndim != 1 or (is_known and vector.shape[0] != count):
        problem = f"weights: {vector.type} are not one for each of {count} classes"
        raise ShapeError(op, problem, source=user_source())
    return cast(vector, scores.dtype)


def _rows_and_labels(
    op: str, scores: Tensor, labels: Tensor, axis: int, ignore_index: int | None, name: str
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return scores with classes last, labels as int64, and which labels count if not all do.

    What does not count has label 0.
    """
    if not labels.dtype.is_integer:
        raise DTypeError(op, f"labels: {labels.type} are no classes", source=user_source())
    if labels.ndim != scores.ndim - 1:
        problem = f"integer labels: {labels.type} need one axis fewer than {name}: {scores.type}"
        raise ShapeError(op, problem, source=user_source())
    rows, labels = moveaxis(scores, axis, -1), as_int64(labels)
    if ignore_index is None:
        return rows, labels, None
    is_counted = not_equal(labels, require_int(op, "ignore_index", ignore_index))
    return rows, where(is_counted, labels, 0), is_counted


def _pick(op: str, rows: Tensor, labels: Tensor) -> Tensor:
    """Return the element of each row at its label; the other axes broadcast."""
    heads = rows.type.with_shape(rows.shape[:-1])
    shape = common_shape(op, **{"scores without classes": heads, "labels": labels.type})
    rows = broadcast_to(rows, (*broadcast_target(heads, shape), rows.shape[-1]))
    return pick(rows, broadcast_to(labels, broadcast_target(labels.type, shape)))


def _of_labels(of_class: Tensor | None, labels: Tensor, losses: Tensor) -> Tensor | None:
    """Return the weight of each example, by its label."""
    if of_class is None:
        return None
    return broadcast_to(gather(of_class, [labels], 0), broadcast_target(labels.type, losses.shape))


def _counted(
    op: str,
    losses: Tensor,
    reduction: Reduction,
    of_label: Tensor | None,
    is_counted: Tensor | None,
) -> Tensor:
    """Reduce losses that were multiplied by `of_label`, but for those that do not count."""
    if is_counted is None:
        return reduced(op, losses, reduction, of_label)
    shares = filled_like(losses, 1) if of_label is None else of_label
    return reduced(op, where(is_counted, losses, 0), reduction, where(is_counted, shares, 0))


def _smoothed(labels: Tensor, amount: float, logits: Tensor, axis: int) -> Tensor:
    if not amount:
        return labels
    count = size_of(logits.shape[axis], labels.dtype)
    return add(multiply(labels, 1 - amount), divide(amount, count))


def _share(shares: Tensor, scores: Tensor) -> Tensor:
    """Return the product, which is 0 where a share is 0, also of an infinite score."""
    is_none = logical_and(equal(shares, 0), isinf(scores))
    return multiply(shares, where(is_none, 0, scores))


def along_classes(vector: Tensor, axis: int, ndim: int) -> Tensor:
    """Return `vector` along `axis` of `ndim`, the others of size 1."""
    place = normalize_axis("weights", axis, ndim)
    return reshape(vector, (*(1,) * place, vector.shape[0], *(1,) * (ndim - place - 1)))
