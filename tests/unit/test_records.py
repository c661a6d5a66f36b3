"""What graphs, passes and programs are made of cannot be assigned to, and is equal to itself."""

import copy
import inspect
import math
import pkgutil
import re
from dataclasses import fields
from importlib import import_module
from types import ModuleType

import symgrad as sg
import symgrad.codegen
import symgrad.graph
import symgrad.passes
from symgrad.codegen.loops.language import Const
from symgrad.graph.dtypes import float32
from symgrad.passes.loops.extend_loop import Stack
from tests.support.together import together

# Built up by one function, which keeps them to itself.
_GROWING = {
    *("symgrad.codegen.lower.products._Axes", "symgrad.graph.compare._Comparison"),
    *("symgrad.graph.outline.Outline", "symgrad.passes.sparsity.nested_dependences._Loop"),
    *("symgrad.graph.ops.scan.Backward", "symgrad.passes.loops.min_cut._Visit"),
    *("symgrad.passes.fusion.draft.Draft", "symgrad.passes.loops.extend_loop.Extension"),
    *("symgrad.passes.loops.merge_loops._Family", "symgrad.passes.loops.rematerialise._Values"),
    *(
        "symgrad.passes.calls.divergence._Divergence",
        "symgrad.passes.placement.place_shards._Placing",
    ),
}


# Types with an `==` of their own, of which a field is no tuple, mapping or function.
_COMPARED_OTHERWISE = re.compile(r"^(Tensor|Variable|Array|NDArray\[[^]]*\]|Number)\b[^(\[]*$")


def _records(*packages: ModuleType) -> dict[str, type]:
    found = [m.name for p in packages for m in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")]
    return {
        f"{name}.{record.__name__}": record
        for name in found
        for record in vars(import_module(name)).values()
        if inspect.isclass(record)
        and record.__module__ == name
        and "__dataclass_params__" in vars(record)
    }


RECORDS = _records(symgrad.graph, symgrad.passes, symgrad.codegen)


@together("name", RECORDS, at_once=100)
def test_a_record_has_slots_and_is_frozen_unless_it_is_known_to_grow(name):
    record = RECORDS[name]
    assert vars(record)["__dataclass_params__"].frozen == (name not in _GROWING)
    assert "__slots__" in vars(record)


def test_what_is_known_to_grow_exists():
    assert RECORDS.keys() >= _GROWING


def test_no_record_leaves_it_to_python_to_compare_a_field_that_has_an_equality_of_its_own():
    others = _records(sg.nn, sg.linalg, sg.random, sg.fft, sg.special, sg.optim)
    written = [
        name
        for name, record in (RECORDS | others).items()
        if vars(record)["__dataclass_params__"].eq
        and any(_COMPARED_OTHERWISE.match(str(field.type)) for field in fields(record))
        and inspect.getfile(vars(record)["__eq__"]) == "<string>"  # dataclass has written it
    ]
    assert written == []


def test_records_of_tensors_and_of_nan_are_equal_if_what_is_in_them_is():
    x = sg.placeholder((3,))
    y = sg.exp(x)
    stack = Stack(y.node, y)
    assert stack == Stack(y.node, y)
    assert hash(stack) == hash(copy.copy(stack))
    assert stack != Stack(x.node, x)
    assert stack != (y.node, y)
    assert Const(math.nan, float32) == Const(math.nan, float32)
    assert Const(1.0, float32) != Const(2.0, float32)
