"""HTML generation: text is escaped as it becomes part of markup, and markup is not, once more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Html(str):
    """Markup, as opposed to text. Template engines ask for `__html__` and leave it as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def escaped(content: object) -> Html:
    """Return `content` as markup: as it is if it is some, with its characters escaped if not."""
    return content if isinstance(content, Html) else Html(_escape(str(content)))


def joined(parts: Iterable[object], between: str = "") -> Html:
    """Return markup of all `parts`, one behind the other."""
    return Html(str(escaped(between)).join(map(escaped, parts)))


def tag(name: str, *inner: object, **attributes: object) -> Html:
    """Return an element. An attribute of None is left out, `class_` is `class`, `_` is a hyphen."""
    named = (
        f' {key.rstrip("_").replace("_", "-")}="{_escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{''.join(named)}>{joined(inner)}</{name}>")


_LEFT, _RIGHT = "text-align:left", "text-align:right;white-space:nowrap"


def html_table(
    headers: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[int] = (),
    caption: str | None = None,
) -> Html:
    """Return a table, with the columns of `right` aligned as numbers are."""
    numbers = set(right)

    def cells(kind: str, row: Sequence[object]) -> Html:
        return joined(
            tag(kind, cell, style=_RIGHT if at in numbers else _LEFT) for at, cell in enumerate(row)
        )

    title = () if caption is None else (tag("caption", caption),)
    head = tag("thead", tag("tr", cells("th", headers)))
    body = tag("tbody", joined(tag("tr", cells("td", row)) for row in rows))
    return tag("table", *title, head, body)


def _escape(text: str) -> str:
    import html  # it loads a table of two thousand characters, and most programs show nothing

    return html.escape(text)
