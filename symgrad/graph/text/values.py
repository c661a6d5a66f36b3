"""Parser of the graph IR for types, sizes, attributes and literals.

How they are written is in `print.py`; ops, nodes and their names are read in `parse.py`.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import operator
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.dtypes import BY_SHORT, DType
from symgrad.graph.foreign_functions import ForeignFunction, is_symbol
from symgrad.graph.rounding import convert_numbers
from symgrad.graph.sizes import Dim, add_up, at_least, at_most, divide, unknown
from symgrad.graph.text.tokens import Tokens, error_at
from symgrad.graph.types import Array, ArrayLiteral, Attr, TensorType
from symgrad.records import dataclass

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Packed:
    """The bytes of a literal whose type is not read yet."""

    compressed: bytes


# What stands after `name =`: a constant's value becomes a literal when its type has been read.
Value = Attr | Packed

_AXES = 64  # of a type, as many as NumPy has
_LIMIT = 1 << 63  # what a size of an axis, and a number of bytes, is below
_LARGEST = 1 << 127  # what a number within a size is below
_DEPTH = 60  # how deep brackets may nest, far below what Python's stack takes
_WORDS: dict[str, Attr] = {
    "true": True,
    "false": False,
    "none": None,
    "inf": float("inf"),
    "nan": float("nan"),
    **BY_SHORT,
}
_ROUNDED: dict[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": divide,
    "min": at_most,
    "max": at_least,
}


class Values:
    """Reads values from `tokens`; one for each graph, since `?0` is a new size in each."""

    def __init__(self, tokens: Tokens, text: str) -> None:
        self._tokens = tokens
        self._depth = 0
        # By the kind of the first token, and by its text: a word may be spelt as a kind is called.
        self._by_kind: dict[str, Callable[[], Value]] = {
            "string": self.string,
            "float": self._float,
            "bytes": self._packed,
        }
        self._by_text: dict[str, Callable[[], Value]] = {
            "literal": self._literal,
            "extern": self._foreign,
            "[": self._tuple,
            "-": self._negative,
            "<": self._elided,
        }
        # Made in the order of their numbers, which is what numbering them again goes by.
        names = sorted(set(re.findall(r"\?\d+", text)), key=lambda name: (len(name), name))
        self._unknowns = {name: unknown() for name in names}

    def type(self) -> TensorType:
        """Read a type such as `f32[32, n]`."""
        word = self._tokens.expect_kind("word", "a type")
        dtype = self._dtype(word.text, word.line)
        self._tokens.expect("[")
        shape = tuple(self.list_until("]", self._axis))
        if len(shape) > _AXES:
            raise error_at(word.line, f"a type has {len(shape)} axes, more than {_AXES}")
        return TensorType(dtype, shape)

    def _dtype(self, name: str, line: int) -> DType:
        if name not in BY_SHORT:
            raise error_at(line, f"{name!r} is no dtype, one of {', '.join(BY_SHORT)}")
        return BY_SHORT[name]

    def _axis(self) -> Dim:
        line, size = self._tokens.next.line, self.size()
        if isinstance(size, int) and not 0 <= size < _LIMIT:
            raise error_at(line, f"{size} is no size of an axis")
        return size

    def list_until(self, end: str, read: Callable[[], _Item]) -> list[_Item]:
        """Read items divided by commas, and the `end` after them."""
        items: list[_Item] = []
        while not self._tokens.take_if(end):
            if items:
                self._tokens.expect(",")
            items.append(read())
        return items

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Read what is between brackets, which may not nest too deep."""
        self._depth += 1
        if self._depth > _DEPTH:
            raise self._tokens.wrong(f"brackets nest more than {_DEPTH} deep")
        yield
        self._depth -= 1

    def size(self) -> Dim:
        """Read a size: a sum of products, such as `2*n*m-1`."""
        with self.nested():
            return self._sum(is_negative=self._tokens.take_if("-"))

    def _sum(self, *, is_negative: bool) -> Dim:
        """Read what is left of a sum, and add it up at once: one by one would be quadratic."""
        line = self._tokens.next.line
        terms = [self._term(is_negative=is_negative)]
        while self._tokens.next.text in ("+", "-"):
            terms.append(self._term(is_negative=self._tokens.take().text == "-"))
        return self._bounded(line, add_up, terms)

    def _term(self, *, is_negative: bool) -> Dim:
        product = self._product()
        return -product if is_negative else product

    def _product(self) -> Dim:
        line = self._tokens.next.line
        numbers: Dim = 1  # apart, so that a long sum is multiplied by them once
        product: Dim = 1
        for factor in self._factors():
            if isinstance(factor, int):
                numbers = self._bounded(line, operator.mul, numbers, factor)
            else:
                product = self._bounded(line, operator.mul, product, factor)
        return self._bounded(line, operator.mul, product, numbers)

    def _factors(self) -> Iterator[Dim]:
        yield self._factor()
        while self._tokens.take_if("*"):
            yield self._factor()

    def _bounded(self, line: int, make: Callable[..., Dim], *parts: Any) -> Dim:
        """Return a size made of others, unless it is too large a number or too long a sum."""
        try:
            size = make(*parts)
        except ShapeError as error:
            raise error_at(line, error.problem) from error
        if isinstance(size, int) and abs(size) >= _LARGEST:
            raise error_at(line, "a size is too large")
        return size

    def _factor(self) -> Dim:
        if self._tokens.take_if("("):
            inner = self.size()
            self._tokens.expect(")")
            return inner
        kind = self._tokens.next.kind
        if kind == "int":
            return self.integer()
        if kind == "unknown":
            return self._unknowns[self._tokens.take().text]
        if kind == "dim":
            return unknown(self.string(prefix="dim"))
        if kind == "word":
            return self._named_size()
        raise self._tokens.wrong("expected a size")

    def _named_size(self) -> Dim:
        word = self._tokens.take()
        if self._tokens.next.text != "(" and word.text not in _WORDS and "." not in word.text:
            return unknown(word.text)
        if word.text not in _ROUNDED:
            raise error_at(word.line, f"{word.text!r} is no size")
        self._tokens.expect("(")
        first, second = self.size(), self._second_size()
        if second == 0 and word.text == "floordiv":
            raise error_at(word.line, "a size is divided by 0")
        return self._bounded(word.line, _ROUNDED[word.text], first, second)

    def _second_size(self) -> Dim:
        self._tokens.expect(",")
        size = self.size()
        self._tokens.expect(")")
        return size

    def integer(self) -> int:
        """Read an int without a sign."""
        token = self._tokens.expect_kind("int", "an int")
        if len(token.text) > 40 or int(token.text) >= _LARGEST:
            raise error_at(token.line, f"{token.text[:40]}... is too large")
        return int(token.text)

    def string(self, prefix: str = "") -> str:
        """Read a string that has `prefix` before its quotes."""
        token = self._tokens.expect_kind(prefix or "string", "a string")
        return unquote(token.text.removeprefix(prefix), token.line)

    def value(self) -> Value:
        """Read the value of an attribute."""
        token = self._tokens.next
        if token.kind in self._by_kind:
            return self._by_kind[token.kind]()
        if token.text in self._by_text:
            return self._by_text[token.text]()
        if token.text in _WORDS:
            return _WORDS[self._tokens.take().text]
        return self.size()

    def _float(self) -> float:
        return float(self._tokens.take().text)

    def _elided(self) -> Value:
        raise self._tokens.wrong("expected a value; one that was elided cannot be read")

    def _attr(self) -> Attr:
        line = self._tokens.next.line
        return complete(self.value(), line)

    def _tuple(self) -> tuple[Attr, ...]:
        self._tokens.expect("[")
        with self.nested():
            return tuple(self.list_until("]", self._attr))

    def _negative(self) -> Attr:
        """Read what begins with a minus: a float, or a size whose first term has it."""
        self._tokens.expect("-")
        token = self._tokens.next
        if token.kind == "float" or token.text in ("inf", "nan"):
            return -float(self._tokens.take().text)
        with self.nested():
            return self._sum(is_negative=True)

    def _packed(self) -> Packed:
        line = self._tokens.next.line
        try:
            return Packed(base64.b64decode(self.string(prefix="bytes"), validate=True))
        except binascii.Error as error:
            raise error_at(line, f"bytes are no base64: {error}") from error

    def _foreign(self) -> ForeignFunction:
        line = self._tokens.expect("extern").line
        name = self.string()
        if not is_symbol(name):
            raise error_at(line, f"{name!r} is no name of a function of C")
        return ForeignFunction(name)

    def _literal(self) -> ArrayLiteral:
        line = self._tokens.expect("literal").line
        type_ = self.type()
        return as_literal(self.value(), type_, line)


