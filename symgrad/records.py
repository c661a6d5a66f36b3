"""Records: dataclasses, whose methods are written when they are called often.

    from symgrad.records import dataclass

`dataclasses.dataclass` writes six functions for a frozen class and compiles each, which for the
classes of this package was a third of the time that importing it takes; most are never called.
Here a class is given its `__init__` when it is made, its `__eq__` and `__hash__` write themselves
when they have been called some times, and what remains is the same for all. The fields are those of
the standard library, with its `fields` and `replace`, and for type checkers it is its decorator.

Two records are compared as tuples of their fields, whatever the version of Python: what is in a
tuple is equal to itself, also a tensor, whose `==` builds graph, and a nan. Not so an array: a
record that has one is not compared (`eq=False`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Literal, cast

_MADE_ANEW = object()  # the default of an argument whose default is made for each record
# By class and method, how often it was called before it is written, and what gives the fields.
_EARLY: dict[tuple[type, str], tuple[int, Callable[[Any], tuple[Any, ...]] | None]] = {}
_EARLY_CALLS = 32  # of a method: to compile one takes as long as some hundred calls without
_REPLACING: dict[type, Callable[..., Any]] = {}  # what makes a record of a class of another one


def _record(
    *,
    slots: Literal[True],
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
    weakref_slot: bool = False,
) -> Callable[[type], type]:
    """Return a decorator that does as `dataclasses.dataclass` with these arguments."""
    shared = _shared_methods(frozen, eq) | ({"__repr__": _repr} if repr else {})
    parameters = _parameters(frozen, eq, repr, kw_only, weakref_slot)

    def decorate(cls: type) -> type:
        own = vars(cls)
        # To a class that says what is equal Python gives None as its hash.
        is_own = {n for n in shared if n in own and not (n == "__hash__" and own[n] is None)}
        has_init = "__init__" in own
        of_class = _fields_of(cls, kw_only)
        made: Any = _with_slots(cls, of_class, ("__weakref__",) if weakref_slot else ())
        made.__dataclass_fields__, made.__dataclass_params__ = of_class, parameters
        if not has_init:
            made.__init__ = _written_init(made, frozen)
        for name in shared.keys() - is_own:
            setattr(made, name, shared[name])
        record: type = made
        return record

    return decorate


def _replaced(record: Any, /, **changes: Any) -> Any:
    """Return a record as `record` with other values in some fields, as `dataclasses.replace` does.

    That asks each field what it is, and a compilation makes thousands of records so.
    """
    cls = record.__class__
    if cls not in _REPLACING:
        _REPLACING[cls] = _replacing(cls)
    return _REPLACING[cls](record, **changes)


def draft_of(cls: type) -> Any:
    """Return the class of drafts of a record, which is made as one and then given its own class.

    Slots of a draft are set as those of any object, which takes a fourth of what a frozen record
    takes: it is for the few classes of which a program has tens of thousands.
    """
    return type(cls)(f"{cls.__name__}Draft", cls.__bases__, {"__slots__": vars(cls)["__slots__"]})


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:
    dataclass, replace = _record, _replaced


def _shared_methods(frozen: bool, eq: bool) -> dict[str, object]:
    """Return the methods of records that are no others for another class, by their names."""
    methods: dict[str, object] = {}
    if eq:
        methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse_assignment, "__delattr__": _refuse_deletion}
        methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
    return methods


# ------------------------------------------------------------------------------ fields, slots


@dataclasses.dataclass
class _Sample:
    """What the standard library makes, to be like it."""

    field: int


_IS_FIELD = cast(Any, dataclasses.fields(_Sample)[0])._field_type


@lru_cache(maxsize=32)
def _parameters(frozen: bool, eq: bool, repr: bool, kw_only: bool, weakref_slot: bool) -> object:
    """Return what the standard library notes of these arguments, the same for many classes."""
    noted: object = copy(cast(Any, _Sample).__dataclass_params__)
    given = {"repr": repr, "eq": eq, "frozen": frozen}
    # From Python 3.12 on these are noted, too.
    later = {"slots": True, "kw_only": kw_only, "weakref_slot": weakref_slot}
    for name, value in (given | {n: v for n, v in later.items() if hasattr(noted, n)}).items():
        setattr(noted, name, value)
    return noted


def _fields_of(cls: type, kw_only: bool) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a class by their names, those of its bases first."""
    found: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        found |= vars(base).get("__dataclass_fields__", {})
    own = vars(cls)
    for name, stated in cls.__annotations__.items():
        if stated in ("KW_ONLY", dataclasses.KW_ONLY):  # text, where annotations are that
            kw_only = True
        elif not str(stated).startswith(("ClassVar", "typing.ClassVar")):
            default = own.get(name, dataclasses.MISSING)
            is_field = isinstance(default, dataclasses.Field)
            field: Any = default if is_field else dataclasses.field(default=default)
            field.name, field.type, field._field_type = name, stated, _IS_FIELD
            field.kw_only = kw_only if field.kw_only is dataclasses.MISSING else field.kw_only
            found[name] = field
    return found


