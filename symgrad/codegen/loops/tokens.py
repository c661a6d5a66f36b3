"""Lexer of the loop IR: a position among the tokens, and what is read from a few of them.

Names, numbers, dtypes and indices are read here; constants, statements and all that needs to know
what a name stands for are read in `parse.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from symgrad.codegen.loops.blocking import Share
from symgrad.codegen.loops.language import Index, IndexAtom, Mode, Modulus, Number, Quotient
from symgrad.codegen.loops.strided import NO_SHIFT, Diagonals, Digit, PrefetchedPart, ZeroBorder
from symgrad.errors import GraphError
from symgrad.graph.dtypes import BY_SHORT, DType

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<name>[A-Za-z_]\w*(?:\.\w+)*)
      | (?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)
      | (?P<symbol>\.\.|//|[-+*%@{}()\[\]:,=])
      | (?P<end>\Z)
    )""",
    re.ASCII | re.VERBOSE,
)

WORDS: dict[str, Number] = {"true": True, "false": False, "inf": math.inf, "nan": math.nan}
_MODES: tuple[Mode, ...] = ("in", "out", "inout", "scratch")
_DEPTH = 100  # how deep brackets may nest, far below what Python's stack takes
_DIGITS = 40  # of an integer, more than one of 64 bits has


class TokenReader:
    """A position in the tokens of a text; line breaks and indentation mean nothing.

    `first_line` is the number of its first line, for errors.
    """

    def __init__(self, text: str, first_line: int = 1) -> None:
        self._text = text
        self._first_line = first_line
        self._tokens: list[str] = []
        self._kinds: list[str] = []
        self._starts: list[int] = []
        self._at = 0
        self._depth = 0
        self._split()

    def _split(self) -> None:
        end = 0
        while not self._kinds or self._kinds[-1] != "end":
            match = _TOKEN.match(self._text, end)
            if match is None:
                start = len(self._text) - len(self._text[end:].lstrip())
                raise self._error(f"{self._text[start]!r} means nothing", start)
            kind = match.lastgroup
            assert kind is not None, "every alternative of a token has a name"
            self._tokens.append(match[kind])
            self._kinds.append(kind)
            self._starts.append(match.start(kind))
            end = match.end()

    # ---------------------------------------------------------------------------------- errors

    def _error(self, problem: str, offset: int) -> GraphError:
        line = self._first_line + self._text.count("\n", 0, offset)
        return GraphError(f"kernel text, line {line}", problem)

    def refused(self, problem: str) -> GraphError:
        """Return the error for what was read last."""
        return self._error(problem, self._starts[max(self._at - 1, 0)])

    def expected(self, what: str) -> GraphError:
        """Return the error for a token that is not what the form of a kernel asks for."""
        found = repr(self.token) if self.token else "the end"
        return self._error(f"expected {what}, found {found}", self._starts[self._at])

    # ---------------------------------------------------------------------------------- tokens

    @property
    def token(self) -> str:
        """The token ahead, '' at the end."""
        return self._tokens[self._at]

    @property
    def kind(self) -> str:
        """The kind of the token ahead: name, number, symbol or end."""
        return self._kinds[self._at]

    def next_is(self, token: str, ahead: int = 0) -> bool:
        at = self._at + ahead
        return at < len(self._tokens) and self._tokens[at] == token

    def accept(self, token: str) -> bool:
        """Take the token if it is next."""
        found = self.token == token
        self._at += found
        return found

    def take(self, *tokens: str) -> None:
        for token in tokens:
            if not self.accept(token):
                raise self.expected(repr(token))

    def any_token(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def name(self) -> str:
        if self.kind != "name":
            raise self.expected("a name")
        return self.any_token()

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        if not self.token.isdecimal():
            raise self.expected("an integer")
        return sign * self.whole(self.any_token())

    def checked_extent(self) -> tuple[int, bool]:
        """Take `10` or `0..10`; return the number and whether it stands behind the dots."""
        extent = self.integer()
        has_dots = extent == 0 and self.accept("..")
        return (self.integer() if has_dots else extent), has_dots

    def whole(self, digits: str) -> int:
        """Return the number that `digits` are, which were read last."""
        if len(digits) > _DIGITS:
            raise self.refused(f"{digits[:_DIGITS]}... is too large")
        return int(digits)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Read what is between brackets, which may not nest too deep."""
        self._depth += 1
        if self._depth > _DEPTH:
            raise self.refused(f"brackets nest more than {_DEPTH} deep")
        yield
        self._depth -= 1

    def integers(self, count: int) -> tuple[int, ...]:
        """Take `(1, 2, 3)`."""
        self.take("(")
        numbers = [self.integer()]
        for _ in range(count - 1):
            self.take(",")
            numbers.append(self.integer())
        self.take(")")
        return tuple(numbers)

    def stride(self) -> tuple[int, tuple[Digit, ...]]:
        """Take `64 56:3712`: the stride of an axis and its digits."""
        stride, digits = self.integer(), []
        while self.kind == "number":
            place = self.integer()
            self.take(":")
            digits.append((place, self.integer()))
        return stride, tuple(digits)

    def borders(self) -> Iterator[ZeroBorder]:
        """Take `border(8, 7, 1)(512, 3, 1)(1, 8) absent(...)...`, as many as there are."""
        while (absent := self.accept("absent")) or self.accept("border"):
            (row, rows, by), (term, terms, on) = self.integers(3), self.integers(3)
            first, stop = self.integers(2)
            yield ZeroBorder(row, rows, by, term, terms, on, first, stop, absent)

    def diagonals(self, word: str) -> Diagonals | None:
        """Take `word(-63, 1)` if it is there."""
        if not self.accept(word):
            return None
        first, stop = self.integers(2)
        return first, stop

    def shift(self) -> Index:
        """Take `shift[64*i]` if it is there."""
        return self.bracketed_index() if self.accept("shift") else NO_SHIFT

    def prefetched_part(self) -> PrefetchedPart | None:
        """Take `prefetches(0, 352, 2)` if it is there."""
        return PrefetchedPart(*self.integers(3)) if self.accept("prefetches") else None

    def dtype(self) -> DType:
        name = self.name()
        if name not in BY_SHORT:
            raise self.refused(f"{name} is no dtype")
        return BY_SHORT[name]

    def range(self) -> tuple[str, int]:
        """Take `i in 0..10`."""
        var = self.name()
        self.take("in", "0", "..")
        return var, self.integer()

    def number(self, token: str, is_negative: bool, dtype: DType) -> Number:
        if dtype.is_float and token not in ("true", "false"):
            return -float(token) if is_negative else float(WORDS.get(token, token))
        if dtype.is_integer and token.isdecimal():
            return -self.whole(token) if is_negative else self.whole(token)
        if dtype.is_bool and token in ("true", "false") and not is_negative:
            return WORDS[token]
        raise self.refused(f"{token} is no {dtype}")

    def mode(self) -> Mode:
        for mode in _MODES:
            if self.accept(mode):
                return mode
        raise self.expected("in, out, inout or scratch")

    # ----------------------------------------------------------------------------------- marks

    def marked_number(self, word: str) -> int:
        """Take `word(8)`, or nothing, which means 1."""
        return self.integers(1)[0] if self.accept(word) else 1

    def axis_range(self) -> tuple[str, int]:
        self.take("(")
        axis = self.range()
        self.take(")")
        return axis

    def packed(self) -> tuple[str, ...]:
        self.take("pack", "(")
        packed: list[str] = []
        while not self.accept(")"):
            if packed:
                self.take(",")
            packed.append(self.name())
        return tuple(packed)

    def along(self) -> Literal["m", "n"]:
        self.take("along", "(")
        along = self.axis()
        self.take(")")
        return along

    def axis(self) -> Literal["m", "n"]:
        axis: Literal["m", "n"] = "m" if self.next_is("m") else "n"
        self.take(axis)
        return axis

    def share(self) -> Share:
        self.take("(")
        axis = self.axis()
        self.take(",")
        tiles = self.integer()
        self.take("of")
        of = self.integer()
        by = self.integer() if self.accept("by") else None
        self.take(")")
        return Share(axis, tiles, of, by)

    # --------------------------------------------------------------------------------- indices

    def bracketed_index(self) -> Index:
        self.take("[")
        index = self.index()
        self.take("]")
        return index

    def index(self) -> Index:
        const = 0
        terms: list[tuple[IndexAtom, int]] = []
        sign = -1 if self.accept("-") else 1
        while True:
            term = self._term()
            if isinstance(term, int):
                const += sign * term
            else:
                terms.append((term[0], sign * term[1]))
            if not (self.next_is("+") or self.next_is("-")):
                return Index(const, tuple(terms))
            sign = 1 if self.any_token() == "+" else -1

    def _term(self) -> int | tuple[IndexAtom, int]:
        if self.kind != "number":
            return self._index_atom(), 1
        number = self.integer()
        return (self._index_atom(), number) if self.accept("*") else number

    def _index_atom(self) -> IndexAtom:
        if self.kind == "name":
            name = self.name()
            return self._divided(Index(0, ((name, 1),))) or name
        self.take("(")
        with self.nested():
            inner = self.index()
        self.take(")")
        divided = self._divided(inner)
        if divided is not None:
            return divided
        # `2*(i // 4)`: the parentheses were around a single atom.
        if inner.const or len(inner.terms) != 1 or inner.terms[0][1] != 1:
            raise self.expected("'//' or '%'")
        return inner.terms[0][0]

    def _divided(self, index: Index) -> Quotient | Modulus | None:
        if self.accept("//"):
            return Quotient(index, self.integer())
        return Modulus(index, self.integer()) if self.accept("%") else None
