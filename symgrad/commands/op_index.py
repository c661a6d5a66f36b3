"""Subcommand `ops`: the index of public ops, made of their declarations.

What an op is called elsewhere, in NumPy or as an operator, stands in its declaration
(`symgrad/graph/public_ops.py`) and is not looked for here. `docs/ops.md` is the same index.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Iterator
from typing import Any

from symgrad.commands.loading import CommandError
from symgrad.frontend import numpy_dispatch as numpy_dispatch  # which has adapters declared
from symgrad.frontend.numpy_arguments import ADAPTERS
from symgrad.graph.node import Tensor
from symgrad.graph.operators import Operators
from symgrad.graph.public_ops import PUBLIC_OPS, PublicOp
from symgrad.late_modules import load_awaited

HEAD = """\
# The ops

Every function of `sg`, `sg.nn`, `sg.special`, `sg.linalg` and `sg.fft` that is known as an op: it
takes tensors, arrays and numbers and gives a tensor, or maps over the leaves of containers. Made by
`python tools/update_ops.py`.

A name in bold is one of the Array API standard, which `x.__array_namespace__()` has too. The last
column has what stands for the op on a tensor: operators and methods, and NumPy's functions.

| op | result | on tensors also |
| --- | --- | --- |
"""


def ops_text(wanted: str | None) -> str:
    """Return the index; with `wanted`, the ops that have it in their row, and what one is in full.

    Raises `CommandError` if no row has it.
    """
    if wanted is None:
        return page()
    rows = [line for line in page().removeprefix(HEAD).splitlines() if wanted in line]
    if not rows:
        raise CommandError("ops", f"no op has {wanted!r} in its name, its summary or its others")
    op = PUBLIC_OPS.get(wanted.removeprefix("sg."))
    described = f"\n{_description(op)}\n" if op is not None else ""
    return "\n".join(rows) + f"\n{described}"


def _description(op: PublicOp) -> str:
    # Annotations are texts, which are shown in quotes; a default that is one keeps them.
    signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(op.function)))
    return f"{_face(op)}.{op.function.__name__}{signature}\n\n{inspect.getdoc(op.function)}"


def operators() -> dict[str, list[str]]:
    """Return the operators of Python by the op that each of them calls on a tensor."""

    class Recorder(Operators[str]):
        """Gives the name of the op in the place of its result."""

        def _call(self, op: str, *_: Any, **__: Any) -> str:
            return op

    found: dict[str, list[str]] = {}
    for name, method in vars(Operators).items():
        is_reflected = name.startswith("__r") and f"__{name[3:]}" in vars(Operators)
        if inspect.isfunction(method) and name.startswith("__") and not is_reflected:
            operands = [0] * (len(inspect.signature(method).parameters) - 1)
            found.setdefault(method(Recorder(), *operands), []).append(_shown(name))
    return found


def _shown(name: str) -> str:
    """Return how an operator is written: Python's own module of them says it of each."""
    function = getattr(operator, name, None)
    if function is None:
        return f"{name.strip('_')}(a)"
    return str(function.__doc__).removeprefix("Same as ").rstrip(".")


def page() -> str:
    """Return the text of the page."""
    load_awaited()
    faces = {name: _face(op) for name, op in PUBLIC_OPS.items()}
    order = sorted(PUBLIC_OPS, key=lambda name: (faces[name], name))
    known = operators()
    return HEAD + "".join(_row(f"{faces[n]}.{n}", PUBLIC_OPS[n], known.get(n, [])) for n in order)


def _face(op: PublicOp) -> str:
    for face in ("nn", "special", "linalg", "fft"):
        if op.function.__module__.startswith(f"symgrad.{face}."):
            return f"sg.{face}"
    return "sg"


def _row(name: str, op: PublicOp, known: list[str]) -> str:
    shown = f"**`{name}`**" if op.is_standard else f"`{name}`"
    summary = str(inspect.getdoc(op.function)).partition("\n")[0]
    others = ", ".join(f"`{other}`" for other in (*known, *methods_of(op), *numpy_names_of(op)))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (shown, summary, others)) + " |\n"


def methods_of(op: PublicOp) -> Iterator[str]:
    """Yield the methods of tensors that an op is."""
    name = op.function.__name__
    if inspect.isfunction(getattr(Tensor, name, None)):
        yield f"x.{name}()"


def numpy_names_of(op: PublicOp) -> Iterator[str]:
    """Yield the functions of NumPy that an op stands for on tensors."""
    name = op.function.__name__
    adapted = [function for function, (adapts, _) in ADAPTERS.items() if adapts == name]
    functions: list[Any] = [*op.ufuncs, *op.functions, *adapted]
    for function in functions:
        yield f"{function.__module__.replace('numpy', 'np', 1)}.{function.__name__}"
    if op.reduces is not None:
        yield f"np.{op.reduces.__name__}.reduce"
    if op.accumulates is not None:
        yield f"np.{op.accumulates.__name__}.accumulate"
