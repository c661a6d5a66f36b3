"""Lexer of the graph IR: the words of a text, with their lines, and a cursor over them.

Nothing here knows what the words mean.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from symgrad.errors import GraphError
from symgrad.graph.text.print import NAME

_STRING = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
_TOKEN = re.compile(
    rf"""
      (?P<newline> \n )
    | (?P<space>   [^\S\n]+ )
    | (?P<comment> //[^\n]* )
    | (?P<result>  %(?:\d+|{NAME}) )
    | (?P<string>  {_STRING} )
    | (?P<dim>     dim{_STRING} )
    | (?P<bytes>   bytes{_STRING} )
    | (?P<unknown> \?\d+ )
    | (?P<float>   \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+ )
    | (?P<int>     \d+ )
    | (?P<word>    [^\W\d][\w.]* )
    | (?P<graph>   @(?:{NAME}|{_STRING}) )
    | (?P<mark>    -> | [][(){{}}<>=,:+*-] )
    | (?P<wrong>   . )
    """,
    re.VERBOSE,
)
_QUOTED = 60  # characters of the offending text that an error shows


class Token(NamedTuple):
    """A word of the text; its kind is a group of the pattern above, or `end`."""

    kind: str
    text: str
    line: int


class Tokens:
    """A cursor over the words of a text: `next` is the one to be taken."""

    def __init__(self, text: str) -> None:
        self._matches = _TOKEN.finditer(text)
        self._line = 1
        self._comments: dict[int, str] = {}
        self.next = self._read()

    def _read(self) -> Token:
        for match in self._matches:
            kind = match.lastgroup or ""
            if kind == "newline":
                self._line += 1
            elif kind == "comment":
                self._comments[self._line] = match[0]
            elif kind != "space":
                return Token(kind, match[0], self._line)
        return Token("end", "", self._line)

    def take(self) -> Token:
        """Take the next word, whatever it is."""
        token, self.next = self.next, self._read()
        return token

    def take_if(self, text: str) -> bool:
        """Take the next word if it is `text`, and say whether it was."""
        found = self.next.text == text
        if found:
            self.take()
        return found

    def expect(self, text: str) -> Token:
        """Take the next word, which must be `text`."""
        if self.next.text != text:
            raise self.wrong(f"expected {text!r}")
        return self.take()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Take the next word, which must be of `kind`; an error calls it `what`."""
        if self.next.kind != kind:
            raise self.wrong(f"expected {what}")
        return self.take()

    def comment(self, line: int) -> str:
        """Pop the comment at the end of `line`; '' if there is none."""
        return self._comments.pop(line, "")

    def wrong(self, expected: str) -> GraphError:
        """Return the error that something else was expected in the place of the next word."""
        found = self.next.text
        shown = found if len(found) <= _QUOTED else found[:_QUOTED] + "..."
        text = repr(shown) if self.next.kind != "end" else "the end of the text"
        return error_at(self.next.line, f"{expected}, found {text}")


def error_at(line: int, problem: str) -> GraphError:
    """Return the error that the text is wrong in `line`."""
    return GraphError("graph text", f"line {line}: {problem}")
