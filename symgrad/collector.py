"""Garbage collection is paused while programs, gradients and updates are made, and at the import.

A graph is many objects that refer to each other and all live until the program is made: each time
the collector walks them it finds nothing to free, and it walks them again and again as they grow.
That is a quarter of the time to compile a large graph.

When it runs again it would begin with all that was made, although most of that stays for as long as
the program does. So much of it counts as what has lived for long, which the collector looks through
when it next looks through everything. What became garbage meanwhile, the graphs between two passes,
waits until then, and there is a bound on how much does.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Fewer objects are looked through in two milliseconds or three, and are not worth being kept.
LEAST_SETTLED = 20_000
# What counts as old unseen, until the collector looks through everything: some 50 MB. Few blocks
# do, since with a step that is dropped its arrays wait, as in a loop that compiles many steps.
MOST_SETTLED = 500_000
MOST_BLOCKS = 4
# How many objects do, of how many blocks, since how many collections of everything there had been.
_settled = [0, 0, 0]


@contextmanager
def paused_collector() -> Iterator[None]:
    """Let the cyclic garbage collector rest until the block ends, if it was running.

    Blocks nest, and threads may be in one at the same time: the first to leave that found the
    collector running starts it again.
    """
    was_running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_running:
            _settle()
            gc.enable()


def _settle() -> None:
    """Let what was made since the collector last ran count as what has lived for long."""
    made = gc.get_count()[0]
    if made < LEAST_SETTLED or gc.get_freeze_count():
        return
    collections = gc.get_stats()[-1]["collections"]
    if collections != _settled[2]:
        _settled[:] = 0, 0, collections
    if _settled[0] + made <= MOST_SETTLED and _settled[1] < MOST_BLOCKS:
        _settled[:2] = _settled[0] + made, _settled[1] + 1
        _move_to_oldest()


def _move_to_oldest() -> None:
    gc.freeze()  # all objects, from every generation
    gc.unfreeze()  # to the oldest one


@contextmanager
def importing() -> Iterator[None]:
    """Let the collector rest while modules are imported, and then leave what they made alone.

    It stays for good, and counts at once as what has lived for long. The objects of a host that
    has frozen some stay as they are, since no others would be unfrozen.
    """
    with paused_collector():
        yield
        if gc.get_freeze_count() == 0:
            _move_to_oldest()
