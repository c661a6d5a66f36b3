"""MPI bindings: the functions and handles of the MPI library of this process, as symbols of calls.

mpi4py starts the library and knows its handles; it is imported when it is first needed. A handle is
an int in MPICH and a pointer in Open MPI, and both are passed in a register or a slot of 8 bytes,
so a handle is a symbol whose address is its value. Machine code then names neither library.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from symgrad.errors import CompileError, user_source
from symgrad.graph.dtypes import DType
from symgrad.graph.foreign_functions import ForeignFunction, ProcessGroup, RankTable

MPI_LIBRARY = "mpi"
_GIVE_EQUAL = ("MPI_Allreduce", "MPI_Allgather", "MPI_Bcast", "MPI_Iallreduce", "MPI_Iallgather")
_STARTS = ("MPI_Iallreduce", "MPI_Ireduce_scatter_block", "MPI_Iallgather", "MPI_Ialltoall")
_WHEN: dict[str, Literal["early", "late"]] = {**dict.fromkeys(_STARTS, "early"), "MPI_Wait": "late"}
_HINT = "pip install mpi4py, the extra mpi, and an MPI library such as Open MPI or MPICH"

# Elements are moved as what they are, and those that MPI has no type for as ints of their size.
_TYPES = {
    "bool": "UINT8_T",
    "int8": "INT8_T",
    "int16": "INT16_T",
    "int32": "INT32_T",
    "int64": "INT64_T",
    "uint8": "UINT8_T",
    "uint16": "UINT16_T",
    "uint32": "UINT32_T",
    "uint64": "UINT64_T",
    "float16": "UINT16_T",
    "bfloat16": "UINT16_T",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "complex64": "C_FLOAT_COMPLEX",
    "complex128": "C_DOUBLE_COMPLEX",
}


@cache
def load_mpi(caller: str) -> Any:
    """Return the module `mpi4py.MPI`, which starts MPI; raises `CompileError` without it."""
    try:
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:  # no mpi4py; no library of MPI
        problem = f"MPI cannot be started: {error}"
        raise CompileError(caller, problem, hint=_HINT, source=user_source()) from error


@cache
def mpi_function(name: str) -> ForeignFunction:
    """Return a function of the library, such as `MPI_Allreduce`."""
    library = ctypes.CDLL(load_mpi(name).__file__)  # mpi4py's module is linked with it
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    return ForeignFunction(
        name,
        address,
        library=MPI_LIBRARY,
        owner=library,
        gives_equal=name in _GIVE_EQUAL,
        when=_WHEN.get(name),
    )


@cache
def type_handle(dtype: DType) -> ForeignFunction:
    """Return the handle of the type of MPI in which elements of `dtype` are moved."""
    return _constant(_TYPES[dtype.name])


@cache
def reduction_handle(name: str) -> ForeignFunction:
    """Return the handle of a reduction: `SUM`, `MAX` or `MIN`."""
    return _constant(name)


@cache
def in_place() -> ForeignFunction:
    """Return what stands for what is sent where that is in the place of what is received."""
    return _constant("IN_PLACE")


def _constant(name: str) -> ForeignFunction:
    return handle(f"MPI_{name}", constant_value(f"MPI_{name}"))


def constant_value(name: str) -> int:
    """Return what the library of this process has for a name of MPI, such as `MPI_FLOAT`."""
    mpi = load_mpi("distributed")
    value = getattr(mpi, name.removeprefix("MPI_"))
    is_number = isinstance(value, int) or value is mpi.IN_PLACE
    return word(int(value) if is_number else mpi._handleof(value))


def share_functions() -> None:
    """Make the functions of the library symbols of the process, which exports look for there."""
    ctypes.CDLL(load_mpi("load").__file__, ctypes.RTLD_GLOBAL)


def handle(name: str, value: int, group: ProcessGroup | None = None) -> ForeignFunction:
    """Return a symbol that stands for `value`, an int of up to 64 bits, in this process alone.

    `group` is what it is the handle of, if that is a communicator, and lives as long.
    """
    return ForeignFunction(
        name, word(value), library=MPI_LIBRARY, owner=group, is_handle=True, group=group
    )


def rank_symbol(prefix: str, group: ProcessGroup, ranks: Mapping[int, int]) -> ForeignFunction:
    """Return a symbol for the rank that `ranks` has for the one that asks, or for nobody.

    It has one name on all ranks, which begins with `prefix`.
    """
    table = RankTable(group, tuple(map(ranks.get, range(group.size))))
    digest = hashlib.blake2b(repr(table.ranks).encode(), digest_size=8).hexdigest()
    value = ranks.get(group.rank, load_mpi("send_recv").PROC_NULL)
    return ForeignFunction(
        f"{prefix}_{group.lineage[-1]}_{digest}",
        word(value),
        library=MPI_LIBRARY,
        owner=group,
        is_handle=True,
        chosen=table,
    )


def word(value: int) -> int:
    """Return a handle as a signed int of 64 bits: one of MPICH has 32, of which one is a sign."""
    return ctypes.c_int64(value).value
