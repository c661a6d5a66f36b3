"""What every test shares: profiles of hypothesis, the marker `isa`, golden files, workers.

A golden file `tests/golden/**/*.sg` holds cases separated by lines `// -----`. A case is the text
of a graph, a kernel or a program, the passes to run on it and what to find in the text of what
results:

    // RUN: opt --passes=cse
    // CHECK: tanh
    // CHECK-NOT: tanh
    graph @f(%x: f32[4]) -> f32[4] {
      ...

All other lines that start with `//` are comments. Kernels are scheduled for x86-64-v3, with
`--threads=2` for so many threads. With `--share-bodies`, what is written equal in the bodies of
loops is the same (`tests/support/shared_bodies.py`). Tables of cases and strategies are not here
but in `tests/support/`.
"""

from __future__ import annotations

import gc
import io
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

# Read when symgrad is imported, which nothing here has done yet.
os.environ.setdefault("SYMGRAD_VERIFY", "1")
# What is tested is the compiler, not what an earlier run of the tests has left in files; tests of
# the cache have folders of their own.
os.environ.setdefault("SYMGRAD_CACHE", "0")
# Threads that wait for work sleep: tests are rarely alone on a machine, and a thread that keeps its
# core while it waits keeps it from the one it waits for.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# `ci` gives the same examples on each run; `explore` looks for new ones, and what it finds becomes
# a row in a table. Chosen with --hypothesis-profile.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("ci")

_SEPARATOR = re.compile(r"//\s*-----\s*")
_RUN = re.compile(
    r"//\s*RUN: opt(?: --passes=(?P<passes>[\w.,-]+))?(?: --threads=(?P<threads>\d+))?"
    r"(?P<shares> --share-bodies)?\s*"
)
_CHECK_LIKE = re.compile(r"//\s*CHECK")
_CHECK = re.compile(
    r"//\s*CHECK(-(DAG|COUNT-\d+|NOT|EMPTY|NEXT|SAME|LABEL))?(\{LITERAL\})?:(?P<pattern>.*)"
)


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One case of a golden file; `first_line` counts from 1."""

    path: Path
    first_line: int
    passes: tuple[str, ...]
    threads: int
    shares_bodies: bool
    text: str
    checks: str


class GoldenMismatchError(Exception):
    """What is printed is not what the case's CHECK lines say."""


class GoldenFile(pytest.File):
    """Collects the cases of one `.sg` file."""

    def collect(self) -> Iterator[GoldenItem]:
        lines = self.path.read_text(encoding="utf-8").splitlines()
        starts = [0] + [i + 1 for i, line in enumerate(lines) if _SEPARATOR.fullmatch(line)]
        ends = [start - 1 for start in starts[1:]] + [len(lines)]
        for start, end in zip(starts, ends, strict=True):
            case = _parse_case(self.path, start + 1, lines[start:end])
            yield GoldenItem.from_parent(self, name=f"line_{case.first_line}", case=case)


