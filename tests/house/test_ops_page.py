"""`docs/ops.md` is what its tool makes of the declarations of public ops."""

import operator
import re

import numpy as np

from symgrad.commands.op_index import operators, page
from tools.update_ops import PAGE


def test_the_page_lists_the_ops_as_they_are_declared():
    hint = "`python tools/update_ops.py` writes it anew"
    assert PAGE.read_text(encoding="utf-8") == page(), hint


def test_an_operator_is_listed_as_python_writes_it():
    found = operators()
    assert found["add"] == ["a + b"]
    assert found["bitwise_right_shift"] == ["a >> b"]
    assert found["round"] == ["round(a)"]
    assert len(found) == 24


def test_the_functions_of_numpy_on_the_page_exist():
    names = re.findall(r"`np\.([\w.]+)`", PAGE.read_text(encoding="utf-8"))
    assert len(names) > 200
    for name in names:
        operator.attrgetter(name)(np)  # raises where there is none
