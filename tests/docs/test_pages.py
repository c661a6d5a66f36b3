"""Every block of code of the pages runs, in the order of the page, in a folder that is empty.

What takes part is `docs/`, `README.md` and `CONTRIBUTING.md`; a new page is found by itself. How
each kind of block is run is in `tests/support/page_blocks.py`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from symgrad.__main__ import main
from symgrad.config import override
from symgrad.runtime import precompile
from tests.support.page_blocks import Block, PageRun, blocks_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
}
LANGUAGES = {"python", "sh", "c", "text", "{toctree}"}
# Whose plain blocks are excerpts, which tests/e2e/test_reading_page.py compares, as it runs the
# commands that are there: it is read in a checkout, with the examples.
EXCERPTS = {"docs/reading.md"}
# What several processes run: tests/distributed/test_examples.py.
RUN_BY_RANKS = {"docs/distributed.md"}
# Commands of maintainers, which take minutes: tests/house checks that what they name exists.
UNRUN = {*RUN_BY_RANKS, "docs/testing.md", "docs/architecture.md", "CONTRIBUTING.md"}
RUN = [
    (page, index)
    for page, text in PAGES.items()
    if page not in UNRUN
    for index, block in enumerate(blocks_of(text))
    if block.language in ("python", "c")
    or block.is_output
    or (block.language == "sh" and page not in EXCERPTS)
]

# What docs/caching.md precompiles takes minutes: of its samples each 101st, which shares no
# factor with how many forms and sizes there are.
_STRIDE = 101


@cache
def _few_samples() -> list[precompile.Sample]:
    return [*precompile.samples()][::_STRIDE]


_runs: dict[str, tuple[PageRun, list[int]]] = {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


def _run_until(page: str, last: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of a page up to one, those that have not been run yet."""
    if page not in _runs:
        place = folder / page.replace("/", "_").removesuffix(".md")
        place.mkdir()
        _runs[page] = PageRun(page, place, {"__name__": "__main__"}), []
    run, done = _runs[page]
    monkeypatch.chdir(run.folder)
    monkeypatch.syspath_prepend(str(run.folder))
    monkeypatch.setenv("PYTHONPATH", f"{run.folder}:{ROOT}")
    for index, block in enumerate(blocks_of(PAGES[page])[: last + 1]):
        if index not in done and (page, index) in RUN:
            done.append(index)
            run.run(block)


@pytest.mark.parametrize(
    ("page", "index"),
    [pytest.param(*each, marks=[pytest.mark.slow] if each[0] in EXCERPTS else []) for each in RUN],
    ids=[f"{page}-{index}" for page, index in RUN],
)
def test_a_block_of_a_page_runs(
    page: str, index: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = _few_samples()
    monkeypatch.setattr(precompile, "samples", lambda: iter(few))
    with override(verify=False, cache=True, cache_dir=str(folder / "cache")):
        _run_until(page, index, folder, monkeypatch)


def test_the_samples_that_a_page_precompiles_are_of_all_sizes_and_forms():
    every, few = [*precompile.samples()], _few_samples()
    for place in range(3):
        assert {s.sizes[place] for s in few} == {s.sizes[place] for s in every}
    forms = {(s.is_transposed, s.follows) for s in every}
    assert {(s.is_transposed, s.follows) for s in few} == forms


@pytest.mark.slow
def test_the_command_of_the_page_precompiles_all_samples(tmp_path, capsys):
    with override(verify=False, cache=True, cache_dir=str(tmp_path)):
        assert main(["cache", "precompile"]) == 0
        assert "functions of products" in capsys.readouterr().out


def test_every_block_says_what_it_is():
    unknown = [
        f"{page}:{block.line}: {block.language or 'nothing'}"
        for page, text in PAGES.items()
        for block in blocks_of(text)
        if block.language not in LANGUAGES and not (page in EXCERPTS and not block.language)
    ]
    assert not unknown, f"blocks in none of {sorted(LANGUAGES)}:\n" + "\n".join(unknown)


def test_code_is_fenced():
    """What is only indented would be in no language, and no test would run it."""
    indented = []
    for page, text in PAGES.items():
        bare = re.sub(r"^( *)```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
        found = re.search(r"\n\n {4,}\S.*", bare)
        if found:
            indented.append(f"{page}: {found[0].strip()}")
    assert not indented, "\n".join(indented)


# ------------------------------------------------------------------------- how blocks are read


def test_blocks_are_found_with_their_lines_and_without_indentation():
    page = "Words.\n\n```python\nx = 1\n```\n\n- one\n\n  ```sh\n  python -m symgrad info\n  ```\n"
    assert blocks_of(page) == [
        Block("python", "x = 1\n", 3, False),
        Block("sh", "python -m symgrad info\n", 9, False),
    ]


def test_a_claim_that_does_not_hold_is_told(tmp_path):
    run = PageRun("page.md", tmp_path)
    run.run(Block("python", "x = 2\nx + 1  # = 3\n", 1, False))
    with pytest.raises(AssertionError, match=r"page\.md:10: x is 2, not 3"):
        run.run(Block("python", "x  # = 3\n", 9, False))


def test_what_is_printed_is_compared(tmp_path):
    run = PageRun("page.md", tmp_path)
    run.run(Block("python", "print(0.1 + 0.2)\n", 1, False))
    run.run(Block("text", "0.3\n", 5, True))
    with pytest.raises(AssertionError, match="is not what is printed"):
        run.run(Block("text", "0.4\n", 5, True))


def test_a_block_with_the_name_of_a_file_is_written_there(tmp_path):
    run = PageRun("page.md", tmp_path)
    run.run(Block("python", "# model.py\nx = 2\n", 1, False))
    assert (tmp_path / "model.py").read_text(encoding="utf-8") == "# model.py\nx = 2\n"


def test_c_that_does_not_compile_is_told(tmp_path):
    with pytest.raises(AssertionError, match=r"page\.md:3"):
        PageRun("page.md", tmp_path).run(Block("c", "int main(void) { return x; }\n", 3, False))
