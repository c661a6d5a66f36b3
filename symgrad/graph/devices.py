"""Devices of the Array API: there is one, the CPU that a program is compiled for."""

from __future__ import annotations

from symgrad.errors import GraphError, user_source

DEVICE = "cpu"


def require_device(op: str, device: str | None) -> None:
    """Raise `GraphError` for a device that is not the CPU; None is the default one."""
    if device is not None and device != DEVICE:
        problem = f"device {device!r} is not {DEVICE!r}, the only one there is"
        raise GraphError(op, problem, source=user_source())
