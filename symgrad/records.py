"""Equality of records whose fields have an `==` of their own: tensors, and numbers that may be nan.

Not for arrays: a record that has one is not compared (`eq=False`).
"""

from __future__ import annotations

from typing import Any


def equal_as_tuples(record: Any, other: object) -> bool:
    """Compare two records of a class as tuples of their fields; it is their `__eq__`.

    What is in a tuple is equal to itself, also a tensor, whose `==` builds graph, and a nan. The
    `__eq__` that a dataclass is given compares so up to Python 3.12, and field by field from 3.13.
    """
    if not isinstance(other, record.__class__):
        return False
    names = record.__dataclass_fields__
    return tuple(getattr(record, n) for n in names) == tuple(getattr(other, n) for n in names)
