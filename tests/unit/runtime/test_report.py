"""The report: one page, with everything on it, that needs nothing else."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.language import root
from symgrad.runtime.report.drawings import BOX, draw_arena, draw_calls
from symgrad.runtime.stages import STAGES
from tests.support.refusals import assert_refused


class _Page(HTMLParser):
    """What a test asks of a page: text and kernels of each stage, links, kernels in pictures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stages: dict[str, str] = {}
        self.kernels: dict[str, set[str]] = {}
        self.links: list[str] = []
        self._where = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [v for k, v in attrs if k in ("src", "href") and v]
        self.links += re.findall(r"url\((.*?)\)", given.get("style") or "")
        self._where = given.get("data-stage") or given.get("id") or self._where
        found = self.kernels.setdefault(self._where, set())
        found.update((given.get("data-k") or "").split())

    def handle_endtag(self, tag: str) -> None:
        if tag in ("template", "table", "svg"):
            self._where = ""

    def handle_data(self, data: str) -> None:
        self.stages[self._where] = self.stages.get(self._where, "") + data


def a_step() -> tuple[sg.Step, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    x = sg.placeholder((8, 16), name="x")
    w = sg.variable(rng.normal(size=(16, 4)).astype(np.float32), name="w")
    loss = sg.sum(sg.square(sg.tanh(x @ w)))
    step = sg.compile([x], loss, sg.optim.Adam(0.1).minimize(loss), name="train")
    return step, [rng.normal(size=(8, 16)).astype(np.float32)]


def test_a_page_shows_every_kernel_at_every_stage(tmp_path: Path) -> None:
    step, arrays = a_step()
    step.report(tmp_path / "r.html", *arrays, repeat=2)
    page = _Page((tmp_path / "r.html").read_text())
    names = {record.name for record in step.kernels}
    assert len(names) > 2
    for place in (*STAGES, "kernels", "calls", "profile"):
        assert page.kernels[place] == names, place
    assert page.kernels["arena"] <= names
    for stage in STAGES:
        assert page.stages[stage].split() == step.ir(stage).split()


def test_a_page_has_no_links(tmp_path: Path) -> None:
    step, arrays = a_step()
    step.report(tmp_path / "r.html", *arrays, repeat=2)
    text = (tmp_path / "r.html").read_text()
    assert _Page(text).links == []
    assert "http" not in text
    assert "@import" not in text


def test_names_of_the_user_are_text_and_not_markup(tmp_path: Path) -> None:
    x = sg.placeholder((4,), name="x")
    sg.compile([x], sg.tanh(x), name="a<b>&c").report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "a<b>" not in text
    assert "<h1>a&lt;b&gt;&amp;c</h1>" in text


def test_without_arrays_there_is_no_profile_and_the_state_stays(tmp_path: Path) -> None:
    step, arrays = a_step()
    before = [u.variable.value for u in step.graph.updates]
    step.report(tmp_path / "a.html")
    step.report(tmp_path / "b.html", *arrays, repeat=2)
    assert "Not measured" in (tmp_path / "a.html").read_text()
    assert "Not measured" not in (tmp_path / "b.html").read_text()
    for update, value in zip(step.graph.updates, before, strict=True):
        np.testing.assert_array_equal(update.variable.value, value)


def test_unknown_sizes_are_asked_for(tmp_path: Path) -> None:
    x = sg.placeholder((None,), name="x")
    step = sg.compile([x], sg.tanh(x))
    with pytest.raises(sg.CompileError, match="not known yet"):
        step.report(tmp_path / "r.html")
    step(np.zeros(3, np.float32))
    step.report(tmp_path / "r.html")
    assert (tmp_path / "r.html").exists()


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step, _ = a_step()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert_refused(lambda: step.report(tmp_path / "r.html"), sg.CompileError, """
        report: the page is made with the library jinja2, which is not installed
          --> <here>
          hint: pip install 'symgrad[report]'
    """)  # fmt: skip
    assert not list(tmp_path.iterdir())


# --------------------------------------------------------------------------------- the pictures


def test_arrows_go_from_what_writes_to_what_reads_and_to_the_right():
    x = sg.placeholder((64, 64))
    step = sg.compile([x], sg.tanh(x @ x) @ x)
    picture = draw_calls(step.executable.program.launches)
    first, second = picture.boxes
    width, height = BOX
    assert (first.kernel, second.kernel) == ("k0", "k1")
    assert picture.arrows == ((first.x + width, height // 2, second.x, height // 2),)
    assert second.x > first.x + width


def test_boxes_do_not_overlap():
    step, _ = a_step()
    boxes = draw_calls(step.executable.program.launches).boxes
    assert len({(b.x, b.y) for b in boxes}) == len(boxes) == len(step.kernels)


def test_bars_that_are_alive_at_once_do_not_overlap():
    step, _ = a_step()
    arena = draw_arena(step.executable.program)
    assert len(arena.bars) == len(step.memory.buffers) > 1
    slack = 1e-2  # pixels: coordinates are rounded
    for i, a in enumerate(arena.bars):
        assert 0 <= a.x <= a.x + a.width <= arena.width + slack
        assert 0 <= a.y <= a.y + a.height <= arena.height + slack
        for b in arena.bars[i + 1 :]:
            apart = (
                a.x + a.width <= b.x + slack
                or b.x + b.width <= a.x + slack
                or a.y + a.height <= b.y + slack
                or b.y + b.height <= a.y + slack
            )
            assert apart


def test_a_bar_belongs_to_the_kernels_that_touch_it():
    step, _ = a_step()
    program = step.executable.program
    for bar, buffer in zip(draw_arena(program).bars, program.lifetimes, strict=True):
        assert set(bar.kernels) == {
            call.kernel.name for call in program.launches if buffer in map(root, call.arguments)
        }
