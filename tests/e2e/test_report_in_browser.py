"""The report of the digits step in a browser: offline, choosing an op lights up its kernel."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
OFFLINE = ("--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking")
WINDOW = (1500, 1000)
LIT = (255, 233, 168)  # the colour of what is chosen, --lit in the style of the page

pytestmark = pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def digits() -> sg.Step:
    # Imported late: not every process that collects tests should wait for scikit-learn.
    from examples.digits import BATCH, SEED, make_parameters, network

    parameters = make_parameters(np.random.default_rng(SEED))
    x, y = sg.placeholder((BATCH, 64), name="x"), sg.placeholder((BATCH,), "int64", name="y")
    loss = sg.nn.cross_entropy(network(x, parameters), y)
    return sg.compile([x, y], loss, updates=sg.optim.Adam(lr=0.001).minimize(loss), name="train")


@pytest.fixture(scope="module")
def page(digits: sg.Step, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from examples.digits import BATCH, load_split

    scans, _, labels, _ = load_split()
    path = tmp_path_factory.mktemp("report") / "digits.html"
    digits.report(path, scans[:BATCH], labels[:BATCH], repeat=3)
    return path


def browse(path: Path, *options: str, fragment: str = "") -> str:
    """Load the page without a network; return what the browser prints."""
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", *OFFLINE, *options]
    command += [f"--user-data-dir={path.parent / 'profile'}", f"file://{path}{fragment}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def after_click(path: Path, element: str) -> str:
    """Return the page as it is after a click on the element that JavaScript finds."""
    clicked = path.with_name("clicked.html")
    script = f"<script>{element}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))</script>"
    clicked.write_text(path.read_text().replace("</body>", f"{script}</body>"))
    return browse(clicked, "--dump-dom")


def panes(dom: str) -> list[str]:
    """Return what the panes show: graph, loops and assembly."""
    return re.findall(r'<pre class="scroll">(.*?)</pre>', dom, re.DOTALL)


def lit(html: str) -> list[tuple[set[str], str]]:
    """Return the kernels and the text of each part that is lit."""
    found = re.findall(
        r'<span class="part lit" data-k="([^"]*)"[^>]*>(.*?)</span>', html, re.DOTALL
    )
    return [(set(kernels.split()), unescape(text)) for kernels, text in found]


def test_the_page_is_small(page: Path) -> None:
    assert page.stat().st_size < 3_000_000


@pytest.mark.slow
def test_every_kernel_is_shown(digits: sg.Step, page: Path) -> None:
    graph, loops, assembly = panes(browse(page, "--dump-dom"))
    assert "%x: f32[32, 64]" in graph
    names = [record.name for record in digits.kernels]
    assert len(names) > 10
    for name in names:
        assert f"kernel @{name}(" in loops
        assert f"\n{name}:\n" in assembly
        assert re.search(rf'data-k="(?:[^"]* )?{name}(?: [^"]*)?"', graph), f"{name} has no op"


@pytest.mark.slow
def test_choosing_an_op_lights_up_its_kernel_at_every_stage(digits: sg.Step, page: Path) -> None:
    record = next(r for r in digits.kernels if {"log", "exp"} & set(r.ops))
    op = "exp" if "exp" in record.ops else "log"
    find = (
        f"[...document.querySelectorAll('.part')].find((p) => p.textContent.includes(' = {op} '))"
    )
    graph, loops, assembly = panes(after_click(page, find))
    assert any(f" = {op} " in text for _, text in lit(graph))
    assert [text for _, text in lit(loops) if f"kernel @{record.name}(" in text]
    assert [text for _, text in lit(assembly) if f"\n{record.name}:\n" in text]
    for _, text in lit(loops):
        assert text.startswith("  call") or f"@{record.name}(" in text


def test_choosing_a_kernel_lights_up_its_ops_and_nothing_else(digits: sg.Step, page: Path) -> None:
    record = next(r for r in digits.kernels if "max" in r.ops)
    row = f"document.querySelector('#kernels [data-k={record.name}]')"
    graph, _, _ = panes(after_click(page, row))
    chosen = lit(graph)
    assert any(" = max " in text for _, text in chosen)
    assert all(record.name in kernels for kernels, _ in chosen)
    assert not any(" = log " in text for _, text in chosen)


@pytest.mark.slow
def test_a_link_to_a_kernel_opens_with_it_chosen_and_the_picture_shows_it(page: Path) -> None:
    from matplotlib.image import imread

    picture = page.with_name("page.png")
    size = ",".join(map(str, WINDOW))
    browse(page, f"--window-size={size}", f"--screenshot={picture}", fragment="#k1")
    pixels = np.round(imread(picture)[..., :3] * 255).astype(int)
    assert pixels.shape == (WINDOW[1], WINDOW[0], 3)
    is_lit = (pixels == LIT).all(axis=-1)
    assert is_lit.sum() > 1000
    # In each of the three panes: they scroll to what is chosen.
    assert all(third.any() for third in np.array_split(is_lit, 3, axis=1))
    plain = page.with_name("plain.png")
    browse(page, f"--window-size={size}", f"--screenshot={plain}")
    assert not (np.round(imread(plain)[..., :3] * 255) == LIT).all(axis=-1).any()