class GoldenItem(pytest.Item):
    """Runs the passes of one case and matches what they make of its text."""

    def __init__(self, *, case: GoldenCase, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.case = case

    def runtest(self) -> None:
        # Imported late, so that a broken compiler fails the cases and not the collection.
        from symgrad.codegen.schedule.parallelize import Threads
        from symgrad.codegen.schedule.passes import Machine
        from symgrad.codegen.target import target_named
        from symgrad.single_passes import parse_level, print_level, run_passes
        from tests.support.shared_bodies import with_shared_bodies

        machine = Machine(target_named("x86-64-v3"), Threads(self.case.threads))
        value = parse_level(self.case.text)
        if self.case.shares_bodies:
            value = with_shared_bodies(value)
        text = print_level(run_passes(value, self.case.passes, machine))
        complaint = match_checks(self.case, text)
        if complaint:
            raise GoldenMismatchError(f"{complaint}\nThe whole output:\n{text}")

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        if isinstance(excinfo.value, GoldenMismatchError):
            return str(excinfo.value)
        # What pytest did before it called `runtest` is of no interest.
        return str(excinfo.getrepr(tbfilter=lambda failure: failure.traceback.cut(path=__file__)))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.case.first_line - 1, f"{self.path.name}, {self.name}"


def match_checks(case: GoldenCase, text: str) -> str:
    """Match `text` against the CHECK lines of `case`; return the matcher's complaint, or ''."""
    options = Options(match_filename=str(case.path))
    # The checks are preceded by nothing of the file, so the parser is told where they stand.
    parser = Parser(
        options,
        io.StringIO(case.checks),
        *pattern_for_opts(options),
        line_no=case.first_line - 1,
    )
    matcher = Matcher(options, FInput("output", text), parser)
    matcher.stderr = io.StringIO()
    failed = matcher.run() != 0
    complaint = matcher.stderr.getvalue()
    assert bool(complaint) == failed, f"filecheck failed without a word, or the reverse: {case}"
    return complaint


def _parse_case(path: Path, first_line: int, lines: list[str]) -> GoldenCase:
    """Split a case into passes, text and checks; refuse a case that would test nothing."""
    where = f"{path}:{first_line}"
    stripped = [line.strip() for line in lines]
    runs = [match for line in stripped if (match := _RUN.fullmatch(line))]
    if len(runs) != 1:
        raise pytest.Collector.CollectError(
            f"{where}: expected one line `// RUN: opt --passes=a,b` in the case, found {len(runs)}"
        )
    checks = [line for line in stripped if _CHECK_LIKE.match(line)]
    if not checks:
        raise pytest.Collector.CollectError(f"{where}: the case has no CHECK line")
    for check in checks:
        # The matcher takes a misspelt directive for a comment and passes.
        if not _CHECK.fullmatch(check):
            raise pytest.Collector.CollectError(f"{where}: not a directive of filecheck: {check}")
    return GoldenCase(
        path=path,
        first_line=first_line,
        passes=tuple((runs[0]["passes"] or "").split(",")) if runs[0]["passes"] else (),
        threads=int(runs[0]["threads"] or 1),
        shares_bodies=runs[0]["shares"] is not None,
        # Blank lines in place of comments: the parser's line numbers stay those of the case.
        text="\n".join("" if line.strip().startswith("//") else line for line in lines) + "\n",
        checks="\n".join(line if _CHECK_LIKE.match(line) else "" for line in stripped) + "\n",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take the `.sg` files below `tests/golden/` for files of tests."""
    golden = Path(__file__).parent / "golden"
    if file_path.suffix == ".sg" and file_path.is_relative_to(golden):
        return GoldenFile.from_parent(parent, path=file_path)
    return None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `tests/support/together.py` and `tests/support/compiled_kernels.py`."""
    parser.addoption("--apart", action="store_true", help="make a test of each row of a table")
    parser.addoption(
        "--compile-anew", action="store_true", help="compile also kernels that were compiled before"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Leave the collector of garbage off while tests are collected: all that is made then stays."""
    from tests.support import together

    together.apart = config.getoption("apart")
    # Not in setup.cfg: a class named there is imported before the variables above are set.
    config.addinivalue_line("filterwarnings", "ignore::symgrad.errors.PromotionWarning")
    gc.disable()


@pytest.fixture(autouse=True)
def emitted_anew() -> None:
    """Have each test emit its products: templates of others may have numbers that were patched."""
    if (alike := sys.modules.get("symgrad.codegen.llvm.alike_products")) is not None:
        alike._alike.cache_clear()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the objects of kernels, and take what was imported and collected for lasting.

    The collector of garbage would look through it each time, a quarter of a second, to find none.
    It looks through what tests make less often than it would by itself: that is mostly a graph or
    a module, which is still being built.
    """
    if not session.config.getoption("compile_anew"):
        from symgrad.codegen.native import machine_code
        from tests.support.compiled_kernels import CompiledKernels

        patch = pytest.MonkeyPatch()
        patch.setattr(machine_code, "compile_module", CompiledKernels().images)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked `isa(name)` whose instructions this CPU does not have."""
    if not any(item.get_closest_marker("isa") for item in items):
        return
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    lacking = {
        item
        for item in items
        for marker in item.iter_markers("isa")
        if not features.get(marker.args[0], False)
    }
    items[:] = [item for item in items if item not in lacking]
    config.hook.pytest_deselected(items=sorted(lacking, key=lambda item: item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one worker after another have a file, and one of them all programs of several ranks.

    xdist hands out files with few tests last. Those of `tests/distributed/` are such files, so two
    programs would run at once in the end, and ranks that wait for others keep their cores busy.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    scheduling = LoadFileScheduling(config, log)
    file_of = scheduling._split_scope

    def room_of(nodeid: str) -> str:
        return "ranks" if nodeid.startswith("tests/distributed/") else str(file_of(nodeid))

    scheduling._split_scope = room_of
    return scheduling
