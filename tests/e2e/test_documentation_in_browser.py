"""The site of the documentation in a browser: accessibility, width, scripts, without a network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.browser import CHROMIUM, Page, Scheme, axe_violations, open_browser

ROOT = Path(__file__).parents[2]
WIDTHS = (1400, 420)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
# An entry, a guide, a page of the reference, and one that a script fills.
PAGES = ("index.html", "guides/train.html", "reference/elementwise.html", "search.html")
# What is wider than its place takes the focus, once the page has been laid out.
_IS_LAID_OUT = (
    "[...document.querySelectorAll('article pre')]"
    ".every((p) => p.scrollWidth <= p.clientWidth || p.tabIndex === 0)"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(find_spec("sphinx") is None, reason="sphinx is not installed"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "tools/build_docs.py", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with open_browser() as page:
        yield page


@pytest.mark.skipif(find_spec("axe_core_python") is None, reason="axe is not installed")
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_violation_in_a_page_of_the_documentation(
    browser: Page, site: Path, name: str
) -> None:
    for width in WIDTHS:
        for scheme in SCHEMES:
            browser.resize(width)
            browser.colour(scheme)
            browser.open(site / name)
            browser.wait_for(_IS_LAID_OUT)
            assert axe_violations(browser) == [], (width, scheme)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            assert browser.errors == []