def _with_slots(
    cls: type, fields: Mapping[str, dataclasses.Field[Any]], more: tuple[str, ...]
) -> type:
    """Return a class as `cls` whose instances have slots for its fields, and no other names."""
    inherited = {slot for base in cls.__mro__[1:] for slot in vars(base).get("__slots__", ())}
    gone = {*fields, "__dict__", "__weakref__"}
    namespace = {name: value for name, value in vars(cls).items() if name not in gone}
    slots = tuple(name for name in (*fields, *more) if name not in inherited)
    by_place = [name for name, field in fields.items() if field.init and not field.kw_only]
    namespace |= {"__slots__": slots, "__match_args__": tuple(by_place)}
    namespace["__qualname__"] = cls.__qualname__
    return type(cls)(cls.__name__, cls.__bases__, namespace)


# ------------------------------------------------------------------------- methods that are written


def _written_init(cls: type, frozen: bool) -> Callable[..., None]:
    """Return the function that sets the fields of a new record.

    It is written with numbers for the names of fields, and without their defaults, which the
    function is given: most classes have the text of another one.
    """
    names: dict[str, Any] = {"_set": object.__setattr__, "_made_anew": _MADE_ANEW}
    of_class = dataclasses.fields(cls)
    numbered = _numbered(of_class)
    takes, does, defaults, by_name = ["self"], [], [], {}
    for number, field in sorted(zip(numbered, of_class, strict=True), key=_is_by_name):
        value, default = number, field.default
        if field.default_factory is not dataclasses.MISSING:
            names[f"_make{number}"], default = field.default_factory, _MADE_ANEW
            value = f"_make{number}() if {number} is _made_anew else {number}"
        has_default = default is not dataclasses.MISSING
        if field.init:
            takes += ["*"] if field.kw_only and "*" not in takes else []
            takes.append(number)
            if has_default and field.kw_only:
                by_name[field.name] = default
            elif has_default:
                defaults.append(default)
            elif defaults and not field.kw_only:
                raise TypeError(f"non-default argument {field.name!r} follows default argument")
        elif has_default:
            names[f"_default{number}"] = default
            value = f"_make{number}()" if default is _MADE_ANEW else f"_default{number}"
        else:
            continue  # `__post_init__` sets it
        slot = vars(cls).get(field.name) if frozen else None
        if isinstance(slot, MemberDescriptorType):
            # What sets a slot is found once, and not by its name for each record.
            names[f"_set{number}"] = slot.__set__
            does.append(f"_set{number}(self, {value})")
        else:
            text = f"_set(self, {number!r}, {value})" if frozen else f"self.{number} = {value}"
            does.append(text)
    does += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    code = _with_names(_code_of(_text_of("__init__", takes, does or ["pass"])), numbered)
    init = FunctionType(code, names, "__init__", tuple(defaults))
    init.__kwdefaults__ = by_name or None
    init.__annotations__ = {field.name: field.type for field in of_class if field.init}
    init.__annotations__["return"] = None
    written: Callable[..., None] = _of_class(cls, init)
    return written


def _is_by_name(numbered: tuple[str, dataclasses.Field[Any]]) -> bool:
    return numbered[1].kw_only is True


