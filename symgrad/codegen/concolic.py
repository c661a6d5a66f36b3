"""Concolic execution: what is done for one size, recorded so that it need not be done for others.

A `SymbolicSize` is a number that remembers how it came of the sizes it was made of. Whatever asks
it something, such as whether a loop is longer than a vector, is answered for the number, and the
answer is noted: the path condition. So what a pass makes of a kernel with such sizes is what it
makes of one with others, those put in, wherever they fulfil the condition:

    for i in 0..n0 vector(16) {...}     if  n0 > 16  and  n0 <= 65536  and ...

Nothing is assumed of what runs: a use that cannot be noted, such as a hash or a conversion by C,
raises one of `NOT_SYMBOLIC`, and there is no such path then.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

from symgrad.records import dataclass, replace

# What is broken whatever the sizes are is raised again where there is no path.
NOT_SYMBOLIC = (TypeError, AttributeError, ValueError, LookupError, AssertionError)

# What makes a value of numbers, None for one that is the same for all.
Maker = Callable[[tuple[int, ...]], Any]

_MARK = re.compile(r"\?(\d+)\?")  # the place of a number in a text that is printed

_MOST_TEXT = 400  # characters of a number's origin: nothing that is worth sharing has more


class Path:
    """What was asked of sizes in one run, and the numbers that its result has of them."""

    def __init__(self) -> None:
        self.is_printing = False
        self._conditions: dict[str, None] = {}
        self._places: dict[str, int] = {}
        self._numbers: list[int] = []

    def sizes(self, numbers: Sequence[int]) -> list[Any]:
        """Return symbolic sizes of these numbers; to what runs they are ints."""
        return [SymbolicSize(self, number, f"n[{i}]") for i, number in enumerate(numbers)]

    def note(self, condition: str) -> None:
        """Note what holds of the sizes in this run."""
        self._conditions[condition] = None

    def place(self, size: SymbolicSize) -> int:
        """Return which of the numbers of the result a size is; equal ones are one."""
        if size.text not in self._places:
            for text, place in [*self._places.items()]:
                is_same = self._numbers[place] == size.number
                self.note(f"{text} {'==' if is_same else '!='} {size.text}")
                if is_same:
                    self._places[size.text] = place
                    return place
            self._places[size.text] = len(self._numbers)
            self._numbers.append(size.number)
        return self._places[size.text]

    def taken(self) -> TakenPath:
        """Return what was noted, as functions of sizes."""
        first = {place: text for text, place in reversed(self._places.items())}
        numbers = "".join(f"{first[place]}, " for place in range(len(first)))
        condition = " and ".join(self._conditions) or "True"
        return TakenPath(_function(condition), _function(f"({numbers})"))

    def text(self, print_: Callable[[], str]) -> TextWithNumbers:
        """Return what `print_` gives, with places for numbers where it prints sizes."""
        self.is_printing = True
        parts = _MARK.split(print_())
        self.is_printing = False
        return TextWithNumbers.of_parts(parts)

    def maker(self, value: Any) -> Maker:
        """Return what makes a value like `value` of the numbers of the result."""
        made = self._maker(value)
        return (lambda _: value) if made is None else made

    def _maker(self, value: Any) -> Maker | None:
        if type(value) is SymbolicSize:
            return operator.itemgetter(self.place(value))
        if type(value) is tuple:
            return _made_of(value, [self._maker(part) for part in value], tuple)
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return None
        names = [field.name for field in dataclasses.fields(value)]
        parts = [getattr(value, name) for name in names]
        makers = [self._maker(part) for part in parts]
        changing = [name for name, maker in zip(names, makers, strict=True) if maker is not None]
        changed = [maker for maker in makers if maker is not None]
        return _made_of(
            changing, changed, lambda made: replace(value, **dict(zip(changing, made, strict=True)))
        )


@dataclass(frozen=True, slots=True, eq=False)
class TakenPath:
    """Whether sizes take a path, and the numbers of its result for sizes that do."""

    holds: Callable[[tuple[int, ...]], bool]
    numbers: Callable[[tuple[int, ...]], tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class TextWithNumbers:
    """A text with places for numbers of a result, in the form of the operator %."""

    form: str
    places: tuple[int, ...]

    @staticmethod
    def of_parts(parts: list[str]) -> TextWithNumbers:
        """Return a text of which every second part is the place of a number."""
        form = "%s".join(part.replace("%", "%%") for part in parts[::2])
        return TextWithNumbers(form, tuple(map(int, parts[1::2])))

    def marked(self) -> str:
        """Return the text as it was printed: `?3?` is the place of number 3."""
        return self.form % tuple([f"?{place}?" for place in self.places])

    def of(self, numbers: tuple[int, ...]) -> str:
        """Return the text with `numbers`."""
        return self.form % tuple([numbers[place] for place in self.places])


class OnPath(Protocol):
    """What was made on a path."""

    @property
    def path(self) -> TakenPath: ...


Made = TypeVar("Made", bound=OnPath)


class Templates(Generic[Made]):
    """What was made for sizes, each on another path: no more than `most`, if there are any."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: list[Made] = []

    def found(self, sizes: tuple[int, ...], make: Callable[[], Made | None]) -> Made | None:
        """Return what was made on the path of `sizes`, or is now; None where nothing can be."""
        for made in self._made:
            if made.path.holds(sizes):
                return made
        if len(self._made) >= self._most:
            return None
        try:
            new = make()
        except NOT_SYMBOLIC:
            new = None
        self._made += [] if new is None else [new]
        self._most = 0 if new is None else self._most
        return new


