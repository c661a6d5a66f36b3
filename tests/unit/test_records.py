"""What graphs, passes and programs are made of cannot be assigned to, and is equal to itself."""

import copy
import dataclasses
import inspect
import math
import pkgutil
import re
from dataclasses import KW_ONLY, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import symgrad as sg
import symgrad.codegen
import symgrad.graph
import symgrad.passes
from symgrad import records
from symgrad.codegen.loops.language import Const
from symgrad.graph.dtypes import float32
from symgrad.passes.loops.extend_loop import Stack
from symgrad.records import dataclass, draft_of
from tests.support.together import together

# Built up by one function, which keeps them to itself.
_GROWING = {
    *("symgrad.codegen.lower.products._Axes", "symgrad.graph.compare._Comparison"),
    *("symgrad.graph.outline.Outline", "symgrad.passes.sparsity.nested_dependences._Loop"),
    *("symgrad.graph.ops.scan.Backward", "symgrad.passes.loops.min_cut._Visit"),
    *("symgrad.passes.fusion.draft.Draft", "symgrad.passes.loops.extend_loop.Extension"),
    *("symgrad.passes.loops.merge_loops._Family", "symgrad.passes.loops.rematerialise._Values"),
    "symgrad.passes.memory.evict._Repetition",
    *(
        "symgrad.passes.calls.divergence._Divergence",
        "symgrad.passes.placement.place_shards._Placing",
    ),
}


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


def test_all_dataclasses_are_these():
    root = Path(sg.__file__).parent
    others = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"^from dataclasses import .*\bdataclass\b", path.read_text(), re.MULTILINE)
    ]
    assert not others


def test_records_of_tensors_and_of_nan_are_equal_if_what_is_in_them_is():
    x = sg.placeholder((3,))
    y = sg.exp(x)
    stack = Stack(y.node, y)
    assert stack == Stack(y.node, y)
    assert hash(stack) == hash(copy.copy(stack))
    assert stack != Stack(x.node, x)
    as_tuple: object = (y.node, y)
    assert stack != as_tuple
    assert Const(math.nan, float32) == Const(math.nan, float32)
    assert Const(1.0, float32) != Const(2.0, float32)


@dataclass(frozen=True, slots=True)
class _Point:
    x: float
    y: float = 0.5
    _: KW_ONLY
    names: list[str] = field(default_factory=list, compare=False)
    norm: float = field(init=False, repr=False)
    kind: str = field(init=False, default="point")

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", abs(self.x) + abs(self.y))


@dataclasses.dataclass(frozen=True, slots=True)
class _StandardPoint:
    x: float
    y: float = 0.5
    _: KW_ONLY
    names: list[str] = field(default_factory=list, compare=False)
    norm: float = field(init=False, repr=False)
    kind: str = field(init=False, default="point")

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", abs(self.x) + abs(self.y))


@pytest.mark.parametrize("made", [copy.copy, copy.deepcopy])
def test_a_record_is_what_the_standard_library_makes(made):
    kinds: list[Any] = [_Point, _StandardPoint]
    for kind in kinds:
        point = made(kind(3.0, names=["a"]))
        assert repr(point) == f"{kind.__name__}(x=3.0, y=0.5, names=['a'], kind='point')"
        assert (point.x, point.y, point.names, point.norm) == (3.0, 0.5, ["a"], 3.5)
        assert point == kind(3.0, 0.5)
        assert hash(point) == hash(kind(3.0)) == hash((3.0, 0.5, 3.5, "point"))
        assert point != kind(3.0, 1.0)
        assert point != (3.0, 0.5, 3.5)
        assert dataclasses.replace(point, y=1.0) == kind(3.0, y=1.0)
        assert kind(1.0).names is not kind(1.0).names
        assert [*dataclasses.asdict(point).values()] == [3.0, 0.5, ["a"], 3.5, "point"]
        assert kind.__match_args__ == ("x", "y")
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
            point.x = 1.0
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
            del point.x
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
            kind()
    assert str(inspect.signature(_Point)) == str(inspect.signature(_StandardPoint)).replace(
        "<factory>", str(inspect.signature(_Point).parameters["names"].default)
    )