def _replacing(cls: type) -> Callable[..., Any]:
    """Return the function that makes a record of a class of another one, given what differs.

    None of it is written for the class: text takes longer to compile than most classes are used.
    """
    given = [field for field in dataclasses.fields(cls) if field.init]
    given.sort(key=lambda field: field.kw_only is True)
    names = [field.name for field in given]
    by_place = sum(field.kw_only is not True for field in given)
    values_of, place = _getter(names), {name: number for number, name in enumerate(names)}

    def replaced(record: Any, /, **changes: Any) -> Any:
        values = [*values_of(record)]
        try:
            for name, value in changes.items():
                values[place[name]] = value
        except KeyError as error:
            raise TypeError(f"{cls.__name__} is not made with {error}") from None
        if by_place == len(values):
            return cls(*values)
        named = zip(names[by_place:], values[by_place:], strict=True)
        return cls(*values[:by_place], **dict(named))

    return replaced


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what gives the fields of a record that have these names."""
    if len(names) > 1:
        getter: Callable[[Any], tuple[Any, ...]] = attrgetter(*names)
        return getter
    return lambda record: tuple([getattr(record, name) for name in names])


def _numbered(fields: Iterable[dataclasses.Field[Any]]) -> dict[str, str]:
    """Return numbers that stand for the names of fields in what is written, with these names."""
    return {f"_{number}_": field.name for number, field in enumerate(fields)}


@lru_cache(maxsize=256)
def _code_of(text: str) -> CodeType:
    """Return the code of the function that `text` defines."""
    constants = compile(text, "<string>", "exec").co_consts
    return next(constant for constant in constants if isinstance(constant, CodeType))


def _with_names(code: CodeType, names: Mapping[str, str]) -> CodeType:
    """Return `code` with other names of variables, attributes and constants."""
    return code.replace(
        co_varnames=tuple(names.get(name, name) for name in code.co_varnames),
        co_names=tuple(names.get(name, name) for name in code.co_names),
        co_consts=tuple(names.get(c, c) if isinstance(c, str) else c for c in code.co_consts),
    )


def _text_of(name: str, takes: list[str], does: list[str]) -> str:
    return "\n ".join([f"def {name}({', '.join(takes)}):", *does])


def _of_class(cls: type, method: Any) -> Any:
    """Return `method` as one of `cls`; `__name__` of its globals is that of the module."""
    # That says whose it is, since it has no file: its frame is none of the user's.
    method.__globals__["__name__"] = cls.__module__
    method.__qualname__, method.__module__ = f"{cls.__qualname__}.{method.__name__}", cls.__module__
    return method


def _early(record: object, name: str, shared: object) -> Callable[[Any], tuple[Any, ...]] | None:
    """Return what gives the fields that a method compares; None if it is to be written now."""
    called, values_of = _EARLY.get((type(record), name), (0, None))
    if values_of is None:
        compared = [field.name for field in _compared(_base_with(record, name, shared))]
        values_of = _getter(compared)
    _EARLY[type(record), name] = called + 1, values_of
    return values_of if called < _EARLY_CALLS else None


def _base_with(record: object, name: str, shared: object) -> type:
    """Return the class that a record has a method of, where it is the one that all share."""
    return next(base for base in type(record).__mro__ if vars(base).get(name) is shared)


def _compared(cls: type) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(cls) if field.compare]


def _install(record: object, name: str, shared: object, takes: list[str], does: str) -> Any:
    """Write a method of the class of a record, where it has the one that all classes share."""
    cls = _base_with(record, name, shared)
    compared = _numbered(_compared(cls))
    own, other = (f"({''.join(f'{of}.{n}, ' for n in compared)})" for of in ("self", "other"))
    code = _code_of(_text_of(name, takes, [does.format(own=own, other=other)]))
    method = _of_class(cls, FunctionType(_with_names(code, compared), {}))
    setattr(cls, name, method)
    return method


def _eq(self: Any, other: object) -> Any:
    values_of = _early(self, "__eq__", _eq)
    if values_of is None:
        does = "return {own} == {other} if other.__class__ is self.__class__ else NotImplemented"
        return _install(self, "__eq__", _eq, ["self", "other"], does)(self, other)
    return values_of(self) == values_of(other) if _are_alike(self, other) else NotImplemented


def _are_alike(one: object, other: object) -> bool:
    return one.__class__ is other.__class__


def _hash(self: Any) -> int:
    values_of = _early(self, "__hash__", _hash)
    if values_of is not None:
        return hash(values_of(self))
    method: Callable[[Any], int] = _install(self, "__hash__", _hash, ["self"], "return hash({own})")
    return method(self)


# -------------------------------------------------------------------------- methods of all classes


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _is_frozen(record: Any, name: str) -> bool:
    """Return whether `name` is no attribute that a class adds which is no record itself."""
    return "__dataclass_params__" in vars(type(record)) or name in record.__dataclass_fields__


def _refuse_assignment(self: Any, name: str, value: object) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_deletion(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
