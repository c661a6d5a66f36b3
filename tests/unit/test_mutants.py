"""Mutants are one token of code, of a kind that is listed; one stays the same if its line does."""

import gc
import importlib.util

import pytest

from tools.mutant_runs import changed_functions, put_in_place
from tools.mutants import called_on_import, draw, mutants_of

FUNCTION = "def f(a, b):\n    {}\n"


def changes(source: str) -> set[tuple[str, str]]:
    return {(mutant.before, mutant.after) for mutant in mutants_of("a.py", source.encode())}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("a + (b)", {("+", "-")}),
        ("a  # a * comment\n    a *= b", {("*=", "//=")}),
        ("(a) \\\n    <= b", {("<=", "<")}),
        ("a is not b", {("is not", "is")}),
        ("a not  in b", {("not  in", "in")}),
        ("a and b or b", {("and", "or"), ("or", "and")}),
        ("a < b != a", {("<", "<="), ("!=", "==")}),
        ("-a", {("-", "")}),
        ("not a", {("not", "")}),
        ("a[1]", {("1", "2")}),
        ("a = 0.5", {("0.5", "1.5")}),
        ("a = True", {("True", "False")}),
        ("a('lt')", {("'lt'", "'gt'")}),
        ("a('text', '')", {("'text'", "'text_'"), ("''", "'_'")}),
        ("f(a, b)", {("a", "b"), ("b", "a")}),
        ("f(a, a, c=b)", set()),
        ("c = a, b", {("a", "b"), ("b", "a")}),
        ("sin(a.inputs)", {("sin", "cos"), ("inputs", "outputs")}),
        ("return a", {("return", "")}),
        ("if a: return", {("", "not "), ("return", "pass")}),
        ("while f(): break", {("", "not "), ("break", "continue")}),
        ("[c for c in a if c]", {("", "not ")}),
    ],
)
def test_a_token_has_the_mutant_of_its_kind(statement, expected):
    assert changes(FUNCTION.format(statement)) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""What 1 + 1 is."""\n',
        "# 1 + 1\n",
        "from a import sin\n",
        "class A:\n    a: list[1]\n",
        "def f(a: 'x' = None) -> 'y':\n    '''One.'''\n",
        "def f(a):\n    raise ValueError('text', 1, a)\n",
        "def f(a):\n    assert a, 'text'\n",
        "a = f'{1 + 1}'\n",
        "isinstance(a, b)\n",
        "zip(a, strict=True)\n",
    ],
)
def test_what_is_no_code_has_no_mutant(source):
    assert not changes(source)


def test_a_decorator_is_gone_as_a_whole():
    (mutant,) = mutants_of("a.py", b"@a(\n)\ndef f(): pass\n")
    assert mutant.applied(b"@a(\n)\ndef f(): pass\n") == b"\ndef f(): pass\n"
    assert mutant.block == (1, 3)


def test_positions_are_bytes_and_names_are_of_functions_and_rows():
    source = 'π = "ππ"  # π\nclass A:\n    def f(self): return self.π + 1\n'.encode()
    mutants = mutants_of("a.py", source)
    assert [m.name for m in mutants] == ["π", "A.f", "A.f", "A.f"]
    assert mutants[2].applied(source).decode().splitlines()[2].endswith("self.π - 1")


def test_the_same_mutants_are_drawn_after_a_change_elsewhere(tmp_path):
    file = tmp_path / "a.py"
    lines = [f"def f{i}(a): return a + {i}" for i in range(40)]
    file.write_text("\n".join(lines))
    before = draw(tmp_path, ["a.py"], 9, 20)
    lines[3:3] = ["", "# a comment"]
    file.write_text("\n".join(lines))
    after = draw(tmp_path, ["a.py"], 9, 20)
    assert [m.key for m in after] == [m.key for m in before]
    assert {m.key for m in draw(tmp_path, ["a.py"], 8, 20)} != {m.key for m in before}


def test_what_is_no_program_is_not_drawn(tmp_path):
    (tmp_path / "a.py").write_text("from a import (\n    sin,\n)\nfor i in a:\n    continue\n")
    drawn = draw(tmp_path, ["a.py"], 0, 9)
    assert [(m.before, m.after) for m in drawn] == [("continue", "break")]


@pytest.mark.parametrize(
    ("new", "is_of_functions"),
    [
        ("def f(a=1): return 3\ng = lambda: 1\n", True),
        ("def f(a=1): return 2\ng = lambda: 2\n", True),
        ("def f(a=2): return 2\ng = lambda: 1\n", False),
        ("def f(a=1): return 2\nh = lambda: 1\n", False),
    ],
)
def test_only_what_is_in_functions_is_put_in_their_place(new, is_of_functions):
    old = compile("def f(a=1): return 2\ng = lambda: 1\n", "a.py", "exec")
    changed = changed_functions(old, compile(new, "a.py", "exec"))
    assert (changed is not None) == is_of_functions


@pytest.mark.parametrize(("kept", "is_put"), [("f = f", True), ("f = None", False)])
def test_a_mutant_is_put_into_functions_that_are_there_also_frozen_ones(tmp_path, kept, is_put):
    source = f"def f(a): return a + 1\n{kept}\n"
    file = tmp_path / "a.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location("a", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    gc.collect()
    gc.freeze()  # as tests do with all that they import
    (mutant,) = [m for m in mutants_of("a.py", source.encode()) if m.before == "+"]
    assert put_in_place(mutant, tmp_path) == is_put
    assert not is_put or module.f(3) == 2
    gc.freeze()  # for the tests behind this one


def test_what_is_called_on_import_is_found():
    source = "a = f(g(1))\ndef h(): return i()\nclass A:\n    def m(self): j()\n"
    assert called_on_import(source.encode()) == {"f", "g"}
