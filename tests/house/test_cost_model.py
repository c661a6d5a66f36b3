"""Prices and thresholds are in the cost model, machine numbers in `Target`, and nowhere else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import symgrad
from symgrad import cost_model
from symgrad.cost_model import products

PACKAGE = Path(symgrad.__file__).parent
TEXTS = {
    path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
}
ROOMS = "cost_model/__init__.py", "cost_model/products.py"
NAMES = {name for name in vars(cost_model) | vars(products) if re.fullmatch(r"[A-Z]\w*", name)}
# What a pass or a schedule could be tempted to keep for itself.
PRICE = re.compile(
    r"FLOPS?\b|CYCLES?\b|PRICE|_TRIPS\b|PER_BYTE|SPEED_UP|_STREAMS\b|L[123]_|CACHE_W|PAGE"
    r"|PIECES|ENOUGH|MOST_KEPT|_GROUPS\b|_TOGETHER|IN_FUNCTION|UNCUT|LIKELY|ASSUMED"
)


_CAPITALIZED = re.compile(r"\b[A-Z]\w*")
_ASSIGNED = re.compile(r"^(?:\w+ = )+", re.MULTILINE)


def _is_of_the_model(name: str) -> bool:
    return name in NAMES or PRICE.search(name) is not None


def _may_assign_one(text: str) -> bool:
    """Say whether a module assigns such a name to anything: to parse all modules takes a second."""
    names = (name for line in _ASSIGNED.findall(text) for name in line.split(" = "))
    return any(map(_is_of_the_model, names))


def _constants(text: str) -> set[str]:
    """Return the upper-case names that a module assigns numbers to."""
    found = set()
    for node in ast.parse(text).body:
        is_number = isinstance(node, ast.Assign) and isinstance(
            node.value, ast.Constant | ast.BinOp | ast.Tuple
        )
        targets = node.targets if isinstance(node, ast.Assign) and is_number else []
        found |= {t.id for t in targets if isinstance(t, ast.Name) and t.id.isupper()}
    return found


def test_every_number_of_the_model_is_used_outside_of_it():
    others = (text for place, text in TEXTS.items() if place not in ROOMS)
    assert NAMES - {word for text in others for word in _CAPITALIZED.findall(text)} == set()


def test_no_other_module_has_a_number_of_the_model_or_one_like_it():
    for place, text in TEXTS.items():
        if place not in ROOMS and _may_assign_one(text):
            own = set(filter(_is_of_the_model, _constants(text)))
            assert own == set(), place


def test_the_check_finds_prices():
    text = "PER_FLOP = 3\nL1_BYTES = 1 << 15\n_LEAST_CYCLES = 2.0\nTAKES = 1\nSTAGES = ('a', 'b')"
    assert _may_assign_one("A = _CYCLES = 2\n")
    assert not _may_assign_one("STAGES = ('a', 'b')\nif a:\n    LEAST_CYCLES = 2\n")
    assert {name for name in _constants(text) if PRICE.search(name)} == {
        "PER_FLOP",
        "L1_BYTES",
        "_LEAST_CYCLES",
    }
