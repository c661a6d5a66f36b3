"""Bars of panels are shares of one width, which a narrow page leaves room beside."""

from __future__ import annotations

from symgrad.display.panels import bar


def test_a_bar_is_a_share_of_what_the_page_has_room_for():
    assert 'style="width:calc(0.250 * min(12em,14vw))"' in str(bar(0.25))
    assert "calc(1.000 *" in str(bar(1.0))
