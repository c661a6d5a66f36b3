"""The networks of `docs/networks.md` are built, learn, and are as short as the page promises."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"
_BLOCK = re.compile(r"(?:^(?: {4,}\S.*| *)\n)+", re.MULTILINE)
_CLAIM = re.compile(r"(?P<expression>.*\S)\s+# = (?P<value>.+)")
_CLAIMS = {"LeNet": 2, "A residual block": 3, "GPT": 1}  # of each network
_QUICK = "A residual block"


def blocks_of(text: str) -> list[str]:
    """Return the indented blocks of a part of the page."""
    return [textwrap.dedent(b).strip() for b in _BLOCK.findall(text) if b.strip()]


def check_examples(*titles: str) -> None:
    """Run what is before the networks, and the examples of some of them."""
    head, *parts = PAGE.read_text(encoding="utf-8").split("\n## ")
    chosen = [part for part in parts if part.partition("\n")[0] in titles]
    names: dict[str, Any] = {}
    claims = 0
    for block in blocks_of("\n\n".join([head, *chosen])):
        exec(compile(block, PAGE.name, "exec"), names)
        for claim in filter(None, map(_CLAIM.fullmatch, block.splitlines())):
            assert eval(claim["expression"], names) == eval(claim["value"], names), claim[0]
            claims += 1
    assert claims == sum(_CLAIMS[title] for title in titles)


def test_examples_of_one_network_give_what_is_written_behind_them():
    check_examples(_QUICK)


@pytest.mark.slow
def test_examples_give_what_is_written_behind_them():
    check_examples(*_CLAIMS)


def test_each_network_takes_less_than_40_lines():
    for part in PAGE.read_text(encoding="utf-8").split("\n## "):
        title, _, text = part.partition("\n")
        if title in _CLAIMS:
            network = blocks_of(text)[0].split("rng.")[0]
            assert len([line for line in network.splitlines() if line.strip()]) < 40, title
