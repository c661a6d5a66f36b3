"""Inspection API of the Array API: what `__array_namespace_info__` says of the namespace."""

from __future__ import annotations

from typing import Any

from symgrad.frontend.data_types import KINDS, dtypes_of_kind
from symgrad.graph import dtypes
from symgrad.graph.devices import DEVICE, require_device
from symgrad.graph.dtypes import DEFAULT_COMPLEX, DEFAULT_FLOAT, DEFAULT_INTEGER, DType

__array_api_version__ = "2025.12"

_MOST_AXES = 64  # of an array of NumPy's, which is what a program takes and returns


class NamespaceInfo:
    """What the namespace can do, by the names of the standard."""

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """Return that no shape depends on data, and how many axes a tensor may have."""
        return {
            "boolean indexing": False,
            "data-dependent shapes": False,
            "max dimensions": _MOST_AXES,
        }

    def default_device(self) -> str:
        """Return "cpu"."""
        return DEVICE

    def devices(self) -> tuple[str, ...]:
        """Return the one device there is."""
        return (DEVICE,)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Return the dtypes of what is made of Python numbers, and of indices."""
        require_device("default_dtypes", device)
        return {
            "real floating": DEFAULT_FLOAT,
            "complex floating": DEFAULT_COMPLEX,
            "integral": DEFAULT_INTEGER,
            "indexing": dtypes.int64,
        }

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Return the dtypes of the standard by their names, those of a kind or several if given."""
        require_device("dtypes", device)
        kinds = tuple(KINDS) if kind is None else (kind,) if isinstance(kind, str) else kind
        found = {dtype for one in kinds for dtype in dtypes_of_kind("dtypes", one)}
        return {d.name: d for d in dtypes.ALL if d in found and not d.is_half}


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807 - the standard's name
    """Return what the namespace can do: its devices, dtypes and defaults.

    >>> sg.__array_namespace_info__().default_device()
    'cpu'
    """
    return NamespaceInfo()
