"""Type checkers accept the example of the README, with nothing added to it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Return a file with the first block of Python of the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert block is not None
    path = tmp_path / "example.py"
    path.write_text(block[1], encoding="utf-8")
    return path


@pytest.mark.slow
def test_mypy_accepts_the_example_when_it_is_strict(example: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(example)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_pyright_accepts_the_example_when_it_is_strict(example: Path) -> None:
    settings = '{"include": ["example.py"], "typeCheckingMode": "strict", "extraPaths": ["%s"]}'
    (example.parent / "pyrightconfig.json").write_text(settings % ROOT, encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "-p", str(example.parent)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
