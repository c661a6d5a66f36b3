"""Loss reduction: what a loss function returns of the losses of all examples."""

from __future__ import annotations

from typing import Literal

from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import divide
from symgrad.graph.ops.comparison import equal, where
from symgrad.graph.ops.reduction import mean
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.structure import accumulator_dtype

Reduction = Literal["mean", "sum", "none"]


def reduced(op: str, losses: Tensor, reduction: Reduction, weights: Tensor | None = None) -> Tensor:
    """Return the mean of `losses`, their sum, or, for "none", `losses`.

    `weights` are those that `losses` have been multiplied by: the mean divides by their sum, and
    is 0 if that is 0. Raises `GraphError` for any other `reduction`, and `DTypeError` for complex
    losses: what is minimized is real.
    """
    if losses.dtype.is_complex:
        raise DTypeError(
            op,
            f"losses {losses.type} are complex, real numbers are needed",
            hint="take sg.real, sg.imag or sg.abs of the operands",
            source=user_source(),
        )
    if reduction == "none":
        return losses
    if reduction not in ("mean", "sum"):
        raise GraphError(
            op, f"reduction {reduction!r} is none of mean, sum, none", source=user_source()
        )
    if reduction == "sum":
        return sum_over(losses)
    if weights is None:
        return mean(losses)
    # As `mean` does it, a 16-bit float is rounded once.
    wide = accumulator_dtype(losses.dtype)
    total, divisor = sum_over(cast(losses, wide)), sum_over(cast(weights, wide))
    return cast(divide(total, where(equal(divisor, 0), 1, divisor)), losses.dtype)
