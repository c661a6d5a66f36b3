"""The tables of special functions are what their tool derives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.derive_special import FILES

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_table_is_what_the_tool_prints(name: str) -> None:
    printed = subprocess.run(
        [sys.executable, ROOT / "tools" / "derive_special.py", name],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    file = ROOT / "symgrad" / "graph" / "ops" / f"{name}.py"
    assert printed.stdout == file.read_text(encoding="utf-8")
