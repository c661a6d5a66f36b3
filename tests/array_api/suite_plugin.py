"""A pytest plugin for the public conformance suite: the extensions are left out."""

from __future__ import annotations

import pytest


def _is_of_extension(item: pytest.Item) -> bool:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    is_marked = item.get_closest_marker("xp_extension") is not None
    return is_marked or parameters.get("category") in ("linalg", "fft")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what tests an extension."""
    left_out = [item for item in items if _is_of_extension(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not _is_of_extension(item)]
