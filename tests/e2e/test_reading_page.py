"""`docs/reading.md` shows what its steps really give, and the tool that keeps it so works."""

import re
import shlex
from dataclasses import dataclass, field
from typing import Any

import pytest

from symgrad.__main__ import main
from symgrad.runtime.choices import STAGES
from tools.update_reading import (
    PAGE,
    ROOT,
    StaleExcerptError,
    difference,
    excerpts_of,
    given_text,
    reading_steps,
    renewed,
    stale,
)

TEXT = PAGE.read_text(encoding="utf-8")
INSPECTIONS = re.findall(r"^python -m symgrad (inspect .+)$", TEXT, re.MULTILINE)


def slow(command: str) -> Any:
    return pytest.param(command, marks=pytest.mark.slow)


SMALL_PAGE = """\
Prose.

<!-- step.ir("loops", "k0") -->
```
kernel k0
  load
...
  store
```

More prose.
"""


@dataclass
class FakeStep:
    """A step that has a text for each kernel and no more."""

    texts: dict[str, str]
    kernels: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.kernels = list(self.texts)

    def ir(self, stage: str, kernel: str) -> str:
        assert stage == "loops"
        return self.texts[kernel]


def messages(text: str, *others: str) -> list[str]:
    texts = {f"k{number}": text for number, text in enumerate((text, *others))}
    return list(stale(SMALL_PAGE, {"step": FakeStep(texts)}))


# ------------------------------------------------------------------------------------- the page


def test_the_excerpts_of_the_first_step_are_what_it_gives():
    """Those of the text that symgrad makes itself: what LLVM makes of it takes seconds."""
    # Late, since every worker collects this file: it needs scikit-learn, a second or two.
    from examples import digits_step

    step = digits_step.training()[0]
    excerpts = [e for e in excerpts_of(TEXT) if e.expression.startswith("step.")]
    excerpts = [e for e in excerpts if '"asm"' not in e.expression]
    assert len(excerpts) > 8
    for excerpt in excerpts:
        lines = given_text(excerpt.expression, {"step": step})
        where = f"line {excerpt.line}: {excerpt.expression}"
        hint = "`python tools/update_reading.py` writes it anew"
        assert difference(excerpt, lines) is None, f"{where}; {hint}"


@pytest.mark.slow
def test_the_excerpts_are_what_the_steps_give():
    differing = list(stale(TEXT, reading_steps()))
    assert not differing, "\n\n".join(
        [*differing, "`python tools/update_reading.py` writes them anew"]
    )


def test_every_block_of_the_page_is_an_excerpt_or_in_a_language():
    opened = TEXT.split("\n```")[1::2]
    plain = [block for block in opened if block.startswith("\n")]
    assert len(plain) == len(excerpts_of(TEXT)), "a block has no comment that says what gives it"


def test_the_page_shows_every_stage_but_one():
    shown = {
        stage for stage in STAGES for e in excerpts_of(TEXT) if f'ir("{stage}"' in e.expression
    }
    assert shown == set(STAGES) - {"llvm-opt"}


@pytest.mark.parametrize("command", [c if "--stage" in c else slow(c) for c in INSPECTIONS])
def test_the_commands_of_the_page_show_something(command, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    differs = "--diff" in command
    assert main(shlex.split(command)) == int(differs)
    assert len(capsys.readouterr().out.splitlines()) > 10


# ------------------------------------------------------------------------------------- the tool


def test_an_excerpt_is_found_around_what_it_leaves_out():
    assert messages("kernel k0\n  load\n  add\n  sqrt\n  store\n}\n") == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("kernel k0\n  load\n  add\n  end\n", "  store"),
        ("kernel k0\n  add\n  store\n", "kernel k0\n  load"),
        # It is there, and before the run it is to follow.
        ("  store\nkernel k0\n  load\n  add\n", "  store"),
        ("kernel k0\n  load\n  store\n", "  store"),  # nothing is left out
    ],
)
def test_the_run_that_differs_is_named(text, missing):
    (message,) = messages(text)
    assert message == f'reading.md:5: step.ir("loops", "k0") does not give, here,\n{missing}'


def test_the_kernel_that_gives_an_excerpt_now_is_named():
    (message,) = messages("kernel k1\n", "kernel k0\n  load\n  add\n  store\n")
    assert message.endswith('\nit is in step.ir("loops", "k1")')


def test_a_kernel_that_is_gone_is_told():
    (message,) = stale(SMALL_PAGE, {"step": FakeStep({})})
    assert "KeyError: 'k0'" in message


def test_runs_become_those_that_are_most_like_them_and_prose_stays():
    step = FakeStep({"k0": "// more\nkernel k0(in b0)\n  load 2\n  add\n  sqrt\n  store 3\n}\n"})
    new = renewed(SMALL_PAGE, {"step": step})
    changed = SMALL_PAGE.replace("kernel k0\n  load\n", "kernel k0(in b0)\n  load 2\n")
    assert new == changed.replace("  store\n", "  store 3\n")
    assert list(stale(new, {"step": step})) == []


def test_a_page_that_is_true_stays_as_it_is():
    step = FakeStep({"k0": "kernel k0\n  load\n  add\n  store\n  store\n"})
    assert renewed(SMALL_PAGE, {"step": step}) == SMALL_PAGE


def test_a_text_that_is_too_short_for_an_excerpt_is_refused():
    with pytest.raises(StaleExcerptError, match="too short: no 1 lines after 3"):
        renewed(SMALL_PAGE, {"step": FakeStep({"k0": "kernel k0\n  load\n"})})
