"""Connectionist temporal classification: the forward algorithm as a scan over time.

A path names a class or the blank in each step of time; without repeats, and then without blanks, it
is a text. The forward algorithm adds up, in logarithms, the probabilities of all paths of a text.
The gradient is that of the scan.
"""

from __future__ import annotations

import math
from typing import Any

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.frontend.iteration import scan
from symgrad.graph import dtypes
from symgrad.graph.given_arrays import require_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.arithmetic import add, divide, multiply, negative, subtract
from symgrad.graph.ops.comparison import equal, less, not_equal, where
from symgrad.graph.ops.elementwise import filled, float_operand
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.indexing import as_int64, take_along_axis
from symgrad.graph.ops.picking import checked_index, pick
from symgrad.graph.ops.powers import logaddexp
from symgrad.graph.ops.slicing import concat, stack
from symgrad.graph.ops.structure import expand_dims, reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim
from symgrad.nn.operand_shapes import shaped
from symgrad.nn.reductions import Reduction, reduced


@public()
def ctc(
    log_probs: Any,
    labels: Any,
    input_lengths: Any,
    label_lengths: Any,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the CTC loss: minus the log-likelihood of texts, aligned with time in any way.

    - `log_probs` (time, batch, classes) are logarithms of probabilities, as of `sg.nn.log_softmax`.
    - `labels` (batch, length) are the texts, as classes other than `blank`; what is beyond the
      length of a text is not read.
    - `input_lengths` and `label_lengths` (batch) are integers. Steps of time beyond do not count.

    The loss has the dtype of `log_probs` and one element for each text; the mean divides each by
    the length of its text first, by 1 for an empty one. A text that no path of its time has, since
    it is too long, has the loss inf, or 0 with `zero_infinity`, and a gradient of 0 in both cases.

    >>> log_p = sg.nn.log_softmax(sg.zeros((2, 1, 3)))
    >>> sg.run(sg.nn.ctc(log_p, [[1]], [2], [1]))  # three of nine paths: -1, 1-, 11
    array(1.0986123, dtype=float32)

    The gradient to `log_probs` is minus the probability, given the text, that its path is there;
    through `log_softmax` that is what PyTorch's is. Raises `ShapeError` for operands of another
    rank, `DTypeError` for labels or lengths that are no integers, `GraphError` for a blank that is
    no class, and `IndexOutOfRangeError` for such a label, and for a length that is negative or
    more than there is, when the program runs.

    A. Graves and others, "Connectionist temporal classification: labelling unsegmented sequence
    data with recurrent neural networks", 2006.
    """
    scores = float_operand(log_probs)
    _require_rank("log_probs", scores, 3)
    time, batch, classes = scores.shape
    _require_blank(blank, classes)
    texts = _integers("labels", labels, 2, batch)
    steps = _integers("input_lengths", input_lengths, 1, batch)
    lengths = _integers("label_lengths", label_lengths, 1, batch)
    steps, lengths = checked_index(steps, time + 1), checked_index(lengths, texts.shape[1] + 1)
    states = _states(texts, lengths, blank, classes)
    likelihood = _log_likelihood(scores, states, steps, lengths)
    is_impossible = equal(likelihood, -math.inf)
    losses = where(is_impossible, 0 if zero_infinity else math.inf, negative(likelihood))
    if reduction == "mean":
        losses = divide(losses, maximum(lengths, 1).astype(losses.dtype))
    return reduced("ctc", losses, reduction)


def _require_rank(name: str, given: Tensor, ndim: int) -> None:
    if given.ndim != ndim:
        axes = {3: "time, batch and classes", 2: "batch and length", 1: "the batch"}[ndim]
        problem = f"{name}: {given.type} do not have the axes of {axes}"
        raise ShapeError("ctc", problem, source=user_source())


def _require_blank(blank: int, classes: Dim) -> None:
    if require_int("ctc", "blank", blank) < 0 or (isinstance(classes, int) and blank >= classes):
        problem = f"blank {blank} is none of {classes} classes"
        raise GraphError("ctc", problem, source=user_source())


def _integers(name: str, given: Any, ndim: int, batch: Dim) -> Tensor:
    tensor = as_tensor(given)
    if not tensor.dtype.is_integer:
        raise DTypeError("ctc", f"{name}: {tensor.type} are no integers", source=user_source())
    _require_rank(name, tensor, ndim)
    shape = (batch, *tensor.shape[1:])
    return shaped("ctc", name, as_int64(tensor), "the batch of log_probs", shape)


def _states(texts: Tensor, lengths: Tensor, blank: int, classes: Dim) -> Tensor:
    """Return the classes of the states, (batch, 2 * length + 1): a blank around each label."""
    batch, length = texts.shape
    is_read = less(iota(texts.shape, 1), expand_dims(lengths, axis=1))
    labels = checked_index(where(is_read, texts, blank), classes)
    blanks = filled(texts.shape, blank, dtypes.int64)
    pairs = reshape(stack([blanks, labels], axis=2), (batch, 2 * length))
    return concat([pairs, filled((batch, 1), blank, dtypes.int64)], axis=1)


def _log_likelihood(scores: Tensor, states: Tensor, steps: Tensor, lengths: Tensor) -> Tensor:
    """Return the logarithm of the probability of each text.

    alpha[s] is that of all beginnings of paths that are in state s by now. A path stays, goes on to
    the next state, or over a blank between two labels that differ. It begins in the first state,
    before time does; the states that can follow are the two in which it may be at first.
    """
    batch, count = states.shape
    never = filled((batch, 2), -math.inf, scores.dtype)
    is_start = equal(iota((batch, count), 1), 0)
    start = where(is_start, filled((batch, count), 0, scores.dtype), -math.inf)
    before = concat([filled((batch, 2), -1, dtypes.int64), states], axis=1)
    can_skip = not_equal(states, narrow(before, 1, 0, count))
    emitted = take_along_axis(scores, expand_dims(states, axis=0), axis=2)

    def step(alpha: Tensor, given: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[()]]:
        now, emission = given
        earlier = concat([never, alpha], axis=1)
        skipped = where(can_skip, narrow(earlier, 1, 0, count), -math.inf)
        reached = logaddexp(logaddexp(alpha, narrow(earlier, 1, 1, count)), skipped)
        is_on = expand_dims(less(now, steps), axis=1)
        return where(is_on, add(reached, emission), alpha), ()

    times = iota((scores.shape[0],), 0)
    alpha, _ = scan(step, start, (times, emitted))
    # A path ends in the last label or in the blank behind it; one of no label in the blank.
    last = multiply(lengths, 2)
    in_label = where(equal(lengths, 0), -math.inf, pick(alpha, maximum(subtract(last, 1), 0)))
    return logaddexp(pick(alpha, last), in_label)
