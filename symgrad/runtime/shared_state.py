"""Checkpoints of partitioned state: gathered on the rank that writes, the others wait for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from symgrad.errors import CheckpointError, user_source
from symgrad.graph.types import Array, State, TensorType


def whole_type(state: State) -> TensorType:
    """Return the type of the whole value that `state` is, or that it is a part of."""
    sharding = state.sharding
    return state.type if sharding is None else state.type.with_shape(sharding.shape)


def gathered(states: Mapping[str, State], values: dict[str, Array]) -> dict[str, Array]:
    """Return `values` with wholes, on rank 0, in the place of parts; all ranks call it."""
    return {
        name: value if (sharding := states[name].sharding) is None else sharding.whole_of(value)
        for name, value in values.items()
    }


@contextmanager
def written_by_one(states: Mapping[str, State]) -> Iterator[bool]:
    """Yield whether this process writes the file: each does unless one of `states` is a part.

    Then rank 0 does, and the others wait until it has; its error is a `CheckpointError` of theirs.
    """
    shared = [state.sharding for state in states.values() if state.sharding is not None]
    if not shared:
        yield True
        return
    group, problem = shared[0].group, "it was interrupted"
    try:
        yield group.rank == 0
        problem = ""
    except Exception as error:
        problem = str(error)
        raise
    finally:
        told = group.exchange(problem)[0]
    if told:
        problem = f"rank 0 could not write: {told}"
        raise CheckpointError("save", problem, source=user_source())
