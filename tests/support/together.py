"""Parametrization of tests by rows that take milliseconds: some rows are one test.

pytest takes longer to collect, run and report a test than such a row does. With `--apart` each row
is a test of its own, which `-k` finds by its name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

Test = Callable[..., Any]

# Set by `--apart`, before any test is collected.
apart = False


def together(
    argument: str,
    rows: Iterable[Any],
    *,
    ids: Callable[[Any], str] = str,
    at_once: int = 25,
) -> Callable[[Test], Any]:
    """Parametrize a test by `rows`, of which `at_once` are one test.

    All rows of a test run, whatever fails; what fails is raised as a group, with a note on each
    that says its row.
    """
    every = list(rows)
    if apart:
        marked: Callable[[Test], Any] = pytest.mark.parametrize(argument, every, ids=ids)
        return marked

    def decorate(test: Test) -> Any:
        @functools.wraps(test)
        def of_some(**given: Any) -> None:
            some = given.pop(argument)
            failures = list(_failures(some, ids, lambda row: test(**{argument: row}, **given)))
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(some)} rows", failures)

        parts = [every[start : start + at_once] for start in range(0, len(every), at_once)]
        names = [f"{ids(part[0])}..{ids(part[-1])}" for part in parts]
        return pytest.mark.parametrize(argument, parts, ids=names)(of_some)

    return decorate


def _failures(
    rows: Sequence[Any], ids: Callable[[Any], str], check: Callable[[Any], None]
) -> Iterator[Exception]:
    for row in rows:
        try:
            check(row)
        except Exception as failure:
            failure.add_note(f"of the row {ids(row)}")
            yield failure
