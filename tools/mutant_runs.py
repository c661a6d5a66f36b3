"""Run tests on mutants, each in a process of its own, until one of them fails, crashes or hangs.

A mutant of what is in a function is put into a fork of a process that has imported the package and
collected the tests: there it is new code for functions that exist. A mutant of what runs when a
module is imported needs the module, and so the package and the tests, imported anew.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tools.mutants import Mutant
from tools.tests_of_lines import OPTIONS, forked

_SECONDS_OF_COLLECTION = 600
_LEAST_SECONDS = 60  # and twenty times what a test took, before it counts as hanging
_FAILED, _NOT_RUN = 1, 3  # exit codes

Tests = Mapping[str, float]  # in the order in which they run, with the seconds that each takes
Work = tuple[Mutant, Tests]
Report = Callable[[Mutant, str | None], None]  # told which test noticed a mutant, None if none did


def _limit_seconds(seconds: float) -> None:
    """End this process after some seconds, by a signal that native code cannot put off."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(round(seconds))


class _OneByOne:
    """A plugin of pytest that runs chosen tests in their order, and notes which one runs."""

    def __init__(self, copy: Path, tests: Tests | None) -> None:
        self._tests = tests
        self._note = _note(copy)
        self.has_failed = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._tests is not None:
            by_name = {item.nodeid: item for item in items}
            items[:] = [by_name[test] for test in self._tests if test in by_name]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._note.write_text(nodeid, encoding="utf-8")
        _limit_seconds(_LEAST_SECONDS + 20 * (self._tests or {}).get(nodeid, 1.0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.has_failed |= report.failed


def _note(copy: Path) -> Path:
    return copy / "running-test"


# ------------------------------------------------------------------- mutants of functions


def run_in_functions(copy: Path, work: Sequence[Work], report: Report) -> None:
    """Run tests on mutants of functions, and report on those of which this can be said."""
    files = sorted({test.partition("::")[0] for _, tests in work for test in tests})

    def serve() -> int:
        return int(pytest.main([*OPTIONS, *files], plugins=[_Server(copy, work, report)]))

    if work:
        forked(copy, serve)


class _Server:
    """A plugin of pytest that, in place of running tests, runs some of them for each mutant."""

    def __init__(self, copy: Path, work: Sequence[Work], report: Report) -> None:
        self._copy = copy
        self._work = work
        self._report = report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for mutant, tests in self._work:
            chosen = [items[test] for test in tests if test in items]
            status = forked(self._copy, partial(self._run, mutant, chosen, tests))
            code = os.waitstatus_to_exitcode(status)
            if code != _NOT_RUN:
                self._report(mutant, None if code == 0 else _note(self._copy).read_text())
        return True

    def _run(self, mutant: Mutant, items: Sequence[pytest.Item], tests: Tests) -> int:
        if not put_in_place(mutant, self._copy):
            return _NOT_RUN
        plugin = _OneByOne(self._copy, tests)
        manager = items[0].config.pluginmanager
        manager.register(plugin)
        for item, following in zip(items, (*items[1:], None), strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if plugin.has_failed:
                return _FAILED
        return 0


def put_in_place(mutant: Mutant, copy: Path) -> bool:
    """Give the functions of a file the code of its mutant; return whether that is all.

    It is not where no function has the code that differs, as after a decorator made another of it.
    """
    path = copy / mutant.path
    source = path.read_bytes()
    changed = changed_functions(
        compile(source, str(path), "exec"), compile(mutant.applied(source), str(path), "exec")
    )
    if changed is None:
        return False
    gc.unfreeze()  # what tests have frozen is not listed
    is_found = False
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename == str(path):
            old = function.__code__
            new = changed.get(_place(old))
            if new is None:
                continue
            if new.co_freevars != old.co_freevars:
                return False
            is_found |= new != old
            function.__code__ = new
    return is_found


def _place(code: CodeType) -> object:
    return code.co_qualname, tuple(code.co_positions())


def changed_functions(old: CodeType, new: CodeType) -> dict[object, CodeType] | None:
    """Return the new code of the functions of a module; None if other code differs, too."""
    changed: dict[object, CodeType] = {}
    pairs = [(old, new)]
    while pairs:
        before, after = pairs.pop()
        inner, inner_new = _nested(before), _nested(after)
        if len(inner) != len(inner_new):
            return None
        pairs += zip(inner, inner_new, strict=True)
        if before.co_flags & CO_OPTIMIZED:  # of a function; those of classes and modules are not
            changed[_place(before)] = after
        elif _own(before) != _own(after):
            return None
    return changed


def _nested(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _own(code: CodeType) -> object:
    constants = [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, code.co_names, constants


# --------------------------------------------------------------------- mutants of modules


def run_anew(
    copy: Path, mutant: Mutant, files: Sequence[str], tests: Tests | None = None
) -> str | None:
    """Run the tests of files, or some of them, on a mutant; return the one that noticed it."""
    file = copy / mutant.path
    source = file.read_bytes()
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()  # it is recognized by a time, which may be that of the mutant
    file.write_bytes(mutant.applied(source))
    note = _note(copy)
    note.write_text("while tests were collected", encoding="utf-8")

    def work() -> int:
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        _limit_seconds(_SECONDS_OF_COLLECTION)
        return int(pytest.main([*OPTIONS, *files], plugins=[_OneByOne(copy, tests)]))

    try:
        return None if forked(copy, work) == 0 else note.read_text(encoding="utf-8")
    finally:
        file.write_bytes(source)
