"""Communicators: groups of processes that call collectives together, and their ranks.

A communicator is made by all processes of the group it comes from. Its name, which is the same on
all ranks, says how it was made, so that programs of different ranks can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from symgrad.distributed.endings import end_together, steps_of_ranks
from symgrad.distributed.mpi_library import constant_value, handle, load_mpi, share_functions, word
from symgrad.distributed.node_memory import NodeMemory, node_sums, share_memory
from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.types import Array


class Communicator:
    """A group of processes with ranks from 0 on; collectives are called by all of them.

    `world()` is the one of all processes, and `split` makes smaller ones.

    >>> comm = sg.distributed.world()
    >>> comm.rank, comm.size
    (0, 1)
    """

    def __init__(self, mpi: Any, name: str, around: tuple[str, ...] = ()) -> None:
        self._mpi = mpi
        self._name = name
        self._lineage = (*around, name)
        self._splits = 0
        self._memory: NodeMemory | None = None
        self._has_asked = False
        # A communicator of another library, or none, is an int or a pointer like any other.
        self._value = word(load_mpi("distributed")._handleof(mpi))
        self._handle = handle(name, self._value, group=self)

    @property
    def rank(self) -> int:
        """The number of this process in the group."""
        return int(self._mpi.rank)

    @property
    def size(self) -> int:
        """The number of processes of the group."""
        return int(self._mpi.size)

    @property
    def mpi(self) -> Any:
        """The communicator as mpi4py has it, for calls between steps."""
        return self._mpi

    @property
    def lineage(self) -> tuple[str, ...]:
        """The names of the communicators that this one was split from, and its own."""
        return self._lineage

    def exchange(self, value: Any) -> list[Any]:
        """Return what each rank has given, by rank; all ranks call it.

        >>> sg.distributed.world().exchange("ready")
        ['ready']
        """
        received: list[Any] = self._mpi.allgather(value)
        return received

    def collect(self, value: Any) -> list[Any] | None:
        """Return on rank 0 what each rank has given, elsewhere None; all ranks call it.

        >>> sg.distributed.world().collect("ready")
        ['ready']
        """
        received: list[Any] | None = self._mpi.gather(value)
        return received

    def share_memory(self) -> None:
        """Let steps with averaged gradients run in memory that all ranks see; all ranks call it.

        Where they are on several machines nothing changes.

        >>> sg.distributed.world().share_memory() is None
        True
        """
        if not self._has_asked:
            self._has_asked, self._memory = True, share_memory(self._mpi)

    @property
    def has_shared_memory(self) -> bool:
        """Whether steps run in memory that all ranks see, as that of one is."""
        return self._memory is not None or self.size == 1

    def allocate(self, count: int) -> Array | None:
        """Return `count` bytes that all ranks see, None where there is no such memory.

        >>> sg.distributed.world().allocate(64) is None
        True
        """
        return None if self._memory is None else self._memory.allocate(count)

    def settle(self) -> None:
        """End what was started by a step that failed: other ranks wait for it.

        >>> sg.distributed.world().settle() is None
        True
        """
        if self.size > 1:
            node_sums().settle(self._mpi)

    def counting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call`, a step with collectives, such that other ranks can see that it runs.

        >>> sg.distributed.world().counting(len)("four")
        4
        """
        mpi = load_mpi("distributed")
        steps = steps_of_ranks(mpi) if 1 < self.size == mpi.COMM_WORLD.size else None
        return call if steps is None else steps.counting(call)

    @property
    def value(self) -> int:
        """The handle of MPI, as an int of 64 bits."""
        return self._value

    def constants(self, names: Sequence[str]) -> list[int]:
        """Return the handles that MPI has for names; its functions become symbols of the process.

        >>> len(sg.distributed.world().constants(["MPI_FLOAT", "MPI_SUM"]))
        2
        """
        share_functions()
        return [constant_value(name) for name in names]

    @property
    def handle(self) -> ForeignFunction:
        """The symbol that stands for the communicator in calls."""
        return self._handle

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """Return the communicator of the processes that give the same `color`; all must call it.

        Ranks there go by `key`, then by the rank here. A process that gives None is in none of them
        and gets None. Raises `DTypeError` for a color that is no int of 0 or more.

        >>> comm = sg.distributed.world()
        >>> comm.split(comm.rank % 2).size
        1
        """
        if color is not None and (type(color) is not int or color < 0):
            problem = f"color is {color!r}, no int of 0 or more"
            raise DTypeError("split", problem, source=user_source())
        undefined = load_mpi("split").UNDEFINED
        made = self._mpi.Split(undefined if color is None else color, key)
        name = f"{self._name}_{self._splits}"
        self._splits += 1
        return None if color is None else Communicator(made, name, self._lineage)

    def __repr__(self) -> str:
        return f"<Communicator {self._name}: rank {self.rank} of {self.size}>"


@cache
def world() -> Communicator:
    """Return the communicator of all processes that were started together; all must call it.

    It is a duplicate of MPI's own, so what the program sends otherwise does not meet what steps
    send. Without `mpiexec` it is a group of one. From then on an error that ends a process ends
    them all: its message is printed behind the number of the rank, and the status is 1. So does
    `sys.exit` with a status other than 0, if the others have not ended ten seconds later. Raises
    `CompileError` where mpi4py or a library of MPI is missing.

    >>> sg.distributed.world()
    <Communicator mpi_world: rank 0 of 1>
    """
    mpi = load_mpi("world")
    if mpi.Is_finalized():
        raise GraphError("world", "MPI has been finalized", source=user_source())
    if mpi.COMM_WORLD.size > 1:
        end_together(mpi)
    return Communicator(mpi.COMM_WORLD.Dup(), "mpi_world")
