"""Measure the fast tests by mutation: they should fail when a token of the code is another.

    python tools/mutation_test.py --seed 9 --count 200

draws that many mutants (see `tools/mutants.py`) from the rules of gradients and from lowering,
gives each to the fast tests that run its line, the cheapest first, and prints those that nobody
noticed, and how many were noticed. A line that runs only when it is imported is given to all tests:
first to those of its row or function and to those that are named after it. `--budget` says after
how many seconds of tests a mutant has survived. A crash and a hang are failures.

Which tests run which line is recorded first, which takes as long as they do. Record and outcomes
are kept in `--cache`: a run that was stopped goes on where it was, and after a change of tests only
those that changed are recorded, and only mutants that survived are run again. With `--tests` and
files of tests, these alone are run and nothing is recorded or kept: for the one who writes them.
Nothing is written to the repository, since mutants live in copies.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # of a script it is the folder within

from tools.mutant_runs import Tests, run_anew, run_in_functions
from tools.mutants import Mutant, called_on_import, draw
from tools.tests_of_lines import (
    ROOT,
    Record,
    copy_of_repository,
    digest_of,
    fast_test_files,
    record,
)

TARGETS = (
    "symgrad/graph/ops/*.py",
    "symgrad/passes/gradients/*.py",
    "symgrad/codegen/lower/*.py",
    "symgrad/codegen/program/build.py",
)
_FIRST_SECONDS = 5.0  # of tests, in so many files, that run before those of the other files
_FIRST_FILES = 2


def targets() -> list[str]:
    """Return the files that mutants are made of."""
    files = (file for pattern in TARGETS for file in ROOT.glob(pattern))
    return sorted(file.relative_to(ROOT).as_posix() for file in files)


# -------------------------------------------------------------------------- which tests run


def tests_in_function(mutant: Mutant, known: Record, budget: float) -> Tests:
    """Return the tests that run the line of a mutant, the cheapest first."""
    # A line within a statement may have no code of its own.
    running = known.running(mutant.path, [mutant.line]) or known.running(
        mutant.path, _between(mutant.statement)
    )
    return _cheapest(known, budget, {test: 0 for test in running})


def tests_of_import(mutant: Mutant, known: Record, budget: float) -> Tests:
    """Return all tests, those first that run the row of a mutant or are named after it."""
    row = set(known.running(mutant.path, _between(mutant.block)))
    name = mutant.name.removesuffix("_op").strip("_")
    return _cheapest(known, budget, {t: t not in row and name not in t for t in known.tests})


def _cheapest(known: Record, budget: float, rank: dict[str, int]) -> Tests:
    seconds = dict(zip(known.tests, known.seconds, strict=True))
    ordered = sorted(rank, key=lambda test: (rank[test], seconds[test]))
    until = accumulate(seconds[test] for test in ordered)
    return {test: seconds[test] for test, end in zip(ordered, until, strict=True) if end <= budget}


def _between(lines: tuple[int, int]) -> range:
    return range(lines[0], lines[1] + 1)


def _batches(tests: Tests) -> list[Tests]:
    """Return a few tests of few files, which take long to import, and then all others."""
    until = accumulate(tests.values())
    early = [test for test, end in zip(tests, until, strict=True) if end <= _FIRST_SECONDS]
    files = [file for file, _ in Counter(map(_file_of, early)).most_common(_FIRST_FILES)]
    first = {test: tests[test] for test in early if _file_of(test) in files}
    others = {test: seconds for test, seconds in tests.items() if test not in first}
    return [batch for batch in (first, others) if batch]


def _file_of(test: str) -> str:
    return test.partition("::")[0]


# -------------------------------------------------------------------------------- outcomes


class Outcomes:
    """Which test noticed which mutant, kept in a file while they run."""

    def __init__(self, cache: Path) -> None:
        files = fast_test_files()
        self._tests = digest_of(*files)
        self._place = cache / f"outcomes-{digest_of('symgrad', 'tests')}.jsonl"
        self._place.touch()
        self._output = os.dup(2)  # a fork that runs tests has another

    def read(self, *, of_any_tests: bool = False) -> dict[str, str | None]:
        """Return the test that noticed each mutant, None if none of those that there are did."""
        kept = map(json.loads, self._place.read_text(encoding="utf-8").splitlines())
        return {
            key: test for key, test, tests in kept if test or of_any_tests or tests == self._tests
        }

    def add(self, mutant: Mutant, test: str | None) -> None:
        """Note that a test noticed a mutant, or that none did."""
        with self._place.open("a", encoding="utf-8") as file:
            file.write(json.dumps([mutant.key, test, self._tests]) + "\n")
        os.write(self._output, f"{mutant}: {test or 'survived'}\n".encode())


def run(mutants: Sequence[Mutant], known: Record, budget: float, copy: Path, to: Outcomes) -> None:
    """Run tests on mutants, in a copy of the repository."""
    work = [(mutant, tests_in_function(mutant, known, budget)) for mutant in mutants]
    called = {name for file in targets() for name in called_on_import((ROOT / file).read_bytes())}
    patched = [(m, tests) for m, tests in work if tests and m.name not in called]
    run_in_functions(copy, patched, to.add)
    done = to.read()
    for mutant, tests in work:
        if mutant.key in done:
            continue
        batches = _batches(tests or tests_of_import(mutant, known, budget))
        found = (run_anew(copy, mutant, _files_of(batch), batch) for batch in batches)
        to.add(mutant, next(filter(None, found), None))


def _files_of(tests: Tests) -> list[str]:
    return sorted(set(map(_file_of, tests)))


def _run_all(mutants: Sequence[Mutant], chosen: argparse.Namespace, folder: Path) -> Outcomes:
    chosen.cache.mkdir(parents=True, exist_ok=True)
    outcomes = Outcomes(chosen.cache)
    done = outcomes.read()
    left = [mutant for mutant in mutants if mutant.key not in done]
    if not left:
        return outcomes
    copy_of_repository(folder / "copy-0")
    known = record(folder / "copy-0", targets(), chosen.cache)

    def work(job: int) -> None:
        copy = folder / f"copy-{job}"
        if not copy.exists():
            copy_of_repository(copy)
        run(left[job :: chosen.jobs], known, chosen.budget, copy, outcomes)

    processes = [get_context("fork").Process(target=work, args=(j,)) for j in range(chosen.jobs)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return outcomes


# ------------------------------------------------------------------------ the command line


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw mutants, run tests on them and print what survived; return the exit code."""
    chosen = _parsed(arguments)
    mutants = draw(ROOT, targets(), chosen.seed, chosen.count)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        if chosen.tests:
            return _survivors_of(mutants, chosen, Path(folder))
        done = _run_all(mutants, chosen, Path(folder)).read()
    survivors = [mutant for mutant in mutants if done.get(mutant.key) is None]
    _print(survivors)
    noticed = len(mutants) - len(survivors)
    print(f"{noticed} of {len(mutants)} mutants were noticed: {noticed / len(mutants):.1%}")
    return 0


def _survivors_of(mutants: Sequence[Mutant], chosen: argparse.Namespace, folder: Path) -> int:
    """Run some tests on the mutants that all tests let pass."""
    done = Outcomes(chosen.cache).read(of_any_tests=True)
    left = [mutant for mutant in mutants if done.get(mutant.key, "") is None]
    copy = copy_of_repository(folder / "copy")
    survivors = [m for m in left if run_anew(copy, m, chosen.tests) is None]
    _print(survivors)
    print(f"{len(left) - len(survivors)} of {len(left)} survivors are noticed by these tests")
    return 0


def _print(mutants: Sequence[Mutant]) -> None:
    for mutant in mutants:
        line = (ROOT / mutant.path).read_text(encoding="utf-8").splitlines()[mutant.line - 1]
        print(f"survived: {mutant}\n    {line.strip()}")


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "symgrad-mutants"
    parser = argparse.ArgumentParser(description="Measure the fast tests by mutation.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200, help="how many mutants")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tests a mutant")
    parser.add_argument("--cache", type=Path, default=cache, help="folder of records and outcomes")
    parser.add_argument("--tests", nargs="+", default=[], help="run these files on survivors only")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
