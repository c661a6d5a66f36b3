"""The example notebooks run from top to bottom, and each ends a cell with something to see."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("nbclient") is None, reason="nbclient is not installed"),
    pytest.mark.filterwarnings("ignore"),  # those of the kernel's libraries
]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    from nbclient import NotebookClient
    from nbformat import reads

    text = path.read_text(encoding="utf-8")
    notebook: Any = reads(text, as_version=4)  # type: ignore[no-untyped-call]  # it has no types
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept without outputs"
    folder = {"metadata": {"path": str(path.parents[1])}}
    NotebookClient(notebook, timeout=300, resources=folder).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.output_type == "error"]
    shown = [output.get("data", {}) for output in outputs]
    pages = [data["text/html"] for data in shown if "text/html" in data]
    assert len(pages) >= 4
    assert all("sg-panel" in page for page in pages)


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 2
