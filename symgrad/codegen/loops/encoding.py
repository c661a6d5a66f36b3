"""Serialisation of loops: kernels as rows of numbers and texts, which take no parser to read.

    a row: a number that says what it is, then a plain value or which rows before it are its parts

Kernels that are encoded together share the rows of what they have in common, but for statements:
who asks whether two kernels were made of one another compares these by identity. The text of a
kernel (`print.py`) is for people, and takes several times as long to read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from symgrad.codegen.loops.blocking import Blocking, Share
from symgrad.codegen.loops.language import (
    Accumulator,
    BinarySearch,
    Cast,
    Check,
    Const,
    Fold,
    For,
    Index,
    IndexValue,
    Kernel,
    Let,
    Load,
    Modulus,
    Op,
    Param,
    Prefix,
    Product,
    Quotient,
    Ref,
    Select,
    SortRows,
    Store,
    StridedOperand,
    ZeroBorder,
)
from symgrad.codegen.loops.strided import PrefetchedPart
from symgrad.graph.dtypes import BY_SHORT, DType

Row = list[Any]

RECORDS: tuple[type[Any], ...] = (
    *(Kernel, Param, For, Fold, Prefix, Accumulator, Product, SortRows, Let, Store, Check),
    *(Const, Ref, Load, Op, Select, Cast, IndexValue, BinarySearch, Index, Quotient, Modulus),
    *(StridedOperand, ZeroBorder, Blocking, Share, PrefetchedPart),
)
_STATEMENTS = {Let, Store, Check, For, Fold, Prefix, Product, SortRows}

# What is no record has a number, too: a constant True is another one than 1, and 0.0 than -0.0.
_PLAIN: dict[type, int] = {type(None): 0, str: 1, int: 2, bool: 3}
_FLOAT, _DTYPE, _TUPLE = 4, 5, 6
_FIRST_RECORD = 7
_CODES = {record: number for number, record in enumerate(RECORDS, _FIRST_RECORD)}
_NAMES = {record: tuple(field.name for field in fields(record)) for record in RECORDS}


class Encoder:
    """Encodes values behind some rows that there are, and shares these."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        is_shared = {code for record, code in _CODES.items() if record not in _STATEMENTS}
        is_shared |= set(range(_FIRST_RECORD))
        self._numbers = {tuple(row): n for n, row in enumerate(rows) if row[0] in is_shared}

    def encode(self, value: Any) -> int:
        """Return which row `value` is: kernels, tuples, numbers and texts."""
        kind = type(value)
        plain = _PLAIN.get(kind)
        if plain is not None:
            return self._shared((plain, value))
        if kind is tuple:
            return self._shared((_TUPLE, *map(self.encode, value)))
        if kind is DType:
            return self._shared((_DTYPE, value.short))
        if kind is float:
            return self._shared((_FLOAT, struct.pack("<d", value).hex()))
        parts = [self.encode(getattr(value, name)) for name in _NAMES[kind]]
        if kind not in _STATEMENTS:
            return self._shared((_CODES[kind], *parts))
        self.rows.append([_CODES[kind], *parts])
        return len(self.rows) - 1

    def _shared(self, row: tuple[Any, ...]) -> int:
        number = self._numbers.setdefault(row, len(self.rows))
        if number == len(self.rows):
            self.rows.append(list(row))
        return number


def decoded(rows: list[Row]) -> list[Any]:
    """Return what each row is."""
    values: list[Any] = []
    value_of = values.__getitem__
    for code, *parts in rows:
        if code >= _FIRST_RECORD:
            values.append(RECORDS[code - _FIRST_RECORD](*map(value_of, parts)))
        elif code == _TUPLE:
            values.append(tuple(map(value_of, parts)))
        else:
            values.append(_MAKERS[code](parts[0]))
    return values


def _kept(value: Any) -> Any:
    return value


def _float_of(text: str) -> float:
    value: float = struct.unpack("<d", bytes.fromhex(text))[0]
    return value


# Of what is neither a tuple nor a record.
_MAKERS: list[Callable[[Any], Any]] = [*(_kept for _ in _PLAIN), _float_of, BY_SHORT.__getitem__]
