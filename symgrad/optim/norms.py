"""Trust ratio and Euclidean norms: what LARS, LAMB and clipping scale by."""

from __future__ import annotations

from symgrad.errors import GraphError, user_source
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import square
from symgrad.graph.ops.comparison import greater, logical_and, where
from symgrad.graph.ops.reduction import sum as sum_of
from symgrad.graph.ops.roots import root_of_squares


def sum_of_squares(x: Tensor) -> Tensor:
    """Return the sum of the squares of all elements, a scalar."""
    return sum_of(square(x))


def norm(x: Tensor) -> Tensor:
    """Return the root of the sum of the squares of all elements, a scalar."""
    return root_of_squares(sum_of_squares(x))


def norm_over(owner: Variable, x: Tensor) -> Tensor:
    """Return the norm of `x`, which lies as `owner` does: of all parts where that is one."""
    sharding = owner.state.sharding
    if sharding is None or sharding.axis is not None:
        return norm(x)
    if sharding.is_reproducible:
        problem = f"the norm of {owner.state.name} is one of parts, whose bits depend on the ranks"
        hint = "reproducible=True goes with norms without shard_state"
        raise GraphError("minimize", problem, hint=hint, source=user_source())
    # Only those who have ranks need it.
    from symgrad.distributed.collectives import all_reduce
    from symgrad.distributed.communicator import Communicator

    assert isinstance(sharding.group, Communicator), "parts lie on the ranks of a communicator"
    return root_of_squares(all_reduce(sum_of_squares(x), sharding.group))


def trust_ratio(w_norm: Tensor, step_norm: Tensor, coefficient: float = 1) -> Tensor:
    """Return `coefficient * w_norm / step_norm`; 1 where either norm is 0.

    A ratio of 0 would keep weights that start as 0 there for ever.
    """
    is_defined = logical_and(greater(w_norm, 0), greater(step_norm, 0))
    return where(is_defined, coefficient * w_norm / step_norm, 1)
