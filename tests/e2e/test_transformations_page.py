"""The examples of `docs/transformations.md` run, and give what is written behind them."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from symgrad.frontend.nests import flatten

PAGE = Path(__file__).parents[2] / "docs" / "transformations.md"
_BLOCK = re.compile(r"(?:^(?: {4,}\S.*| *)\n)+", re.MULTILINE)
_CLAIM = re.compile(r"(?P<expression>.*\S)\s+# = (?P<value>.+)")


def examples() -> list[str]:
    """Return the indented blocks of the page."""
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    return [textwrap.dedent(block).strip() for block in blocks if block.strip()]


def test_examples_give_what_is_written_behind_them():
    names: dict[str, Any] = {}
    claims = 0
    for block in examples():
        exec(compile(block, PAGE.name, "exec"), names)
        for claim in filter(None, map(_CLAIM.fullmatch, block.splitlines())):
            found, value = (eval(claim[group], names) for group in ("expression", "value"))
            pairs = zip(flatten(found)[0], flatten(value)[0], strict=True)
            for a, b in pairs:
                np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=claim["expression"])
            claims += 1
    assert claims == 12
