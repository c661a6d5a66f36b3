"""Rows that are one test are each tried, and what fails says of which row it is."""

from __future__ import annotations

import pytest

from tests.support import together


def test_all_rows_run_and_each_failure_has_its_row(monkeypatch):
    monkeypatch.setattr(together, "apart", False)
    tried = []

    @together.together("row", range(5), ids="number {}".format, at_once=3)
    def check(row: int, offset: int) -> None:
        tried.append(row)
        assert row + offset != 11
        assert row + offset != 12

    (mark,) = check.pytestmark
    assert mark.args == ("row", [[0, 1, 2], [3, 4]])
    assert mark.kwargs["ids"] == ["number 0..number 2", "number 3..number 4"]
    with pytest.raises(ExceptionGroup, match="2 of 3 rows") as caught:
        check(row=[0, 1, 2], offset=10)
    assert tried == [0, 1, 2]
    notes = [failure.__notes__ for failure in caught.value.exceptions]
    assert notes == [["of the row number 1"], ["of the row number 2"]]
    check(row=[3, 4], offset=10)


def test_apart_each_row_is_a_test(monkeypatch):
    monkeypatch.setattr(together, "apart", True)

    @together.together("row", range(3))
    def check(row: int) -> None:
        pass

    (mark,) = check.pytestmark
    assert mark.args == ("row", [0, 1, 2])
