"""The report of the digits step in a browser: offline, what is chosen is marked in every part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from tests.support.browser import CHROMIUM, Page, Scheme, axe_violations, open_browser

WIDTHS = (1400, 420)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def digits() -> sg.Step:
    # Imported late: not every process that collects tests should wait for scikit-learn.
    from examples.digits import BATCH, SEED, make_parameters, network

    parameters = make_parameters(np.random.default_rng(SEED))
    x, y = sg.placeholder((BATCH, 64), name="x"), sg.placeholder((BATCH,), "int64", name="y")
    loss = sg.nn.cross_entropy(network(x, parameters), y)
    return sg.compile([x, y], loss, updates=sg.optim.Adam(lr=0.001).minimize(loss), name="train")


@pytest.fixture(scope="module")
def path(digits: sg.Step, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from examples.digits import BATCH, load_split

    scans, _, labels, _ = load_split()
    path = tmp_path_factory.mktemp("report") / "digits.html"
    digits.report(path, scans[:BATCH], labels[:BATCH], repeat=3)
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with open_browser() as page:
        yield page


@pytest.fixture
def page(browser: Page, path: Path) -> Page:
    """Return the report as it is when it is opened, with its stages and its graph on it."""
    browser.resize(1400)
    browser.colour("light")
    show(browser, path)
    return browser


def show(browser: Page, path: Path, fragment: str = "") -> None:
    browser.open(path, fragment)
    for part, filled in (("panes", "#panes .part"), ("drawing", "#drawing svg")):
        browser.evaluate(f"document.getElementById('{part}').scrollIntoView()")
        browser.wait_for(f"document.querySelector('{filled}')")


def pane(number: int) -> str:
    return f"document.querySelectorAll('.pane')[{number}]"


def text_of(page: Page, number: int) -> list[str]:
    """Return the words in a pane."""
    parts = f"[...{pane(number)}.querySelectorAll('.part')].map((p) => p.textContent)"
    words: str = page.evaluate(f"{parts}.join('\\n')")
    return words.split()


def lit(page: Page, number: int) -> list[str]:
    """Return the texts of the parts that are marked in a pane: graph, loops or assembly."""
    script = f"[...{pane(number)}.querySelectorAll('.part.lit')].map((p) => p.textContent)"
    found: list[str] = page.evaluate(script)
    return found


def click(page: Page, element: str) -> None:
    page.evaluate(f"{element}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")


def type_into(page: Page, element: str, text: str) -> None:
    page.evaluate(f"{element}.value = {json.dumps(text)}")
    page.evaluate(f"{element}.dispatchEvent(new Event('input', {{bubbles: true}}))")


def chosen_calls(page: Page) -> list[int]:
    found: list[int] = page.evaluate("[...chosen].sort((a, b) => a - b)")
    return found


def part_with(text: str) -> str:
    """Return the line of the graph, in the first pane, that has some text."""
    find = f"(p) => p.textContent.includes({json.dumps(text)})"
    return f"[...{pane(0)}.querySelectorAll('.part')].find({find})"


def test_every_stage_is_shown_and_nothing_goes_wrong(digits: sg.Step, page: Page) -> None:
    for number, stage in enumerate(("graph", "loops", "asm")):
        page.wait_for(f"{pane(number)}.querySelector('.part')")
        assert text_of(page, number) == digits.ir(stage).split()
    assert page.errors == []


def test_choosing_an_op_marks_its_calls_and_no_others_of_its_line(
    digits: sg.Step, page: Page
) -> None:
    # The two hidden layers are built by one line.
    click(page, part_with("%0 = einsum"))
    (first,) = chosen_calls(page)
    assert [text for text in lit(page, 0) if "%0 = einsum" in text]
    kernel = digits.kernels[first].name
    assert [text for text in lit(page, 1) if f"kernel @{kernel}(" in text]
    assert [text for text in lit(page, 2) if f"{kernel}:" in text]
    click(page, part_with("%9 = einsum"))
    (second,) = chosen_calls(page)
    assert second != first
    assert not [text for text in lit(page, 0) if "%0 = einsum" in text]


def test_choosing_it_again_or_escape_clears_it(page: Page) -> None:
    click(page, part_with(" = exp "))
    assert chosen_calls(page)
    assert page.evaluate("document.querySelector('#chosen').hidden") is False
    click(page, part_with(" = exp "))
    assert chosen_calls(page) == []
    assert page.evaluate("document.querySelectorAll('.lit').length") == 0


def test_a_line_of_the_source_marks_what_it_became(digits: sg.Step, page: Page) -> None:
    click(page, "document.querySelector('#source button.cost')")
    calls = chosen_calls(page)
    named = page.evaluate("document.querySelector('#chosen span').textContent")
    page.wait_for("document.querySelector('#chosen span').textContent")
    assert calls
    marked = "[...document.querySelectorAll('details.lit')].map((d) => d.dataset.kernel)"
    assert set(page.evaluate(marked)) == {digits.kernels[call].name for call in calls}
    assert isinstance(named, str)


def test_a_link_to_a_kernel_opens_with_it_chosen(
    digits: sg.Step, browser: Page, path: Path
) -> None:
    name = digits.kernels[1].name
    show(browser, path, f"#{name}")
    browser.wait_for("chosen.size")
    assert chosen_calls(browser) == [
        number for number, record in enumerate(digits.kernels) if record.name == name
    ]
    # Each pane has scrolled to what is chosen.
    for number in range(3):
        inside = (
            f"(() => {{ const box = {pane(number)}.querySelector('.text').getBoundingClientRect();"
            f" const part = {pane(number)}.querySelector('.part.lit').getBoundingClientRect();"
            " return part.top < box.bottom && part.bottom > box.top; })()"
        )
        browser.wait_for(inside)


def test_a_stage_is_searched(digits: sg.Step, page: Page) -> None:
    type_into(page, f"{pane(1)}.querySelector('input')", "fold")
    status = page.evaluate(f"{pane(1)}.querySelector('.found').textContent")
    assert status == f"1 of {digits.ir('loops').count('fold')}"
    type_into(page, f"{pane(1)}.querySelector('input')", "no such text")
    assert page.evaluate(f"{pane(1)}.querySelector('.found').textContent") == "not found"


def test_a_pane_shows_another_stage(digits: sg.Step, page: Page) -> None:
    page.evaluate(f"{pane(0)}.querySelector('select').value = 'optimized'")
    page.evaluate(f"{pane(0)}.querySelector('select').dispatchEvent(new Event('change'))")
    page.wait_for(f"{pane(0)}.querySelector('.text').dataset.stage === 'optimized'")
    assert text_of(page, 0) == digits.ir("optimized").split()


def test_the_border_of_panes_moves_with_the_arrow_keys(page: Page) -> None:
    width = f"{pane(0)}.getBoundingClientRect().width"
    before = page.evaluate(width)
    press = "new KeyboardEvent('keydown', {key: 'ArrowRight'})"
    page.evaluate(f"document.querySelector('.split').dispatchEvent({press})")
    assert page.evaluate(width) == pytest.approx(before + 24, abs=1)


def test_scopes_open_and_close(page: Page) -> None:
    count = "document.querySelectorAll('#drawing .op').length"
    click(page, "document.getElementById('close-all')")
    assert page.evaluate(count) == 0
    names = page.evaluate("[...document.querySelectorAll('#drawing text')].map((t) => t.innerHTML)")
    assert {"layer0", "layer1", "logits", "gradient: layer0", "Adam"} <= set(names)
    click(page, "document.getElementById('open-all')")
    assert page.evaluate(count) > 100


def test_an_op_is_found_in_the_graph_and_zoomed_to(page: Page) -> None:
    type_into(page, "document.getElementById('find-op')", "exp")
    assert page.evaluate("document.querySelectorAll('#drawing .hit').length") == 1
    before = page.evaluate("view.scale")
    click(page, "document.querySelector('[data-zoom=\"1.4\"]')")
    assert page.evaluate("view.scale") == pytest.approx(1.4 * before)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_page(page: Page, width: int) -> None:
    page.resize(width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown = page.evaluate(
        "[...document.querySelectorAll('.pane')].filter((p) => p.offsetWidth).length"
    )
    assert shown == (3 if width > 1000 else 1)


def test_print_has_what_is_read_and_not_what_is_used(page: Page) -> None:
    page.colour("light", media="print")
    hidden = "(id) => getComputedStyle(document.getElementById(id)).display === 'none'"
    ids = ["overview", "source", "graph", "kernels", "stages", "memory"]
    found = page.evaluate(f"{json.dumps(ids)}.filter({hidden})")
    assert found == ["graph", "stages"]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("axe_core_python") is None, reason="axe is not installed")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_no_violation(page: Page, width: int, scheme: Scheme) -> None:
    page.resize(width)
    page.colour(scheme)
    click(page, "document.querySelector('#source button.cost')")
    page.wait_for("document.querySelector('#chosen span').textContent")
    click(page, "document.querySelector('#kernels summary')")
    assert axe_violations(page) == []
