"""The networks of `docs/networks.md` are built, learn, and are as short as the page promises."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"
_BLOCK = re.compile(r"(?:^(?: {4,}\S.*| *)\n)+", re.MULTILINE)
_CLAIM = re.compile(r"(?P<expression>.*\S)\s+# = (?P<value>.+)")
_NETWORKS = ("LeNet", "A residual block", "GPT")


def blocks_of(text: str) -> list[str]:
    """Return the indented blocks of a part of the page."""
    return [textwrap.dedent(b).strip() for b in _BLOCK.findall(text) if b.strip()]


def test_examples_give_what_is_written_behind_them():
    names: dict[str, Any] = {}
    claims = 0
    for block in blocks_of(PAGE.read_text(encoding="utf-8")):
        exec(compile(block, PAGE.name, "exec"), names)
        for claim in filter(None, map(_CLAIM.fullmatch, block.splitlines())):
            assert eval(claim["expression"], names) == eval(claim["value"], names), claim[0]
            claims += 1
    assert claims == 6


def test_each_network_takes_less_than_40_lines():
    for part in PAGE.read_text(encoding="utf-8").split("\n## "):
        title, _, text = part.partition("\n")
        if title in _NETWORKS:
            network = blocks_of(text)[0].split("rng.")[0]
            assert len([line for line in network.splitlines() if line.strip()]) < 40, title
