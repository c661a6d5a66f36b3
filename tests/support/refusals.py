"""Asserting the full text of an error, with the user's line in it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from symgrad.errors import SymgradError


def line_of(function: Callable[..., Any], offset: int = 1) -> str:
    """Return a line of `function` as messages say it; the one after its first by default."""
    code = function.__code__
    return f"{Path(code.co_filename).name}:{code.co_firstlineno + offset} in {code.co_name}"


def assert_refused(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    """Assert that `call`, a function of one line, raises `error` with `text`.

    `text` may be indented; `<here>` in it stands for the line of `call`.
    """
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, SymgradError)
    wanted = textwrap.dedent(text).strip("\n")
    assert str(caught.value) == wanted.replace("<here>", line_of(call, 0))
