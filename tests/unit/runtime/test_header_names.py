"""Names of any characters: the header compiles without a warning, as C and as C++."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import symgrad as sg
from symgrad.runtime.aot_header import print_header
from tests.support.c_programs import needs
from tests.unit.codegen.test_abi import plan

_NAMES = (
    "/*", "*/", "a/*/b", "/*/", "??/", "?" * 7, "??/\n", "a\\\n b", "a\\", "line\nbreak", "\r",
    "\\*", "*\\", "größe", "\ud800", "\u202e", "\u2066x", "\x00x", "\u2028", "//", '"', "%s", "#",
    "linux", "unix", "NULL", "asm", "xor", "typeof", "int64_t", "size_t", "errno", "_Bool", "__x",
)  # fmt: skip
_DIALECTS = [
    pytest.param("cc", "c11"),
    pytest.param("cc", "gnu11"),
    pytest.param("c++", "c++11", marks=needs("c++")),
    pytest.param("c++", "gnu++20", marks=needs("c++")),
]


def _graph(names: tuple[str, ...]) -> sg.Graph:
    inputs = [sg.placeholder((2,), name=name) for name in names]
    variables = [sg.variable(np.ones(2, np.float32), name=name) for name in names]
    total = sg.constant([0.0, 0.0])
    for tensor in (*inputs, *variables):
        total = total + tensor
    return sg.Graph([total], inputs)


def _compile(header: Path, compiler: str, standard: str) -> None:
    kind = "c++" if "+" in standard else "c"
    warnings = ("-Wall", "-Wextra", "-Werror", "-pedantic")
    command = [compiler, f"-std={standard}", *warnings, "-fsyntax-only", "-x", kind, "-"]
    program = f'#include "{header}"\nint main(void) {{ return 0; }}\n'
    done = subprocess.run(command, input=program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("compiler", "standard"), _DIALECTS)
def test_a_header_with_strange_names_compiles_without_a_warning(compiler, standard, tmp_path):
    header = tmp_path / "lib.h"
    header.write_text(print_header(plan(_graph(_NAMES))), encoding="utf-8")
    _compile(header, compiler, standard)


@settings(max_examples=10)
@given(st.lists(st.text(st.sampled_from("/*?\\\n\r \"'(x")), min_size=1, max_size=20))
def test_a_header_with_any_names_compiles_without_a_warning(tmp_path_factory, names):
    header = tmp_path_factory.getbasetemp() / "names.h"
    header.write_text(print_header(plan(_graph(tuple(names)))), encoding="utf-8")
    _compile(header, "cc", "c11")


def test_a_library_with_strange_names_is_loaded_and_runs(tmp_path):
    graph = _graph(_NAMES)
    sg.compile(list(graph.inputs), graph.outputs[0], name="step").export(tmp_path / "net")
    library = sg.load(tmp_path / "net")
    assert list(library.variables)[:3] == list(_NAMES[:3])
    (found,) = {float(v) for v in library(*[np.ones(2, np.float32)] * len(_NAMES))}
    assert found == 2 * len(_NAMES)
