"""A pytest plugin for the public conformance suite: no complex numbers, and no extensions.

The suite looks for the widest complex dtype when it is imported. So there are names for two of them
for as long as that takes, and they are taken out of what the suite draws from before the modules
that draw are imported.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from tests.array_api import namespace

_COMPLEX = {name: SimpleNamespace(name=name) for name in ("complex64", "complex128")}
_asarray = namespace.asarray  # type: ignore[attr-defined]


def _sample(value: Any) -> Any:
    is_complex = isinstance(value, complex)
    return SimpleNamespace(dtype=_COMPLEX["complex128"]) if is_complex else _asarray(value)


_NAMES: dict[str, Any] = {"asarray": _sample, **_COMPLEX}
with patch.multiple(namespace, create=True, **_NAMES):
    from array_api_tests import _array_module, dtype_helpers
_array_module.asarray = _asarray


def _real(dtypes: Any) -> Any:
    return type(dtypes)(d for d in dtypes if not isinstance(d, SimpleNamespace))


for _name, _value in list(vars(dtype_helpers).items()):
    if isinstance(_value, tuple) and _name.endswith("_dtypes"):
        setattr(dtype_helpers, _name, _real(_value))
for _table in (dtype_helpers.func_in_dtypes, dtype_helpers.kind_to_dtypes):
    for _key in list(_table):
        _table[_key] = _real(_table[_key])
_pairs = dtype_helpers._promotion_table_pairs
_pairs[:] = [
    (pair, found) for pair, found in _pairs if not isinstance(found, SimpleNamespace)
]  # the table has this list


def _is_left_out(item: pytest.Item) -> bool:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    is_complex = getattr(parameters.get("case"), "is_complex", False) or any(
        isinstance(value, SimpleNamespace) for value in parameters.values()
    )
    is_of_extension = item.get_closest_marker("xp_extension") is not None
    return is_complex or is_of_extension or parameters.get("category") in ("linalg", "fft")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the special cases of complex operands, and the extensions."""
    left_out = [item for item in items if _is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not _is_left_out(item)]
