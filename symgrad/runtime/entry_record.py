"""Record layout of the native entry: what it reads of one step, written by NumPy, read by LLVM.

Both forms come from one table of fields, so they cannot drift apart. Every field is one word, so a
record is an array of words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
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


class LockUse(IntEnum):
    """How a step is kept apart from others; see Note [The lock of steps].

    A brief one keeps Python's global lock and needs no more. A long one holds the lock of steps in
    its place. One that calls functions which need the global lock, and may give it up, holds both.
    """

    BRIEF = 0
    LONG = 1
    BOTH = 2


# `specs` has the inputs, then the outputs; so has `pointers`, a table the entry fills at each call.
# The table may be one per step: from filling it to the end of the step it is either the global lock
# or the lock of steps that keeps a second call from coming in between. `failed` is where the step
# writes an index that was out of range, `entered` a word that is not 0 while a step that holds the
# lock of steps runs on the same memory.
RECORD_FIELDS: Fields = (
    ("step", "pointer"),
    ("state", "pointer"),
    ("input_count", "int"),
    ("output_count", "int"),
    ("returns", "int"),
    ("specs", "pointer"),
    ("pointers", "pointer"),
    ("lock_use", "int"),
    ("failed", "pointer"),
    ("entered", "pointer"),
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
class Running:
    """How a step runs, with two words: see `RECORD_FIELDS`.

    Steps that run on the same memory have one `entered`.
    """

    lock_use: LockUse = LockUse.BRIEF
    failed: Words = field(default_factory=lambda: np.zeros(1, np.int64))
    entered: Words = field(default_factory=lambda: np.zeros(1, np.int64))


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
    running: Running,
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
        lock_use=running.lock_use,
        failed=running.failed.ctypes.data,
        entered=running.entered.ctypes.data,
        input_count=len(inputs),
        output_count=len(outputs),
        returns=returns,
        specs=specs.ctypes.data,
        pointers=pointers.ctypes.data,
    )
    # A table of specs borrows its dtypes; they are owned here.
    dtypes = tuple(spec.dtype.numpy for spec in arrays)
    return Record(words, (specs, dims, pointers, dtypes, running))


def _words(fields: Fields, **values: int) -> Words:
    words = np.array([values[name] for name, _ in fields], np.int64)
    words.flags.writeable = False
    return words