@lru_cache(maxsize=256)  # what kernels ask of their sizes is mostly the same
def _function(text: str) -> Callable[[tuple[int, ...]], Any]:
    made: Callable[[tuple[int, ...]], Any] = eval(f"lambda n: {text}", {})
    return made


def _made_of(
    parts: Sequence[Any], makers: Sequence[Maker | None], make: Callable[[list[Any]], Any]
) -> Maker | None:
    if all(maker is None for maker in makers):
        return None
    pairs = [*zip(parts, makers, strict=True)]
    return lambda n: make([part if maker is None else maker(n) for part, maker in pairs])


def _is_number(value: object) -> bool:
    return type(value) in (int, float, bool, SymbolicSize)


def _number(value: Any) -> Any:
    return value.number if type(value) is SymbolicSize else value


def _text(value: Any) -> str:
    if type(value) is SymbolicSize:
        return value.text
    return f"float('{value}')" if type(value) is float else repr(value)  # an infinity has no name


# What leaves the number on its left as it is.
_UNCHANGED = {("+", 0), ("-", 0), ("*", 1), ("//", 1)}


def _arithmetic(symbol: str, compute: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """Return an operation of symbolic sizes, and the one with operands exchanged."""

    def forward(self: SymbolicSize, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        if type(other) is int and (symbol, other) in _UNCHANGED:
            return self
        made = compute(self.number, _number(other))
        return SymbolicSize(self.path, made, f"({self.text} {symbol} {_text(other)})")

    def reflected(self: SymbolicSize, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        if type(other) is int and symbol in "+*" and (symbol, other) in _UNCHANGED:
            return self
        made = compute(_number(other), self.number)
        return SymbolicSize(self.path, made, f"({_text(other)} {symbol} {self.text})")

    return forward, reflected


def _relation(symbol: str, compute: Callable[[Any, Any], bool]) -> Any:
    def relation(self: SymbolicSize, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        holds = compute(self.number, _number(other))
        if _text(other) != self.text:
            asked = f"{self.text} {symbol} {_text(other)}"
            self.path.note(asked if holds else f"not {asked}")
        return holds

    return relation


class SymbolicSize:
    """A number and how it came of the sizes of a `Path`; an int to whatever asks what it is.

    It has no hash: what is found by a number it cannot be said to be found by.
    """

    __slots__ = ("number", "path", "text")
    __hash__: Any = None

    def __init__(self, path: Path, number: Any, text: str) -> None:
        if len(text) > _MOST_TEXT:
            raise ValueError("a number is computed in more steps than are worth keeping")
        self.path = path
        self.number = number
        self.text = text

    @property  # type: ignore[misc]  # so it is an int to `isinstance` and to `match`
    def __class__(self) -> Any:
        return type(self.number)

    __add__, __radd__ = _arithmetic("+", operator.add)
    __sub__, __rsub__ = _arithmetic("-", operator.sub)
    __mul__, __rmul__ = _arithmetic("*", operator.mul)
    __floordiv__, __rfloordiv__ = _arithmetic("//", operator.floordiv)
    __mod__, __rmod__ = _arithmetic("%", operator.mod)
    __truediv__, __rtruediv__ = _arithmetic("/", operator.truediv)
    __rshift__, __rrshift__ = _arithmetic(">>", operator.rshift)
    __and__, __rand__ = _arithmetic("&", operator.and_)
    __eq__ = _relation("==", operator.eq)
    __ne__ = _relation("!=", operator.ne)
    __lt__ = _relation("<", operator.lt)
    __le__ = _relation("<=", operator.le)
    __gt__ = _relation(">", operator.gt)
    __ge__ = _relation(">=", operator.ge)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __neg__(self) -> Any:
        return 0 - self

    def __bool__(self) -> bool:
        return bool(self != 0)

    def bit_length(self) -> int:
        bits = int(self.number.bit_length())
        self.path.note(f"{self.text}.bit_length() == {bits}")
        return bits

    def __format__(self, form: str) -> str:
        if self.path.is_printing:
            return f"?{self.path.place(self)}?"
        return format(self._only(), form)

    def __str__(self) -> str:
        return format(self)

    def __repr__(self) -> str:
        return format(self)

    def _only(self) -> Any:
        """Return the number, which it then is on this path."""
        self.path.note(f"{self.text} == {_text(self.number)}")
        return self.number
