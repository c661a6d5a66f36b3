"""Examples that start MPI: those of the docstrings on one rank, the page of the docs on each.

Run by `python -m tests.distributed.examples docstrings` or `page`, under mpiexec.
"""

from __future__ import annotations

import doctest
import importlib
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import symgrad as sg
from tests.support.doc_examples import ResultChecker, examples_of, modules_with_examples
from tests.support.page_blocks import PageRun, blocks_of

PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"


def run_docstrings() -> None:
    """Run the examples of `sg.distributed`; raises AssertionError for one that fails."""
    runner = doctest.DocTestRunner(checker=ResultChecker(), verbose=False)
    for name in modules_with_examples():
        if name.startswith("symgrad.distributed."):
            for example in examples_of(importlib.import_module(name)):
                assert not runner.run(example).failed, example.name


def run_page() -> None:
    """Run the blocks of Python of the page in their order."""
    with TemporaryDirectory() as folder:
        page = PageRun("docs/distributed.md", Path(folder), {"__name__": "__main__"})
        for block in blocks_of(PAGE.read_text(encoding="utf-8")):
            if block.language == "python":
                page.run(block)
    sg.distributed.barrier(sg.distributed.world())
    sys.stdout.write(f"rank {sg.distributed.world().rank} has run the page\n")


if __name__ == "__main__":
    {"docstrings": run_docstrings, "page": run_page}[sys.argv[1]]()
