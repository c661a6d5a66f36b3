"""The table of `docs/random.md` has every draw."""

from __future__ import annotations

from pathlib import Path

import symgrad as sg

_PAGE = Path(__file__).parents[2] / "docs" / "random.md"


def test_the_table_of_the_page_has_all_draws() -> None:
    text = _PAGE.read_text(encoding="utf-8")
    missing = [name for name in sg.random.__all__ if f"`{name}" not in text and name != "Generator"]
    assert not missing
