"""The examples of `docs/random.md` run, those that are whole programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg

_PAGE = Path(__file__).parents[2] / "docs" / "random.md"


def _examples() -> list[str]:
    text = _PAGE.read_text(encoding="utf-8")
    part = text[text.index("## Keys") : text.index("## When values change")]
    blocks = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    assert len(blocks) == 3
    return blocks


def test_the_examples_of_keys_and_samplers_run() -> None:
    names: dict[str, Any] = {"sg": sg, "np": np}
    for block in _examples()[:2]:
        exec(block, names)
    x, rows, same = sg.run([names["x"], names["rows"], names["same"]])
    assert x.shape == (3, 4)
    np.testing.assert_array_equal(rows, same)


@pytest.mark.slow
def test_the_example_of_a_gradient_of_samples_runs() -> None:
    exec(_examples()[2], {"sg": sg, "np": np})


def test_the_table_of_the_page_has_all_draws() -> None:
    text = _PAGE.read_text(encoding="utf-8")
    missing = [name for name in sg.random.__all__ if f"`{name}" not in text and name != "Generator"]
    assert not missing
