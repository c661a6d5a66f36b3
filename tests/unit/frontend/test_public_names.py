"""A public op is declared once: where it is defined, and in one row of its package's names."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import symgrad as sg
from symgrad.commands.op_index import operators
from symgrad.frontend import namespace
from symgrad.graph import late_binding, public_ops
from symgrad.graph.node import Tensor
from symgrad.graph.public_ops import PUBLIC_OPS, public
from tests.support.evaluators import evaluate_reference

FACES = {"sg": sg, "nn": sg.nn, "special": sg.special, "linalg": sg.linalg, "fft": sg.fft}
# Not the ops of these names: `sg.special.softmax` is over all axes by default, as in SciPy, and
# `sg.linalg.cross` and `trace` have the arguments of the Array API.
_NO_OPS = {
    "symgrad.special.logarithms.softmax",
    "symgrad.linalg.products.cross",
    "symgrad.linalg.products.trace",
}


def _rows(module: ModuleType) -> list[str]:
    """Return the names that a type checker takes for public: `import x as x`, and assignments."""
    tree = ast.parse(Path(str(module.__file__)).read_bytes())
    imported = [
        alias.asname
        for block in tree.body
        for statement in (block.body if isinstance(block, ast.With | ast.If) else [block])
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.asname == alias.name
    ]
    assigned = [
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id != "__all__"
    ]
    return [*imported, *assigned]


@pytest.mark.parametrize("module", FACES.values(), ids=FACES)
def test_a_public_name_is_one_row_that_type_checkers_see(module):
    rows = _rows(module)
    # What is imported for what it does, and is no name of the list.
    assert sorted(rows) == sorted({*module.__all__, *({"protocols"} & set(rows))})


def test_every_declared_op_has_its_row_and_every_row_of_an_op_its_declaration():
    declared = {op.function: name for name, op in PUBLIC_OPS.items()}
    ops = ("symgrad.graph.leaf", "symgrad.graph.ops.")
    others = (
        "symgrad.frontend.creation",
        "symgrad.frontend.matrices",
        "symgrad.nn.",
        "symgrad.special.",
        "symgrad.linalg.",
        "symgrad.fft.",
    )
    public_in: dict[str, set[str]] = {}
    for face, module in FACES.items():
        values = {name: inspect.unwrap(getattr(module, name)) for name in module.__all__}
        functions = {
            name: f
            for name, f in values.items()
            if inspect.isfunction(f) and f"{f.__module__}.{name}" not in _NO_OPS
        }
        rows = {n: f for n, f in functions.items() if f.__module__.startswith((*ops, *others))}
        assert {name: declared.get(f) for name, f in rows.items()} == {name: name for name in rows}
        public_in[face] = set(rows)
    of_package = {
        face: {n for f, n in declared.items() if f.__module__.startswith(f"symgrad.{face}.")}
        for face in ("nn", "special", "linalg", "fft")
    }
    assert of_package["nn"] <= public_in["nn"]
    assert of_package["special"] <= public_in["special"]
    assert of_package["linalg"] <= public_in["linalg"]
    assert of_package["fft"] <= public_in["fft"]
    elsewhere = set[str]().union(*of_package.values())
    assert set(declared.values()) - elsewhere == public_in["sg"] - elsewhere


def test_an_op_is_the_same_function_under_all_its_names():
    assert sg.sigmoid is sg.nn.sigmoid
    for name, op in PUBLIC_OPS.items():
        assert (name in namespace.__all__) == op.is_standard
        assert not op.is_standard or getattr(namespace, name) is getattr(sg, name)


def test_operators_call_declared_ops():
    assert operators().keys() <= PUBLIC_OPS.keys()


def test_a_declaration_alone_makes_an_op_stand_for_functions_of_numpy():
    with (
        patch.dict(PUBLIC_OPS),
        patch.dict(public_ops.UFUNCS),
        patch.dict(public_ops.FUNCTIONS),
        patch.dict(late_binding._PROVIDED),
    ):

        @public(ufuncs=[np.ldexp], functions=[np.ptp])
        def length(x: Any, y: Any = 0.0) -> Tensor:
            return sg.sqrt(x * x + y * y)

        x: Any = sg.placeholder((2,))  # what NumPy makes of a tensor has no type
        given = np.array([3.0, -8.0], np.float32)
        graph = sg.Graph([np.ldexp(x, 4.0), np.ptp(x)], [x])
        with pytest.raises(AssertionError, match="two ops stand for ldexp"):
            public(ufuncs=[np.ldexp])(test_operators_call_declared_ops)
    first, second = evaluate_reference(graph, [given])
    np.testing.assert_allclose(first, [5.0, 80**0.5], rtol=1e-6)
    np.testing.assert_array_equal(second, [3.0, 8.0])
    with pytest.raises(TypeError):
        np.ldexp(x, 4.0)
