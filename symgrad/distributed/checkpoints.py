"""Periodic checkpoints of training on several ranks: written by rank 0 while all go on.

The values are copied between two steps; a thread of rank 0 writes the file. What ranks share is
gathered before, which is all that the others wait for.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self

import numpy as np

from symgrad.distributed.communicator import Communicator
from symgrad.errors import CheckpointError, DTypeError, GraphError, user_source
from symgrad.frontend.state import variable
from symgrad.runtime.checkpoint import named_states, read_whole, restore, write_values

_STEPS = "checkpoint/steps"


class Checkpoints:
    """A file that has the variables of all ranks as they were after every so many steps.

    `variables` are what `sg.save` takes, `path` is a file that all ranks see. All ranks make one,
    and call its methods together. On the way it is replaced in one step, so a program that is ended
    at any moment leaves a whole file, which the same program reads on any number of ranks. Raises
    `DTypeError` and `GraphError` for an `every` that is no int of 1 or more.

    >>> import pathlib, tempfile
    >>> comm, w = sg.distributed.world(), sg.variable(0.0, name="w")
    >>> step = sg.compile([], w, [sg.Update(w, w + 1)])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "training.safetensors"
    >>> with sg.distributed.Checkpoints(path, [w], comm, every=2) as checkpoints:
    ...     for number in range(checkpoints.restore(), 5):
    ...         _ = step()
    ...         checkpoints.after(number + 1)
    >>> w.value = 9.0
    >>> sg.distributed.Checkpoints(path, [w], comm, every=2).restore(), w.value
    (4, array(4., dtype=float32))
    """

    def __init__(
        self, path: str | os.PathLike[str], variables: Any, comm: Any, *, every: Any
    ) -> None:
        if not isinstance(comm, Communicator):
            problem = f"comm is {comm!r}, no communicator"
            raise DTypeError("Checkpoints", problem, source=user_source())
        if type(every) is not int:
            raise DTypeError("Checkpoints", f"every is {every!r}, no int", source=user_source())
        if every < 1:
            raise GraphError(
                "Checkpoints", f"every is {every}, not 1 or more", source=user_source()
            )
        self.path = Path(path)
        self.every: int = every
        self._comm: Communicator = comm
        self._steps = variable(np.asarray(0, np.int64), trainable=False, name=_STEPS)
        self._given = [variables, {_STEPS: self._steps}]
        self._writer: Thread | None = None
        self._error: Exception | None = None

    def restore(self) -> int:
        """Set the variables to what the file has, and return after how many steps that was.

        Without a file they stay as they are, and the number is 0. Raises `CheckpointError` for a
        file of other variables or one that is damaged, and where ranks find different files.

        >>> w, path = sg.variable(1.0, name="w"), "there/is/none.safetensors"
        >>> sg.distributed.Checkpoints(path, [w], sg.distributed.world(), every=10).restore()
        0
        """
        is_there = self.path.exists()
        if is_there:
            restore(self.path, self._given)
        steps = int(self._steps.value) if is_there else 0
        for rank, other in enumerate(self._comm.exchange(steps)):
            if other != steps:
                problem = f"rank {rank} has a file after {other} steps, rank {self._comm.rank} "
                problem += f"after {steps}, at {self.path}: all ranks read one file"
                raise CheckpointError("Checkpoints.restore", problem, source=user_source())
        return steps

    def after(self, steps: int) -> None:
        """Say that `steps` steps have been made; after every n-th the file is written.

        Raises the `OSError` or `CheckpointError` of the file before, on rank 0, where it could not
        be written.

        >>> w, path = sg.variable(1.0, name="w"), "is/not/written.safetensors"
        >>> checkpoints = sg.distributed.Checkpoints(path, [w], sg.distributed.world(), every=10)
        >>> checkpoints.after(1), checkpoints.path.exists()
        (None, False)
        """
        if steps % self.every:
            return
        self._finish()
        self._steps.value = np.asarray(steps, np.int64)
        values = read_whole(named_states("Checkpoints", self._given))
        if self._comm.rank == 0:
            self._writer = Thread(target=self._write, args=(values,), name="symgrad checkpoint")
            self._writer.start()

    def close(self) -> None:
        """Wait until the last file has been written; raises what `after` raises.

        >>> import pathlib, tempfile
        >>> w, path = sg.variable(1.0, name="w"), pathlib.Path(tempfile.mkdtemp()) / "w.safetensors"
        >>> checkpoints = sg.distributed.Checkpoints(path, [w], sg.distributed.world(), every=10)
        >>> checkpoints.after(10), checkpoints.close(), path.exists()
        (None, None, True)
        """
        self._finish()
        self._comm.mpi.Barrier()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        # The other ranks may never come to the end of the block that an error has left.
        if kind is None:
            self.close()

    def _write(self, values: dict[str, Any]) -> None:
        try:
            write_values(self.path, values)
        except (OSError, CheckpointError) as error:
            self._error = error

    def _finish(self) -> None:
        """Wait for the thread that writes, and raise what it has met."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
