"""Random number streams of ranks: draws that differ from rank to rank, of a state that does not."""

from __future__ import annotations

from typing import Any

from symgrad.distributed.collectives import require_communicator
from symgrad.distributed.communicator import Communicator
from symgrad.distributed.pending import rank_of
from symgrad.errors import DTypeError, user_source
from symgrad.random.generator import Generator


def per_rank(rng: Any, comm: Communicator) -> Generator:
    """Return a generator whose draws differ from rank to rank, and whose state is that of `rng`.

    All ranks draw with `rng.fold(rank)`, where the rank is asked for when the program runs: so
    programs and states are the same on all, and any number of ranks can restore what one has saved.
    Draws of `rng` itself, as those that weights start with, stay the same on all ranks.
    Raises `DTypeError` for what is no generator or no communicator.

    >>> comm = sg.distributed.world()
    >>> rng = sg.random.Generator(seed=0)
    >>> kept = sg.nn.dropout(sg.ones((4,)), 0.5, sg.distributed.per_rank(rng, comm))
    >>> sg.compile([], kept, [rng.advance()])().shape
    (4,)
    """
    require_communicator("per_rank", comm)
    if not isinstance(rng, Generator):
        problem = f"rng is {rng!r}, no sg.random.Generator"
        raise DTypeError("per_rank", problem, source=user_source())
    return rng.fold(rank_of(comm))
