"""What graphs, passes and programs are made of cannot be assigned to."""

import inspect
import pkgutil
from importlib import import_module

import symgrad.codegen
import symgrad.graph
import symgrad.passes
from tests.support.together import together

# Built up by one function, which keeps them to itself.
_GROWING = {
    *("symgrad.codegen.lower.products._Axes", "symgrad.graph.compare._Comparison"),
    *("symgrad.graph.outline.Outline", "symgrad.passes.sparsity.nested_dependences._Loop"),
    *("symgrad.graph.ops.scan.Backward", "symgrad.passes.loops.min_cut._Visit"),
    *("symgrad.passes.fusion.draft.Draft", "symgrad.passes.loops.extend_loop.Extension"),
    *("symgrad.passes.loops.merge_loops._Family", "symgrad.passes.loops.rematerialise._Values"),
    "symgrad.passes.calls.divergence._Divergence",
}


def _records() -> dict[str, type]:
    packages = (symgrad.graph, symgrad.passes, symgrad.codegen)
    found = [m.name for p in packages for m in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")]
    return {
        f"{name}.{record.__name__}": record
        for name in found
        for record in vars(import_module(name)).values()
        if inspect.isclass(record)
        and record.__module__ == name
        and "__dataclass_params__" in vars(record)
    }


RECORDS = _records()


@together("name", RECORDS, at_once=100)
def test_a_record_has_slots_and_is_frozen_unless_it_is_known_to_grow(name):
    record = RECORDS[name]
    assert vars(record)["__dataclass_params__"].frozen == (name not in _GROWING)
    assert "__slots__" in vars(record)


def test_what_is_known_to_grow_exists():
    assert RECORDS.keys() >= _GROWING
