"""The report: one page, with everything on it, that needs nothing else."""

from __future__ import annotations

import base64
import json
import re
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.language import root
from symgrad.runtime.choices import STAGES
from symgrad.runtime.report.memory_chart import HEIGHT, chart_memory
from symgrad.runtime.report.packing import ranges
from tests.support.refusals import assert_refused


class _Page(HTMLParser):
    """What a test asks of a page: what is packed in it, links, and the calls of elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.packed: dict[str, Any] = {}
        self.calls: dict[str, set[int]] = {}
        self.links: list[str] = []
        self.text = ""
        self._section, self._packed = "", ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [v for k, v in attrs if k in ("src", "href") and v and v[0] != "#"]
        self.links += re.findall(r"url\((.*?)\)", given.get("style") or "")
        if tag in ("section", "figure"):
            self._section = given.get("id") or ""
        self._packed = given.get("data-packed") or ""
        self.calls.setdefault(self._section, set()).update(numbers(given.get("data-c") or ""))

    def handle_data(self, data: str) -> None:
        if self._packed:
            letters = base64.b64decode(data.strip())
            self.packed[self._packed] = json.loads(zlib.decompress(letters))
            self._packed = ""
        else:
            self.text += data


def numbers(text: str) -> set[int]:
    found: set[int] = set()
    for span in text.split():
        first, _, last = span.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def a_step() -> tuple[sg.Step, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    x = sg.placeholder((8, 16), name="x")
    w = sg.variable(rng.normal(size=(16, 4)).astype(np.float32), name="w")
    loss = sg.sum(sg.square(sg.tanh(x @ w)))
    step = sg.compile([x], loss, sg.optim.Adam(0.1).minimize(loss), name="train", opt_level=1)
    return step, [rng.normal(size=(8, 16)).astype(np.float32)]


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[sg.Step, str]:
    step, arrays = a_step()
    path = tmp_path_factory.mktemp("report") / "r.html"
    step.report(path, *arrays, repeat=2)
    return step, path.read_text()


def test_a_page_shows_every_call_in_every_part(reported: tuple[sg.Step, str]) -> None:
    step, text = reported
    page = _Page(text)
    every = set(range(len(step.kernels)))
    assert len(every) > 2
    for part in ("source", "kernels"):
        assert page.calls[part] == every, part
    assert page.calls["arena"] <= every
    assert [told[0] for told in page.packed["told"]] == [record.name for record in step.kernels]
    for stage in STAGES:
        parts = page.packed[f"stage-{stage}"]
        assert "".join(part for part, _, _ in parts) == step.ir(stage)
        assert set().union(*(numbers(calls) for _, calls, _ in parts)) == every, stage


def test_the_boxes_of_the_graph_are_its_ops(reported: tuple[sg.Step, str]) -> None:
    step, text = reported
    pending, ops = [_Page(text).packed["graph"]], []
    while pending:
        box = pending.pop()
        pending += box.get("b", ())
        if box["k"] != "g":
            ops.append(box)
    assert len(ops) == sum(node.op != "constant" for node in step.graph.nodes)
    (product,) = (box for box in ops if box["o"] == "einsum" and not box["g"])
    (call,) = numbers(product["c"])
    assert "einsum" in step.kernels[call].ops


def test_a_page_has_no_links(reported: tuple[sg.Step, str]) -> None:
    _, text = reported
    assert _Page(text).links == []
    # The one address is the name of the language of drawings.
    assert re.findall(r"https?://[^\"' ]*", text) == ["http://www.w3.org/2000/svg"]
    assert "@import" not in text


def test_the_first_screen_says_how_long_how_large_and_where(reported: tuple[sg.Step, str]) -> None:
    step, text = reported
    first = text.partition('id="overview"')[2].partition('id="source"')[0]
    for fact in ("Time per step", "Peak memory", "Share of the limit", "CPU", "versions", "date"):
        assert fact in first
    assert re.search(r"<b>[\d.]+ (ns|µs|ms|s)</b>", first)
    assert f"{len({r.name for r in step.kernels})} kernels" in first


def test_the_source_has_the_lines_that_built_the_program(reported: tuple[sg.Step, str]) -> None:
    _, text = reported
    source = _Page(text.partition('id="source"')[2].partition('id="graph"')[0]).text
    assert "loss = sg.sum(sg.square(sg.tanh(x @ w)))" in source


def test_of_source_that_cannot_be_read_the_lines_are_numbered(tmp_path: Path) -> None:
    names: dict[str, Any] = {"sg": sg}
    text = "x = sg.placeholder((4,))\n\n\nstep = sg.compile([x], sg.tanh(x))"
    exec(compile(text, "<typed in>", "exec"), names)
    names["step"].report(tmp_path / "r.html")
    source = (tmp_path / "r.html").read_text().partition('id="source"')[2]
    assert "&lt;typed in&gt;" in source
    assert '<span class="no">4</span>' in source


def test_equal_kernels_are_one_entry_with_a_count(tmp_path: Path) -> None:
    x = sg.placeholder((64, 64), name="x")
    a, b = (sg.variable(np.eye(64, dtype=np.float32)) for _ in range(2))
    step = sg.compile([x], sg.tanh(sg.tanh(x @ a) @ b), opt_level=1)
    assert [record.name for record in step.kernels] == ["k0", "k0"]
    step.report(tmp_path / "r.html", np.eye(64, dtype=np.float32), repeat=2)
    text = (tmp_path / "r.html").read_text()
    assert text.count('data-kernel="k0"') == 1
    assert "&times;2" in text


def test_names_of_the_user_are_text_and_not_markup(tmp_path: Path) -> None:
    x = sg.placeholder((4,), name="</script><b>")
    sg.compile([x], sg.tanh(x), name="a<b>&c").report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "<b>&c" not in text
    assert "</script><b>" not in text
    assert "<h1>a&lt;b&gt;&amp;c</h1>" in text


def test_without_arrays_there_are_no_times_and_the_state_stays(tmp_path: Path) -> None:
    step, arrays = a_step()
    before = [u.variable.value for u in step.graph.updates]
    step.report(tmp_path / "a.html")
    step.report(tmp_path / "b.html", *arrays, repeat=2)
    assert "not measured" in (tmp_path / "a.html").read_text()
    assert "not measured" not in (tmp_path / "b.html").read_text()
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


def test_a_path_that_is_none_is_refused_before_the_step_is_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measure(*_: object) -> None:
        pytest.fail("the step was run")

    monkeypatch.setattr("symgrad.runtime.report.page.measure", measure)
    path: Any = 2.5
    with pytest.raises(sg.DTypeError, match="path"):
        sg.compile([], sg.ones(3)).report(path)


def test_numbers_in_a_row_are_written_as_their_ends():
    assert ranges([7, 0, 2, 1, 9, 10, 2]) == "0-2 7 9-10"
    assert ranges([]) == ""
    assert numbers("0-2 7 9-10") == {0, 1, 2, 7, 9, 10}


# ------------------------------------------------------------------------------- the memory plan


def test_bars_that_are_alive_at_once_do_not_overlap():
    step, _ = a_step()
    chart = chart_memory(step.executable.program, None)
    assert len(chart.bars) == len(step.memory.buffers) > 1
    slack = 1e-1  # coordinates are rounded
    for i, a in enumerate(chart.bars):
        assert 0 <= a.x <= a.x + a.width <= chart.instructions
        assert -slack <= a.y <= a.y + a.height <= HEIGHT + slack
        for b in chart.bars[i + 1 :]:
            apart = (
                a.x + a.width <= b.x
                or b.x + b.width <= a.x
                or a.y + a.height <= b.y + slack
                or b.y + b.height <= a.y + slack
            )
            assert apart


def test_a_bar_belongs_to_the_calls_that_touch_it():
    step, _ = a_step()
    program = step.executable.program
    for bar, buffer in zip(chart_memory(program, None).bars, program.lifetimes, strict=True):
        assert bar.calls == tuple(
            number
            for number, call in enumerate(program.native_calls)
            if buffer in map(root, call.arguments)
        )


def test_the_most_that_is_in_use_is_what_is_alive_at_once():
    step, _ = a_step()
    program = step.executable.program
    ends = range(max(last for _, last in program.lifetimes.values()) + 1)
    alive = (
        sum(b.type.nbytes for b, (first, last) in program.lifetimes.items() if first <= i <= last)
        for i in ends
    )
    assert chart_memory(program, None).peak == max(alive) <= program.arena_bytes


def test_times_of_instructions_add_up_to_the_step():
    x, n = sg.placeholder((64, 64), name="x"), sg.placeholder((), "int64", name="n")
    last = sg.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, sg.tanh(y @ x)), (0, x))[1]
    step = sg.compile([x, n], last + x @ x, opt_level=1)
    measured = step.profile(np.eye(64, dtype=np.float32), 3, repeat=1)
    chart = chart_memory(step.executable.program, measured)
    texts = [text for _, text in chart.across]
    assert texts[0] == "0"
    assert all(re.fullmatch(r"\d+ · [\d.]+ (ns|µs|ms)", text) for text in texts[1:])
