"""Numbers as people read them: three digits and a unit."""

from __future__ import annotations

import pytest

from symgrad.display.markup import Html, escaped, html_table, joined, tag
from symgrad.display.units import bytes_text, count_text, rate_text, seconds_text, share_text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (320, "320 B"), (999, "999 B"), (1250, "1.25 kB"), (24_000_000, "24 MB"),
     (23_960_000, "24.0 MB"), (999_600, "1.00 MB"), (3.5e12, "3.50 TB")],
)  # fmt: skip
def test_bytes(size: float, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.50 s"), (0.01852, "18.5 ms"), (3.42e-6, "3.42 µs"), (60e-9, "60.0 ns"), (0.0, "0 ns"),
     (0.0009999, "1.00 ms")],
)  # fmt: skip
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_counts_rates_and_shares():
    assert count_text(1_257) == "1.26 k"
    assert count_text(12) == "12"
    assert rate_text(98.1e9, "FLOP/s") == "98.1 GFLOP/s"
    assert [share_text(s) for s in (0.0004, 0.0881, 0.0995, 0.834, 1.7)] == [
        "0.0%", "8.8%", "10%", "83%", "170%",
    ]  # fmt: skip


def test_text_is_escaped_once():
    assert escaped("a<b") == "a&lt;b"
    assert escaped(escaped("a<b")) == "a&lt;b"
    assert isinstance(escaped("a"), Html)
    assert tag("p", "a<b", tag("b", "&"), class_="x", data_c='"') == (
        '<p class="x" data-c="&quot;">a&lt;b<b>&amp;</b></p>'
    )
    assert joined(["<", tag("i")], between=", ") == "&lt;, <i></i>"


def test_attributes_of_none_are_left_out():
    assert tag("p", title=None) == "<p></p>"


def test_a_table_has_its_cells_escaped():
    text = html_table(("a", "b"), [("<", 1)], right=(1,))
    left, right = "text-align:left", "text-align:right;white-space:nowrap"
    assert f'<td style="{left}">&lt;</td><td style="{right}">1</td>' in text
