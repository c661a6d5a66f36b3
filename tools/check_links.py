"""Link checker: in a site of HTML files, every link of its own leads somewhere, without a network.

    python tools/check_links.py build/docs/html

A file that is linked must be there, an anchor must be an `id` of its page, and whatever a page
needs to be shown (scripts, styles, fonts, pictures) must be a file of the site. Links to other
sites are left alone: what they say is not ours, and nothing is fetched.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

# What makes a browser load something at once, by tag.
_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
_ELSEWHERE = re.compile(r"(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
_IN_STYLES = re.compile(r"url\(\s*['\"]?(?P<target>[^'\")]+)|@import\s+['\"](?P<sheet>[^'\"]+)")


class Page(HTMLParser):
    """The links of a page, what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of one tag."""
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        target = found.get(_LOADED.get(tag, ""))
        if target is not None and not (tag == "link" and found.get("rel") in _SEARCHED_FOR):
            self.loaded.append(target)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])


# Pages that a browser may ask for, and does not load.
_SEARCHED_FOR = ("canonical", "next", "prev", "search", "index", "author", "copyright")


def problems(site: Path) -> list[str]:
    """Return what is wrong with the links of a site, a line each."""

    @cache
    def pages(path: Path) -> Page:
        return Page(path.read_text(encoding="utf-8"))

    found = []
    for path in sorted(site.rglob("*.html")):
        page = pages(path)
        where = path.relative_to(site)
        found += [f"{where} loads {t} from elsewhere" for t in page.loaded if _is_fetched(t)]
        for target in [*page.links, *page.loaded]:
            if not _ELSEWHERE.match(target):
                found += [f"{where}: {target} {why}" for why in _missing(path, target, pages)]
    for path in sorted(site.rglob("*.css")):
        for match in _IN_STYLES.finditer(path.read_text(encoding="utf-8")):
            target = match["target"] or match["sheet"]
            if _is_fetched(target):
                found.append(f"{path.relative_to(site)} loads {target} from elsewhere")
    return found


def _is_fetched(target: str) -> bool:
    return bool(_ELSEWHERE.match(target)) and not target.startswith("data:")


def _missing(path: Path, target: str, pages: Callable[[Path], Page]) -> list[str]:
    """Return why a link of the file `path` leads nowhere, if it does."""
    place, _, anchor = unquote(target).partition("#")
    place = place.partition("?")[0]
    file = (path.parent / place) if place else path
    if not file.is_file():
        return ["is no file"]
    is_page = file.suffix == ".html" and anchor
    return ["has no such anchor"] if is_page and anchor not in pages(file).anchors else []


def main() -> int:
    """Print what is wrong with the site that is named, and how much was looked at."""
    site = Path(sys.argv[1])
    found = problems(site)
    count = len(list(site.rglob("*.html")))
    assert count, f"{site} has no pages"
    for problem in found:
        print(problem)
    print(f"{count} pages, {len(found)} links that lead nowhere")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
