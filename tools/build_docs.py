"""Build the documentation: the pages of `docs/` and the reference as a site of HTML files.

    python tools/build_docs.py [FOLDER]    # into FOLDER/html; without one, into build/docs/html

The pages are copied, links to files of the repository lead to copies of these, names such as
`sg.gradients` lead to the reference, and Sphinx makes the site, with warnings as errors. What the
theme does not tell those who hear a page is added, and at the end every link is followed
(`tools/check_links.py`). No network is needed, to build or to read.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # a script is given the folder it lies in

BUILD = ROOT / "build" / "docs"
# Documents beside `docs/` that are pages too, with the names they have there.
BESIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_LINK = re.compile(r"(?P<text>\[[^\]]*\])\((?P<target>[^)\s]+)\)")
_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"(?<![\[`\w])`(?P<name>sg\.[A-Za-z_][\w.]*)(?P<call>\([^`]*\))?`")
# What marks of the theme lack for those who hear a page: a heading has a level, and of two
# landmarks of a kind each has a name. The page of a search has no heading of its own.
_ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer': '<aside aria-label="This page" class="toc-drawer',
    '<div id="search-results">': '<h1>Search</h1>\n<div id="search-results">',
}
_CELL = re.compile(r"<td>.*?</td>", re.DOTALL)
_WORD = re.compile(r'(?<=<span class="pre">)[^<]+')
_PART = re.compile(r"(?<=[a-z0-9])([._/])(?=[a-z])")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)


def write_source(source: Path) -> None:
    """Write what Sphinx reads: the pages with their links, the reference, and the settings."""
    from tools.api_pages import pages, targets

    if source.exists():
        shutil.rmtree(source)
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("*.md"))
    texts = {
        path.relative_to(ROOT / "docs"): _at_home(path)
        for path in sorted((ROOT / "docs").rglob("*.md"))
    }
    texts |= {Path(name): _at_home(ROOT / file) for file, name in BESIDE.items()}
    texts |= {Path("reference") / name: text for name, text in pages().items()}
    known = targets()
    for place, text in texts.items():
        path = source / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_with_names(text, place, known), encoding="utf-8")
    _copy_files(source, texts.values())


def _at_home(path: Path) -> str:
    """Return a document whose links to what is no page of the site lead to copies of it."""
    text = path.read_text(encoding="utf-8")
    is_beside = path.parent == ROOT
    place = Path(BESIDE[path.name]) if is_beside else path.relative_to(ROOT / "docs")
    up = "../" * (len(place.parts) - 1)

    def led(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or _ELSEWHERE.match(match["target"]):
            return match[0]
        file = (path.parent / target).resolve().relative_to(ROOT)
        anchor = f"#{anchor}" if anchor else ""
        if str(file) in BESIDE:
            return f"{match['text']}({up}{BESIDE[str(file)]}{anchor})"
        if str(file) == "README.md":
            return f"{match['text']}({up}index.md)"
        if file.parts[0] == "docs" and file.suffix == ".md":
            return f"{match['text']}({up}{'/'.join(file.parts[1:])}{anchor})"
        return f"{match['text']}({up}files/{file})"

    return _outside_of_code(text, lambda part: _LINK.sub(led, part))


def _with_names(text: str, place: Path, known: dict[str, str]) -> str:
    """Return a page in which public names lead to the reference, the first time in a section."""
    up = "../" * (len(place.parts) - 1)
    seen: set[str] = set()

    def led(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in known or name in seen:
            return match[0]
        seen.add(name)
        return f"[{match[0]}]({up}reference/{known[name]})"

    def in_section(part: str) -> str:
        lines = []
        for line in part.split("\n"):
            if line.startswith("#"):
                seen.clear()
            lines.append(line if line.startswith("#") else _NAME.sub(led, line))
        return "\n".join(lines)

    return _outside_of_code(text, in_section)


def _outside_of_code(text: str, change: Callable[[str], str]) -> str:
    """Change a document, but for its fenced blocks."""
    return "".join(
        part if part.lstrip().startswith("```") else change(part) for part in _FENCED.split(text)
    )


def _copy_files(source: Path, texts: Iterable[str]) -> None:
    """Copy the files of the repository that pages link to."""
    for text in texts:
        for match in re.finditer(r"\]\((?:\.\./)*files/(?P<file>[^)#]+)\)", text):
            place = source / "files" / match["file"]
            place.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / match["file"]).is_file():
                shutil.copy(ROOT / match["file"], place)


def build(source: Path, site: Path) -> int:
    """Make the site of what was written to `source`; return what Sphinx returns."""
    from sphinx.cmd.build import main as sphinx

    if site.exists():
        shutil.rmtree(site)
    options = [
        "-b",
        "html",
        "-n",
        "-W",
        "--keep-going",
        "-q",
        "-d",
        str(source.parent / "doctrees"),
    ]
    return int(sphinx([*options, str(source), str(site)]))


def complete_marks(site: Path) -> None:
    """Add to the pages of a site what they lack for those who hear them, or read on a phone."""
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for mark, completed in _ACCESSIBLE.items():
            text = text.replace(mark, completed)
        text = _CELL.sub(_with_breaks, text)
        path.write_text(text, encoding="utf-8")


def _with_breaks(cell: re.Match[str]) -> str:
    """Return a cell of a table in which a narrow line may end after each part of a name."""
    return _WORD.sub(lambda word: _PART.sub(r"\1<wbr>", word[0]), cell[0])


def main() -> int:
    """Build the site and check its links; return 0 if nothing is wrong."""
    from tools.check_links import problems

    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD
    source, site = folder / "source", folder / "html"
    write_source(source)
    status = build(source, site)
    if status:
        return status
    complete_marks(site)
    found = problems(site)
    print("\n".join(found) or f"{site / 'index.html'}: every link leads somewhere")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