def test_records_are_equal_before_and_after_their_methods_are_written():
    """A class that is compared a few times has no `__eq__` and no `__hash__` of its own."""

    @dataclass(frozen=True, slots=True)
    class Pair:
        a: object
        b: float

    @dataclass(frozen=True, slots=True)
    class Single:
        a: object

    x = sg.placeholder((3,))
    other: object = Single(x)
    found = [
        (
            Pair(x, math.nan) == Pair(x, math.nan),
            Pair(x, 1.0) == Pair(x, 2.0),
            Pair(x, 1.0).__eq__((x, 1.0)),
            Pair(x, 1.0) == other,
            hash(Pair(x, 1.0)) == hash((x, 1.0)),
            Single(x) == Single(x),
            Single(2) == Single(1),
            hash(Single(x)) == hash((x,)),
        )
        for _ in range(2 * records._EARLY_CALLS)
    ]
    assert vars(Pair)["__eq__"] is not records._eq, "it is called often enough by now"
    assert vars(Single)["__hash__"] is not records._hash
    expected = True, False, NotImplemented, False, True, True, False, True
    assert set(found) == {expected}


def test_a_record_is_made_of_another_one_as_by_the_standard_library():
    for kind in (_Point, _StandardPoint):
        replace: Any = dataclasses.replace if kind is _StandardPoint else records.replace
        point = kind(3.0, names=["a"])
        other = replace(point, y=2.0)
        assert (other.x, other.y, other.norm) == (3.0, 2.0, 5.0)
        assert other.names is point.names
        assert replace(point, names=["b"]).names == ["b"]
        assert replace(point) == point
        with pytest.raises(TypeError, match="length"):
            replace(point, length=1.0)
        with pytest.raises((TypeError, ValueError), match="kind"):
            replace(point, kind="line")  # nobody gives it

    @dataclass(frozen=True, slots=True)
    class Single:
        a: int

    assert records.replace(Single(1), a=2) == Single(2)


def test_what_inherits_from_a_record_has_fields_and_equality_of_its_own():
    @dataclass(frozen=True, slots=True)
    class Labelled(_Point):
        label: str = ""

    class Plain(_Point):
        pass

    one: Any
    plain: Any
    one, two = Labelled(1.0, label="a"), Labelled(1.0, label="b")
    assert one != two
    assert one == Labelled(1.0, label="a")
    assert one != _Point(1.0)
    assert hash(one) != hash(two)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.label = "c"
    plain = Plain(1.0)
    plain.own = 2  # it is no record itself
    assert vars(plain) == {"own": 2}
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.x = 2.0


def test_a_record_that_is_not_frozen_is_assigned_to_and_has_no_hash():
    @dataclass(slots=True)
    class Growing:
        items: list[int] = field(default_factory=list)

    growing = Growing()
    growing.items = [1]
    assert growing == Growing([1])
    with pytest.raises(TypeError, match="unhashable"):
        hash(growing)


def test_methods_that_a_record_has_itself_are_kept():
    @dataclass(frozen=True, slots=True)
    class Parity:
        number: int

        def __init__(self, text: str) -> None:
            object.__setattr__(self, "number", int(text))

        def __repr__(self):
            return f"Parity of {self.number}"

        def __eq__(self, other):
            return self.number % 2 == other.number % 2

        def __hash__(self):
            return self.number % 2

    assert Parity("1") == Parity("3")
    assert len({Parity("1"), Parity("3"), Parity("4")}) == 2
    assert repr(Parity("4")) == "Parity of 4"


def test_a_record_without_equality_is_equal_to_itself_alone():
    @dataclass(frozen=True, slots=True, eq=False)
    class Held:
        array: np.ndarray

    held = Held(np.ones(2))
    assert held == held
    assert held != Held(held.array)
    assert len({held, held}) == 1


def test_records_that_differ_in_defaults_share_the_text_of_their_methods():
    @dataclass(frozen=True, slots=True)
    class Early:
        first: int
        second: int = 2
        third: int = 3

    @dataclass(frozen=True, slots=True)
    class Late:
        one: int
        two: int
        three: int = 4

    assert (Early(1), Early(1, 5), Late(1, 2)) == (Early(1, 2, 3), Early(1, 5, 3), Late(1, 2, 4))
    inits: list[Any] = [Early.__init__, Late.__init__]
    assert inits[0].__code__.co_code == inits[1].__code__.co_code
    with pytest.raises(TypeError, match="missing 2 required positional arguments"):
        inits[1](Late(1, 2))


@pytest.mark.parametrize("decorate", [dataclass, dataclasses.dataclass])
def test_a_field_without_a_default_behind_one_with_one_is_refused(decorate):
    with pytest.raises(TypeError, match="non-default argument 'b' follows default argument"):

        @decorate(slots=True)
        class Turned:
            a: int = 1
            b: int


def test_a_draft_that_is_given_the_class_of_its_record_is_one():
    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int

    draft = draft_of(Point)()
    draft.x, draft.y = 1, 2
    draft.__class__ = Point
    assert draft == Point(1, 2)
    assert hash(draft) == hash(Point(1, 2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        draft.x = 3
