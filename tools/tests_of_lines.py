"""Record which fast tests run which lines of the package, and run chosen tests in a fork.

Both happen in a copy of the repository, in a fork of a process that has imported what tests need
and nothing of symgrad. What a file of tests runs is kept in a file that is named after all it
depends on, so each file of tests is run once for each state of the package. It is used by
`tools/mutation_test.py`, and is no measure of tests: one that runs a line may notice nothing of it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage
import hypothesis
import llvmlite.binding
import networkx
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
# The first read the text of files, in which one token that differs is no fault; the others run
# whole programs, mostly in processes of their own, and take longest.
LEFT_OUT = ("tests/house", "tests/e2e")
OUTPUT = "output-of-tests"
IMPORTED_BEFORE_THE_FORK = (coverage, hypothesis, llvmlite.binding, networkx, np, pytest)

_UNNEEDED = (".*_cache", ".git", ".venv", ".hypothesis", "__pycache__", "build", "dist")
OPTIONS = (
    *("-q", "-x", "-p", "no:cacheprovider"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # of hypothesis, which is imported
)
_MEMORY = 8 << 30  # bytes of address space: a mutant may ask for any number


Bits = int  # a set of tests: bit i is test i


@dataclass(frozen=True, slots=True)
class Record:
    """Tests, the seconds that each took, and the tests that run each line of a file."""

    tests: list[str]
    seconds: list[float]
    lines: dict[str, dict[int, Bits]]

    def running(self, path: str, lines: Iterable[int]) -> list[str]:
        """Return the tests that run one of the lines of a file."""
        bits = 0
        for line in lines:
            bits |= self.lines.get(path, {}).get(line, 0)
        digits = reversed(f"{bits:b}")
        return [test for test, bit in zip(self.tests, digits, strict=False) if bit == "1"]


def copy_of_repository(folder: Path) -> Path:
    """Copy what tests need into a new folder, and return it."""
    return shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*_UNNEEDED), symlinks=True)


def fast_test_files() -> list[str]:
    """Return the files of tests that are run, by their places in the repository."""
    places = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    return sorted(place for place in places if not place.startswith(LEFT_OUT))


def digest_of(*places: str) -> str:
    """Return a name for what files and folders of the repository hold, files of tests left out."""
    code = hashlib.sha256()
    for place in places:
        path = ROOT / place
        for file in sorted(path.rglob("*.*")) if path.is_dir() else [path]:
            is_read = file.is_file() and file.suffix != ".pyc"
            if is_read and (file == path or not file.name.startswith("test_")):
                code.update(file.relative_to(ROOT).as_posix().encode() + file.read_bytes())
    return code.hexdigest()[:20]


# ------------------------------------------------------------------------------- in a fork


def forked(copy: Path, work: Callable[[], int]) -> int:
    """Do `work` in a fork, in the copy; return its status as `os.wait` has it."""
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        _end_what_is_left(child)
        return status
    code = 3
    try:
        _enter(copy)
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _enter(copy: Path) -> None:
    os.setsid()
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(copy / OUTPUT, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    os.environ["PYTHONPATH"] = str(copy)  # for the processes that tests start


def _end_what_is_left(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:  # it left nothing
        return


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


# ------------------------------------------------------------------------------- recording


class _Recorder:
    """A plugin of pytest that tells coverage which test runs, and keeps what it ran, by files."""

    def __init__(self, copy: Path, files: Sequence[str], places: Mapping[str, Path]) -> None:
        self._files = {file: str(copy / file) for file in files}
        self._places = places
        self._seconds: dict[str, float] = {}
        self._lines = self._started()

    def _started(self) -> coverage.Coverage:
        watched = [*self._files.values()]
        lines = coverage.Coverage(data_file=None, config_file=False, include=watched)
        lines.set_option("run:disable_warnings", ["no-data-collected"])  # some test nothing here
        lines.start()
        return lines

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        self._lines.switch_context(item.nodeid)
        start = _cpu_seconds()
        self._seconds[item.nodeid] = 0.0
        result = yield
        self._lines.switch_context("")
        if item.nodeid in self._seconds:
            self._seconds[item.nodeid] = round(_cpu_seconds() - start, 4)
        file = item.nodeid.partition("::")[0]
        if nextitem is None or nextitem.nodeid.partition("::")[0] != file:
            self._lines.stop()
            self._keep(self._places[file])
            self._seconds = {}
            self._lines = self._started()
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._seconds.pop(report.nodeid, None)

    def _keep(self, place: Path) -> None:
        numbers = {test: i for i, test in enumerate(self._seconds)}
        found = self._lines.get_data()
        lines: dict[str, dict[int, str]] = {}
        for file, path in self._files.items():
            for line, tests in found.contexts_by_lineno(path).items():
                bits = sum(1 << numbers[test] for test in tests if test in numbers)
                lines.setdefault(file, {})[line] = f"{bits:x}"
        kept = json.dumps({"seconds": self._seconds, "lines": lines})
        unfinished = place.with_suffix(".partial")
        unfinished.write_bytes(gzip.compress(kept.encode()))
        unfinished.replace(place)


def record(copy: Path, files: Sequence[str], cache: Path) -> Record:
    """Return which fast tests run which lines of `files`; run those of which it is not known."""
    common = digest_of("symgrad", "tests")
    places = {file: cache / f"lines-{common}-{digest_of(file)}.gz" for file in fast_test_files()}
    missing = [file for file, place in places.items() if not place.exists()]
    if missing:
        cache.mkdir(parents=True, exist_ok=True)
        forked(copy, lambda: _record(copy, files, missing, places))
    whole = Record([], [], {})
    for place in places.values():
        if place.exists():  # it has tests that are not slow
            _add(whole, json.loads(gzip.decompress(place.read_bytes())))
    assert whole.tests, f"no test was recorded: see {copy / OUTPUT}"
    return whole


def _record(
    copy: Path, files: Sequence[str], tests: Sequence[str], places: Mapping[str, Path]
) -> int:
    recorder = _Recorder(copy, files, places)
    options = [option for option in OPTIONS if option != "-x"]
    return int(pytest.main([*options, *tests], plugins=[recorder]))


def _add(whole: Record, kept: Any) -> None:
    first = len(whole.tests)
    whole.tests.extend(kept["seconds"])
    whole.seconds.extend(kept["seconds"].values())
    for file, lines in kept["lines"].items():
        of_file = whole.lines.setdefault(file, {})
        for line, bits in lines.items():
            of_file[int(line)] = of_file.get(int(line), 0) | int(bits, 16) << first
