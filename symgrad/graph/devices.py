"""Devices of the Array API: there is one, the CPU that a program is compiled for."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from symgrad.call_errors import methods_refuse_arguments
from symgrad.errors import GraphError, user_source
from symgrad.graph.late_binding import provided

DEVICE = "cpu"


def require_device(op: str, device: Any) -> None:
    """Raise `GraphError` for a device that is not the CPU; None is the default one."""
    if device is not None and not (isinstance(device, str) and device == DEVICE):
        problem = f"device {device!r} is not {DEVICE!r}, the only one there is"
        raise GraphError(op, problem, source=user_source())


@methods_refuse_arguments
class OnDevice:
    """What a tensor tells of its device, and how its value is handed to other libraries."""

    __slots__ = ()

    @property
    def device(self) -> str:
        """Where programs compute it: "cpu"."""
        return DEVICE

    def to_device(self, device: str, /, *, stream: Any = None) -> Self:
        """Return the tensor itself; there is no device but "cpu".

        >>> sg.zeros(2).to_device("cpu").device
        'cpu'
        """
        require_device("to_device", device)
        return self

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export a copy of the value of a constant; no other tensor has one before it is run."""
        value = provided("value_to_export")(self, copy)
        return value.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return np.empty(0).__dlpack_device__()
