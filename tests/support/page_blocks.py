"""Blocks of code of the pages: what is fenced in a document, in order, and how each kind is run.

Python runs in one namespace a page, after all that stands before it; a line `value  # = expected`
is a claim, which is compared. A block that begins with the name of a file, as `# model.py` or
`/* solver.c */`, is also written to that file. Commands run in the same folder, and C is compiled
there. A block of text after `<!-- output -->` is what the block before it prints.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from symgrad.__main__ import main
from symgrad.frontend.nests import flatten
from tests.support.doc_examples import ResultChecker

_FENCE = re.compile(
    r"^(?P<shown><!-- output -->\n)?(?P<indent> *)```(?P<language>[\w{}]*)[^\n]*\n"
    r"(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"(?:# |/\* )(?P<name>[\w/]+\.(?:py|c))(?: \*/)?\n")
_CLAIM = re.compile(r"(?P<expression>\S.*\S|\S)\s+# = (?P<value>.+)")
_C_OPTIONS = ("-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, its line, and whether it is what another prints."""

    language: str
    text: str
    line: int
    is_output: bool


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in order, without their indentation."""
    found = []
    for match in _FENCE.finditer(text):
        lines = [line.removeprefix(match["indent"]) for line in match["text"].splitlines()]
        line = text.count("\n", 0, match.start()) + 1
        is_output = match["shown"] is not None
        found.append(Block(match["language"], "\n".join(lines) + "\n", line, is_output))
    return found


@dataclass
class PageRun:
    """Runs the blocks of one page, in `folder`; `names` are what Python blocks have defined."""

    page: str
    folder: Path
    names: dict[str, Any] = field(default_factory=dict)
    printed: str = ""

    def run(self, block: Block) -> None:
        """Run a block, or compare what was printed with it; raises what is wrong."""
        if block.is_output:
            if shutil.which("cc") is None:
                return  # it may be what a program of C prints
            same = ResultChecker().check_output(block.text, self.printed, 0)
            assert same, f"{self.page}:{block.line} is not what is printed:\n{self.printed}"
            return
        name = _FILE.match(block.text)
        if name is not None:
            path = self.folder / name["name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if block.language == "python":
                self._run_python(block)
            elif block.language == "sh":
                self._run_commands(block)
            elif block.language == "c":
                self._compile_c(block)
        self.printed = printed.getvalue()

    def _run_python(self, block: Block) -> None:
        lines = block.text.splitlines()
        for statement in ast.parse(block.text).body:
            claim = _CLAIM.fullmatch(lines[(statement.end_lineno or 1) - 1])
            line = block.line + (statement.lineno or 1)
            ast.increment_lineno(statement, block.line)  # as tracebacks show it
            if claim is None or not isinstance(statement, ast.Expr):
                exec(compile(ast.Module([statement], []), self.page, "exec"), self.names)
                continue
            code = compile(ast.Expression(statement.value), self.page, "eval")
            found, expected = eval(code, self.names), eval(claim["value"], self.names)
            assert _is_as_claimed(found, expected), (
                f"{self.page}:{line}: {claim['expression']} is {found}, not {expected}"
            )

    def _run_commands(self, block: Block) -> None:
        for line in block.text.splitlines():
            words = shlex.split(line, comments=True)
            if words:
                self._run_command(words, block)

    def _run_command(self, words: list[str], block: Block) -> None:
        if words[:3] == ["python", "-m", "symgrad"]:
            status = main(words[3:])
            assert status in (0, None), f"{self.page}:{block.line}: {words} ends with {status}"
        elif words[0] in ("python", "cc", "./main"):
            program = [sys.executable, *words[1:]] if words[0] == "python" else words
            if shutil.which("cc") is None and words[0] in ("cc", "./main"):
                return
            done = subprocess.run(
                program, cwd=self.folder, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{self.page}:{block.line}: {words}:\n{done.stderr}"
            sys.stdout.write(done.stdout)
        else:
            assert words[0] in ("pip", "make", "git"), f"{self.page}: who knows {words[0]}?"

    def _compile_c(self, block: Block) -> None:
        if shutil.which("cc") is None:
            return
        path = self.folder / f"block{block.line}.c"
        path.write_text(block.text, encoding="utf-8")
        command = ["cc", *_C_OPTIONS, "-c", str(path), "-o", str(path.with_suffix(".o"))]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{self.page}:{block.line}:\n{done.stderr}"


def _is_as_claimed(found: Any, expected: Any) -> bool:
    leaves, nest = flatten(found)
    wanted, nest_of_expected = flatten(expected)
    if nest != nest_of_expected:
        leaves, wanted = [found], [expected]
    return all(_are_equal(one, other) for one, other in zip(leaves, wanted, strict=True))


def _are_equal(found: Any, expected: Any) -> bool:
    if isinstance(expected, str | bool | type(None) | Mapping):
        return bool(found == expected)
    rtol = 1e-9 if np.asarray(found).dtype == np.float64 else 1e-5
    return bool(np.allclose(found, expected, rtol=rtol, atol=rtol / 10, equal_nan=True))
