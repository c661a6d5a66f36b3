"""Parsers of what stands in the text of a program and is not its own: kernels and layouts."""

from __future__ import annotations

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.errors import GraphError
from symgrad.graph.foreign_functions import Layout, read_layout
from symgrad.graph.text.tokens import error_at
from symgrad.graph.text.values import Value


def parse_kernels(text: str) -> tuple[dict[str, Kernel], str]:
    """Return the kernels of a text by their names, and the text with blank lines in their place."""
    kernels: dict[str, Kernel] = {}
    lines = text.split("\n")
    first: int | None = None
    for number, line in enumerate(lines):
        if first is None and line.startswith("kernel "):
            first = number
        if first is not None and line.rstrip() == "}":
            kernel = parse_kernel("\n".join(lines[first : number + 1]), first + 1)
            if kernel.name in kernels:
                raise _refused(first, f"there are two kernels @{kernel.name}")
            kernels[kernel.name] = kernel
            lines[first : number + 1] = [""] * (number + 1 - first)
            first = None
    if first is not None:
        raise _refused(first, "the kernel does not end with a line that is '}'")
    return kernels, "\n".join(lines)


def _refused(number: int, problem: str) -> GraphError:
    return GraphError("program text", f"line {number + 1}: {problem}")


def layout_of(value: Value, line: int) -> Layout:
    """Return the layout of a call that an attribute in the text says."""
    rows = value if isinstance(value, tuple) else (None,)
    try:
        return read_layout([row if isinstance(row, tuple) else (row,) for row in rows])
    except ValueError as error:
        raise error_at(line, str(error)) from error
