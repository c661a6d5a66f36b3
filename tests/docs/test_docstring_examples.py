"""The examples of the docstrings run, and give what is printed behind them."""

from __future__ import annotations

import doctest
import importlib
import shutil
from pathlib import Path

import pytest

from symgrad.config import override
from tests.support.doc_examples import ResultChecker, examples_of, modules_with_examples

# Whose examples link a library.
_NEEDS_CC = {"symgrad.runtime.library"}
# Whose examples start MPI, in a process of their own: tests/distributed/test_examples.py.
_STARTS_MPI = "symgrad.distributed."


@pytest.mark.parametrize(
    "name", [name for name in modules_with_examples() if not name.startswith(_STARTS_MPI)]
)
def test_the_examples_of_a_module_give_what_they_say(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if name in _NEEDS_CC and shutil.which("cc") is None:
        pytest.skip("there is no C compiler to link with")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # what an example writes goes with it
    runner = doctest.DocTestRunner(checker=ResultChecker(), verbose=False)
    report: list[str] = []
    attempted = failed = 0
    with override(verify=False):  # what passes give is verified by thousands of other programs
        for example in examples_of(importlib.import_module(name)):
            results = runner.run(example, out=report.append)
            attempted += results.attempted
            failed += results.failed
    assert attempted, "what looks like an example is none"
    assert not failed, "".join(report)


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ("array([0.1, 2. ])\n", "array([0.10000001, 2.])\n"),
        ("array([1.000e+03])\n", "array([1000.0004])\n"),
        ("f: ... is none\n", "f: f32[2] is none\n"),
    ],
)
def test_what_differs_in_rounding_is_as_printed(want: str, got: str) -> None:
    assert ResultChecker().check_output(want, got, 0)


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ("array([0.1])\n", "array([0.2])\n"),
        ("array([1, 2])\n", "array([1, 3])\n"),
        ("array([1.])\n", "array([1., 1.])\n"),
        ("array([1.])\n", "array([1.], dtype=float32)\n"),
    ],
)
def test_another_result_is_not(want: str, got: str) -> None:
    assert not ResultChecker().check_output(want, got, 0)
