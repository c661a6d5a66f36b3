"""The examples of `sg.distributed` give what they say, in docstrings and on the page."""

from __future__ import annotations

import subprocess
import sys

from tests.support.mpi import ROOT, run_ranks


def test_the_examples_of_docstrings_give_what_they_say() -> None:
    ended = run_ranks("openmpi", 1, ["-m", "tests.distributed.examples", "docstrings"])
    assert ended.status == 0, ended.output + ended.errors


def test_the_blocks_of_the_page_run_on_each_rank() -> None:
    ended = run_ranks("openmpi", 2, ["-m", "tests.distributed.examples", "page"])
    assert ended.status == 0, ended.errors
    assert ended.output.count("has run the page") == 2


def test_importing_symgrad_starts_no_mpi() -> None:
    program = "import sys, symgrad; assert not any('mpi4py' in name for name in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert done.returncode == 0
