"""Garbage collection is paused while programs, gradients and updates are made, and at the import.

A graph is many objects that refer to each other and all live until the program is made: each time
the collector walks them it finds nothing to free, and it walks them again and again as they grow.
That is a quarter of the time to compile a large graph. What becomes garbage meanwhile, the graphs
between two passes, is found when the collector runs again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
            gc.enable()


@contextmanager
def importing() -> Iterator[None]:
    """Let the collector rest while modules are imported, and then leave what they made alone.

    It stays for good, and counts at once as what has lived for long. The objects of a host that
    has frozen some stay as they are, since no others would be unfrozen.
    """
    with paused_collector():
        yield
        if gc.get_freeze_count() == 0:
            gc.freeze()  # all objects, from every generation
            gc.unfreeze()  # to the oldest one
