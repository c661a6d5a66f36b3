"""Templates of products (`codegen/llvm/alike_products.py`), which have numbers that tests patch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from symgrad.codegen.llvm import alike_products


@contextmanager
def emitted_anew() -> Iterator[None]:
    """Know no template before, and keep none that is made: what emits products is patched."""
    alike_products._alike.cache_clear()
    try:
        yield
    finally:
        alike_products._alike.cache_clear()
