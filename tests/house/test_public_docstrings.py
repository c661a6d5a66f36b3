"""Every public name has a docstring, and every public callable an example that shows a result.

What is public is read off the package (`tools/public_names.py`): the modules of `sg`, their names,
and the methods of their classes. The examples are run by `tests/docs/test_docstring_examples.py`.
"""

from __future__ import annotations

import re

from tests.support.doc_examples import example_without_result
from tools.public_names import PublicName, faces, public_names

NAMES = list(public_names())
_HINT = """
Give each two to five lines that show what comes back, such as

    >>> sg.run(sg.square([3.0, -2.0]))
    array([9., 4.], dtype=float32)

`sg` and `np` need no import; `pytest tests/docs/test_docstring_examples.py` runs them."""


def _origin(name: PublicName) -> str:
    module = getattr(name.value, "__module__", "?")
    return f"{name.name} ({module})"


def test_the_modules_of_users_are_found():
    assert {"sg", "sg.nn", "sg.nn.init", "sg.optim.schedules", "sg.testing"} <= set(faces())
    assert {"sg.Tensor.sum", "sg.random.Generator.normal"} <= {name.name for name in NAMES}


def test_every_public_name_has_a_docstring():
    bare = [_origin(n) for n in NAMES if not n.is_constant and not n.docstring.strip()]
    assert not bare, "public names without a docstring:\n" + "\n".join(bare)


def test_every_public_callable_has_an_example():
    bare = [_origin(n) for n in NAMES if n.is_callable and ">>>" not in n.docstring]
    assert not bare, "public callables without an example:\n" + "\n".join(bare) + _HINT


def test_every_example_shows_a_result():
    shown = [n for n in NAMES if n.is_callable and ">>>" in n.docstring]
    empty = [_origin(n) for n in shown if example_without_result(n.docstring)]
    assert not empty, "examples that assert nothing:\n" + "\n".join(empty) + _HINT


def test_code_in_a_docstring_is_an_example_that_runs():
    """What is indented may be a formula or a file; what calls symgrad is code."""
    code = re.compile(r"\n\n(?: {4,}.*\n)*? {4,}[^>\n]*\bsg\.\w+.*\(")
    unrun = [
        _origin(n)
        for n in NAMES
        if not n.is_constant and code.search("\n" + n.docstring.partition(">>>")[0])
    ]
    assert not unrun, "code that no test runs:\n" + "\n".join(unrun) + _HINT
