"""The networks of `docs/networks.md` are as short as the page promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.page_blocks import blocks_of

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"
NETWORKS = ("LeNet", "A residual block", "GPT")
PARTS = dict(
    (title, text)
    for title, _, text in (
        part.partition("\n") for part in PAGE.read_text(encoding="utf-8").split("\n## ")
    )
)


@pytest.mark.parametrize("title", NETWORKS)
def test_a_network_takes_less_than_40_lines(title: str) -> None:
    network = blocks_of(PARTS[title])[0].text.split("rng.")[0]
    assert 10 < len([line for line in network.splitlines() if line.strip()]) < 40
