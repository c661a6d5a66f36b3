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


@contextmanager
def saved_by_one(states: Mapping[str, State], values: dict[str, Array]) -> Iterator[bool]:
    """Yield whether this process writes `values`; what is a part becomes a whole in them there.

    Without parts each process writes what it is asked to. An error of the rank that writes is a
    `CheckpointError` on the others.
    """
    shared = {n: s.sharding for n, s in states.items() if s.sharding is not None}
    if not shared:
        yield True
        return
    for name, sharding in shared.items():
        values[name] = sharding.whole_of(values[name])
    group = next(iter(shared.values())).group
    is_writer, problem = group.rank == 0, "it was interrupted"
    try:
        yield is_writer
        problem = ""
    except Exception as error:
        problem = str(error)
        raise
    finally:
        told = group.exchange(problem)[0]
    if told:
        problem = f"rank 0 could not write: {told}"
        raise CheckpointError("save", problem, source=user_source())
