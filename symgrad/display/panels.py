"""Panels of notebooks: a title, tables and bars, in the colours of the page they are on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from symgrad.display.markup import Html, html_table, joined, tag

_STYLE = Html(
    ".sg-panel{font-size:.92em;max-width:100%;overflow-x:auto}"
    ".sg-panel table{border-collapse:collapse;margin:.3em 0}"
    ".sg-panel th,.sg-panel td{padding:1px 10px 1px 0;vertical-align:top;"
    "border-bottom:1px solid rgba(128,128,128,.35)}"
    ".sg-panel td{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:.95em}"
    ".sg-panel caption{text-align:left;opacity:.8}"
    ".sg-bar{display:inline-block;height:.7em;background:#4c82c3;border-radius:2px;min-width:1px}"
)
_MOST_ROWS = 40
_LONGEST_BAR = "min(12em,14vw)"  # on a narrow page there must be room for the numbers beside it


def panel(title: object, *parts: object) -> Html:
    """Return a panel: a title, and what is under it."""
    head = tag("strong", title)
    return tag("div", tag("style", _STYLE), head, *parts, class_="sg-panel")


def facts(pairs: Iterable[tuple[object, object]]) -> Html:
    """Return a table of names and what they are."""
    rows = (joined([tag("th", name, style="text-align:left"), tag("td", of)]) for name, of in pairs)
    return tag("table", tag("tbody", joined(tag("tr", row) for row in rows)))


def long_table(
    headers: Sequence[object], rows: Sequence[Sequence[object]], right: Iterable[int] = ()
) -> Html:
    """Return a table of the first rows, and how many more there are."""
    more = len(rows) - _MOST_ROWS
    caption = f"the first {_MOST_ROWS} of {len(rows)}" if more > 0 else None
    return html_table(headers, rows[:_MOST_ROWS], right=right, caption=caption)


def bar(share: float) -> Html:
    """Return a bar of a share of the longest."""
    return tag("span", class_="sg-bar", style=f"width:calc({share:.3f} * {_LONGEST_BAR})")
