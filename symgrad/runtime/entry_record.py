"""Record layout of the native entry: what it reads of one step, written by NumPy, read by LLVM.

Both forms come from one table of fields, so they cannot drift apart. Every field is one word, so a
record is an array of words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import Literal

import numpy as np

from symgrad.codegen import ir
from symgrad.graph.dtypes import DType
from symgrad.records import dataclass
from symgrad.runtime.entry_layout import ALIGNED, C_CONTIGUOUS, WRITEABLE

FieldKind = Literal["pointer", "int"]
Fields = tuple[tuple[str, FieldKind], ...]
Words = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array a step takes or makes; `name` is what messages call it."""

    name: str
    shape: tuple[int, ...]
    dtype: DType

    @property
    def nbytes(self) -> int:
        """Bytes all elements take together."""
        return math.prod(self.shape) * self.dtype.itemsize


class Returns(IntEnum):
    """What a call returns."""

    NONE = 0
    SINGLE = 1
    TUPLE = 2
    LIST = 3


# `specs` has the inputs, then the outputs; so has `pointers`, a table the entry fills at each call.
# The table may be one per step: nothing between filling it and the end of the step runs Python
# code or gives up the global lock, so no second call can come in between.
RECORD_FIELDS: Fields = (
    ("step", "pointer"),
    ("state", "pointer"),
    ("input_count", "int"),
    ("output_count", "int"),
    ("returns", "int"),
    ("specs", "pointer"),
    ("pointers", "pointer"),
)

SPEC_FIELDS: Fields = (
    ("descr", "pointer"),
    ("ndim", "int"),
    ("dims", "pointer"),
    ("nbytes", "int"),
    ("flags", "int"),
)


def llvm_struct(fields: Fields) -> ir.LiteralStructType:
    """Return the LLVM type of a structure of `fields`."""
    kinds = {"pointer": ir.PointerType(), "int": ir.IntType(64)}
    return ir.LiteralStructType([kinds[kind] for _, kind in fields])


def field_index(fields: Fields, name: str) -> int:
    """Return which of `fields` is called `name`."""
    return [field for field, _ in fields].index(name)


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """The words of a record, and the tables they point to."""

    words: Words
    tables: tuple[object, ...]


def build_record(
    step_address: int,
    state_address: int,
    inputs: Sequence[ArraySpec],
    outputs: Sequence[ArraySpec],
    returns: Returns,
) -> Record:
    """Lay the record of a step out in memory."""
    arrays = (*inputs, *outputs)
    dims = np.array([size for spec in arrays for size in spec.shape], np.int64)
    pointers = np.zeros(len(arrays), np.int64)
    specs = np.zeros((len(arrays), len(SPEC_FIELDS)), np.int64)
    place = dims.ctypes.data
    for index, spec in enumerate(arrays):
        is_output = index >= len(inputs)
        specs[index] = _words(
            SPEC_FIELDS,
            descr=id(spec.dtype.numpy),
            ndim=len(spec.shape),
            dims=place,
            nbytes=spec.nbytes,
            flags=C_CONTIGUOUS | ALIGNED | (WRITEABLE if is_output else 0),
        )
        place += len(spec.shape) * dims.itemsize
    words = _words(
        RECORD_FIELDS,
        step=step_address,
        state=state_address,
        input_count=len(inputs),
        output_count=len(outputs),
        returns=returns,
        specs=specs.ctypes.data,
        pointers=pointers.ctypes.data,
    )
    # A table of specs borrows its dtypes; they are owned here.
    dtypes = tuple(spec.dtype.numpy for spec in arrays)
    return Record(words, (specs, dims, pointers, dtypes))


def _words(fields: Fields, **values: int) -> Words:
    words = np.array([values[name] for name, _ in fields], np.int64)
    words.flags.writeable = False
    return words
