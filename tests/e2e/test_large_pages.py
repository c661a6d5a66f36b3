"""The reports of a transformer and of an LSTM in a browser: size, width, accessibility."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from tests.support.browser import CHROMIUM, Page, Scheme, axe_violations, open_browser

WIDTHS = (1400, 420)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
with_axe = pytest.mark.skipif(find_spec("axe_core_python") is None, reason="axe is not installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with open_browser() as page:
        yield page


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from examples import gpt

    rng = np.random.default_rng(1)
    alphabet, train, _ = gpt.read_text()
    weights = gpt.make_weights(rng, len(alphabet))
    text = sg.placeholder((gpt.BATCH, gpt.CONTEXT + 1), "int64", name="text")
    loss = sg.nn.cross_entropy(gpt.build_logits(weights, text[:, :-1]), text[:, 1:])
    step = sg.compile([text], loss, sg.optim.AdamW(1e-3).minimize(loss, weights), name="gpt")
    path = tmp_path_factory.mktemp("report") / "gpt.html"
    step.report(path, train[np.arange(gpt.BATCH)[:, None] + gpt.INSIDE], repeat=3)
    return path


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from examples import char_lstm

    alphabet, train, _ = char_lstm.read_text()
    weights = char_lstm.make_weights(np.random.default_rng(1), len(alphabet))
    text = sg.placeholder((char_lstm.LENGTH + 1, char_lstm.BATCH), "int64", name="text")
    loss = char_lstm.build_loss(weights, text)
    step = sg.compile([text], loss, sg.optim.Adam(0.003).minimize(loss), name="lstm")
    path = tmp_path_factory.mktemp("report") / "lstm.html"
    begin = np.arange(char_lstm.BATCH)
    step.report(path, train[np.arange(char_lstm.LENGTH + 1)[:, None] + begin], repeat=3)
    return path


def open_whole(browser: Page, path: Path) -> None:
    """Open a report and wait for the parts that are made when they come into view."""
    browser.open(path)
    for part, filled in (("panes", "#panes .part"), ("drawing", "#drawing svg")):
        browser.evaluate(f"document.getElementById('{part}').scrollIntoView()")
        browser.wait_for(f"document.querySelector('{filled}')")


def test_the_page_of_a_transformer_is_small(browser: Page, transformer: Path) -> None:
    assert transformer.stat().st_size < 3_000_000
    browser.resize(1400)
    open_whole(browser, transformer)
    names = browser.evaluate("graph.b.map((box) => box.n)")
    assert {"embedding", "block0", "block1", "logits", "gradient: block1"} <= set(names)
    assert browser.errors == []


@with_axe
@pytest.mark.parametrize("report", ["transformer", "recurrent"])
def test_axe_finds_no_violation_in_a_large_report(
    browser: Page, report: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(report)
    for width in WIDTHS:
        for scheme in SCHEMES:
            browser.resize(width)
            browser.colour(scheme)
            open_whole(browser, path)
            assert axe_violations(browser) == [], (width, scheme)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
