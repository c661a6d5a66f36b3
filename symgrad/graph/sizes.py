"""Symbolic sizes (dynamic shapes): axes whose size is only known when a program is called.

A dim is an `int` or a `Size`: a polynomial with integer coefficients over atoms, where an atom is
a named unknown or a floor division, minimum or maximum of sizes. Equal sizes are equal objects, so
two axes may be compared at build time; what cannot be decided then is checked when the unknowns
are known. An unknown is never taken to be 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal, Union

import numpy as np

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph.late_binding import provided
from symgrad.records import dataclass

_anonymous = itertools.count()

# Sums and products of sums grow without end, and so does the time each operation on them takes.
# No program comes near these: names and numbers in all of a size, factors in a product.
_LONGEST, _HIGHEST = 4096, 128
_COEFFICIENT = 1 << 63


@dataclass(frozen=True, slots=True)
class Unknown:
    """An unknown size; one that the user did not name prints as `?3`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Rounded:
    """`floordiv`, `min` or `max` of two sizes."""

    function: Literal["floordiv", "min", "max"]
    first: Dim
    second: Dim

    def __str__(self) -> str:
        return f"{self.function}({self.first}, {self.second})"


Atom = Union[Unknown, "Rounded"]
Monomial = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """A sum of `coefficient * monomial`; the monomials are sorted by their text and distinct.

    What `+`, `-`, `*`, `//` and `%` make of sizes and ints is a size, and so is a small power.
    Everything else, such as a quotient, a comparison or what a float or an array takes part in, is
    a tensor, in which the size is an int64 scalar; so Python cannot branch on it. But `==` and `!=`
    with sizes and numbers ask whether two sizes are the same one, which is known at once.
    """

    terms: tuple[tuple[Monomial, int], ...]
    length: int = field(init=False, compare=False)  # names and numbers in its text, about

    def __post_init__(self) -> None:
        length = sum(1 + sum(map(_length, monomial)) for monomial, _ in self.terms)
        object.__setattr__(self, "length", length)
        coefficient = max(abs(c) for _, c in self.terms)
        degree = max(len(monomial) for monomial, _ in self.terms)
        if length > _LONGEST or degree > _HIGHEST or coefficient >= _COEFFICIENT:
            raise _too_large()

    # Not an object to compute with for each element of an array: NumPy leaves it to the size.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Dim:
        if not isinstance(other, int | Size):
            return _by_tensors("__add__", self, other)
        return _from_terms(*_terms(self), *_terms(other))

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self * -1

    def __pos__(self) -> Dim:
        return self

    def __abs__(self) -> Dim:
        return self if is_natural(self) else at_least(self, -self)

    def __sub__(self, other: Any) -> Dim:
        if not isinstance(other, int | Size):
            return _by_tensors("__sub__", self, other)
        return self + (-other)

    def __rsub__(self, other: Any) -> Dim:
        if not isinstance(other, int | Size):
            return _by_tensors("__rsub__", self, other)
        return (-self) + other

    def __mul__(self, other: Any) -> Dim:
        if not isinstance(other, int | Size):
            return _by_tensors("__mul__", self, other)
        if other == 1:
            return self  # where most products begin
        if isinstance(other, Size):
            # What the terms of the product take before those that are equal are added up.
            length = len(self.terms) * other.length + len(other.terms) * self.length
            if length > 4 * _LONGEST:
                raise _too_large()
        products = itertools.product(_terms(self), _terms(other))
        return _from_terms(*((_product(a, b), m * n) for (a, m), (b, n) in products))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Dim:
        is_exact = isinstance(other, int | Size) and other != 0
        return divide(self, other) if is_exact else _by_tensors("__floordiv__", self, other)

    def __rfloordiv__(self, other: Any) -> Dim:
        is_exact = isinstance(other, int)
        return divide(other, self) if is_exact else _by_tensors("__rfloordiv__", self, other)

    def __mod__(self, other: Any) -> Dim:
        is_exact = isinstance(other, int | Size) and other != 0
        return self - self // other * other if is_exact else _by_tensors("__mod__", self, other)

    def __rmod__(self, other: Any) -> Dim:
        is_exact = isinstance(other, int)
        return other - other // self * self if is_exact else _by_tensors("__rmod__", self, other)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any) -> Any:
        is_exact = isinstance(other, int) and 0 <= other <= _MOST_FACTORS
        return math.prod([self] * other) if is_exact else _by_tensors("__pow__", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _by_tensors("__rpow__", self, other)

    def __truediv__(self, other: Any) -> Any:
        return _by_tensors("__truediv__", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _by_tensors("__rtruediv__", self, other)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, np.ndarray):
            return _by_tensors("__eq__", self, other)
        return self.terms == other.terms if isinstance(other, Size) else NotImplemented

    def __ne__(self, other: object) -> Any:
        if isinstance(other, np.ndarray):
            return _by_tensors("__ne__", self, other)
        return self.terms != other.terms if isinstance(other, Size) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return _by_tensors("__lt__", self, other)

    def __le__(self, other: Any) -> Any:
        return _by_tensors("__le__", self, other)

    def __gt__(self, other: Any) -> Any:
        return _by_tensors("__gt__", self, other)

    def __ge__(self, other: Any) -> Any:
        return _by_tensors("__ge__", self, other)

    def __bool__(self) -> bool:
        if is_natural(self - 1):
            return True
        raise _unknown_now(self, "a bool", "compare it, and use sg.where or sg.cond")

    def __index__(self) -> int:
        raise _unknown_now(self, "an int", _WAYS)

    __int__ = __index__

    def __float__(self) -> float:
        raise _unknown_now(self, "a float", _WAYS)

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            sign = "-" if coefficient < 0 else ("+" if text else "")
            factors = [str(atom) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            text += sign + "*".join(factors)
        return text

    __repr__ = __str__


Dim = int | Size

_MOST_FACTORS = 8  # of a power that is a size: it prints as a product
_OPS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


_WAYS = "compute with it as it is, with sg.arange and sg.fori_loop, or give the placeholder a size"


def _unknown_now(size: Size, wanted: str, hint: str) -> DTypeError:
    problem = f"{size} is known when a program is called, and has no value to make {wanted} of"
    return DTypeError("size", problem, hint=hint, source=user_source())


def _by_tensors(method: str, size: Size, other: object) -> Dim:
    """Apply the op of an operator; what is no number takes part in it itself, as a tensor does.

    The result is typed as that of sizes and ints, which is what a caller that has types has.
    """
    result: Dim = NotImplemented
    name = method.strip("_")
    is_reflected = name not in _OPS
    if isinstance(other, np.integer):
        result = getattr(size, method)(int(other))
    elif isinstance(other, int | float | np.generic | np.ndarray | Size):
        operands = (other, size) if is_reflected else (size, other)
        result = provided(_OPS[name.removeprefix("r") if is_reflected else name])(*operands)
    return result


def _length(atom: Atom) -> int:
    if isinstance(atom, Unknown):
        return 1
    return 1 + sum(1 if isinstance(s, int) else s.length for s in (atom.first, atom.second))


def _too_large() -> ShapeError:
    problem = "a sum of products of unknown sizes is too long, or a number in it too large"
    return ShapeError("size", problem, source=user_source())


def unknown(name: str | None = None) -> Dim:
    """Return the size called `name`, or a new one unlike every other."""
    chosen = f"?{next(_anonymous)}" if name is None else name
    return Size((((Unknown(chosen),), 1),))


def add_up(sizes: Iterable[Dim]) -> Dim:
    """Return the sum of `sizes`, in much less time than one addition after another takes."""
    return _from_terms(*(term for size in sizes for term in _terms(size)))


def divide(size: Dim, by: Dim) -> Dim:
    """Return `size // by`, exactly where every coefficient divides."""
    if isinstance(size, int) and isinstance(by, int):
        return size // by
    if size == by:
        return 1
    if isinstance(by, int) and all(c % by == 0 for _, c in _terms(size)):
        return _from_terms(*((m, c // by) for m, c in _terms(size)))
    exact = _divide_by_monomial(size, by)
    if exact is not None:
        return exact
    return _from_atom(Rounded("floordiv", size, by))


def _divide_by_monomial(size: Dim, by: Dim) -> Dim | None:
    if isinstance(by, int) or len(by.terms) != 1:
        return None
    ((divisor, factor),) = by.terms
    quotient = []
    for monomial, coefficient in _terms(size):
        left = list(monomial)
        for atom in divisor:
            if atom not in left:
                return None
            left.remove(atom)
        if coefficient % factor:
            return None
        quotient.append((tuple(left), coefficient // factor))
    return _from_terms(*quotient)


def at_least(size: Dim, bound: Dim) -> Dim:
    """Return `max(size, bound)`."""
    if isinstance(size, int) and isinstance(bound, int):
        return max(size, bound)
    if is_natural(size - bound):
        return size
    if is_natural(bound - size):
        return bound
    return _from_atom(Rounded("max", size, bound))


def at_most(size: Dim, bound: Dim) -> Dim:
    """Return `min(size, bound)`."""
    if isinstance(size, int) and isinstance(bound, int):
        return min(size, bound)
    if is_natural(bound - size):
        return size
    if is_natural(size - bound):
        return bound
    return _from_atom(Rounded("min", size, bound))


def is_natural(size: Dim) -> bool:
    """Return whether `size` is seen to be non-negative from its form alone."""
    if isinstance(size, int):
        return size >= 0
    return all(c >= 0 and all(_is_natural_atom(a) for a in m) for m, c in size.terms)


def _is_natural_atom(atom: Atom) -> bool:
    match atom:
        case Unknown():
            return True
        case Rounded("max", first, second):
            return is_natural(first) or is_natural(second)
        case Rounded(_, first, second):
            return is_natural(first) and is_natural(second)


def substitute(size: Dim, values: Mapping[str, Dim]) -> Dim:
    """Return `size` with the unknowns named in `values` replaced."""
    if isinstance(size, int):
        return size
    total: Dim = 0
    for monomial, coefficient in size.terms:
        product: Dim = coefficient
        for atom in monomial:
            product = product * _substitute_atom(atom, values)
        total = total + product
    return total


def _substitute_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if isinstance(atom, Unknown):
        return values[atom.name] if atom.name in values else _from_atom(atom)
    first, second = substitute(atom.first, values), substitute(atom.second, values)
    apply = {"floordiv": divide, "min": at_most, "max": at_least}[atom.function]
    return apply(first, second)


def unknowns_of(size: Dim) -> tuple[str, ...]:
    """Return the names of the unknowns in `size`, in the order in which they print."""
    if isinstance(size, int):
        return ()
    names: list[str] = []
    for monomial, _ in size.terms:
        for atom in monomial:
            if isinstance(atom, Unknown):
                names.append(atom.name)
            else:
                names.extend((*unknowns_of(atom.first), *unknowns_of(atom.second)))
    return tuple(dict.fromkeys(names))


def _terms(size: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(size, int):
        return (((), size),) if size else ()
    return size.terms


def _from_terms(*terms: tuple[Monomial, int]) -> Dim:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in total.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    # The constant comes last, so that `n-1` reads as it was written.
    return Size(tuple(sorted(kept, key=lambda term: (not term[0], str(term[0])))))


def _product(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted((*a, *b), key=str))


def _from_atom(atom: Atom) -> Dim:
    return Size((((atom,), 1),))