def unquote(text: str, line: int) -> str:
    """Return the string that `text` is, with its quotes."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise error_at(line, f"{text} is no string: {error}") from error
    assert isinstance(value, str), "what is quoted is a string"
    return value


def complete(value: Value, line: int) -> Attr:
    """Return `value` as an attribute, which bytes without a type are not."""
    if isinstance(value, Packed):
        raise error_at(line, "bytes without a type")
    return value


def check_storable(type_: TensorType, line: int) -> None:
    """Raise `GraphError` unless there may be an array of `type_`, which has no unknown sizes."""
    # NumPy leaves out axes of size 0 when it looks whether the bytes can be counted.
    if math.prod(filter(None, type_.static_shape)) * type_.dtype.itemsize >= _LIMIT:
        raise error_at(line, f"{type_} has more bytes than there are addresses")


def as_literal(value: Value, type_: TensorType, line: int) -> ArrayLiteral:
    """Return the constant of `type_` with the elements that were read."""
    if not type_.is_static:
        raise error_at(line, f"a constant has no type {type_}")
    check_storable(type_, line)
    if type_.dtype.is_complex:
        parts = TensorType(type_.dtype.real, (*type_.shape, 2))
        reals = as_literal(value, parts, line).array
        return ArrayLiteral(reals.reshape(-1).view(type_.dtype.numpy).reshape(type_.static_shape))
    if isinstance(value, Packed):
        return ArrayLiteral(_unpack(value, type_, line))
    elements = _flatten(value, type_.static_shape, type_, line)
    # Through float64, as the printer assumes; an int too large for its dtype is an error.
    first = np.dtype(np.float64) if type_.dtype.is_float else type_.dtype.numpy
    try:
        with np.errstate(over="ignore"):
            array = convert_numbers(np.array(elements, first), type_.dtype)
    except OverflowError as error:
        raise error_at(line, f"an element does not fit {type_.dtype}: {error}") from error
    return ArrayLiteral(array.reshape(type_.static_shape))


def _flatten(value: Attr, shape: tuple[int, ...], type_: TensorType, line: int) -> list[Attr]:
    if not shape:
        allowed = {"bool": (bool,), "float": (int, float)}.get(type_.dtype.kind, (int,))
        if type(value) not in allowed:
            raise error_at(line, f"{value!r} is no element of {type_}")
        return [value]
    if not isinstance(value, tuple) or len(value) != shape[0]:
        raise error_at(line, f"the elements have not the shape of {type_}")
    return [element for part in value for element in _flatten(part, shape[1:], type_, line)]


def _unpack(value: Packed, type_: TensorType, line: int) -> Array:
    # One byte more than is wanted is enough to see that there are too many: what a few bytes
    # expand to has no limit.
    try:
        raw = zlib.decompressobj().decompress(value.compressed, type_.nbytes + 1)
    except (zlib.error, MemoryError) as error:
        raise error_at(line, f"bytes cannot be expanded: {error}") from error
    if len(raw) != type_.nbytes:
        raise error_at(line, f"the bytes are not the {type_.nbytes} of {type_}")
    array = np.frombuffer(raw, type_.dtype.numpy)
    if type_.dtype.is_bool and np.frombuffer(raw, np.uint8).max(initial=0) > 1:
        raise error_at(line, f"the bytes are not those of {type_}")
    return array.reshape(type_.static_shape)
