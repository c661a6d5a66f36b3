"""Template instantiation: the functions of kernels that differ in how long their loops are.

    for i in 0..100 vector(16) {...}        for i in 0..101 vector(16) {...}

Of kernels that share all else, one on each path of the emitter is emitted, with symbolic sizes
(`codegen/concolic.py`), and the text of the others is that one with their numbers. It is the text
that emitting each of them gives; what is merged of it is for `similar_kernels.py` to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from symgrad.codegen import ir
from symgrad.codegen.concolic import Path, TakenPath, Templates, TextWithNumbers
from symgrad.codegen.llvm.sized_functions import SizedFunction, sized_function
from symgrad.codegen.loops.language import Fold, For, Kernel, Stmt
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.target import Target
from symgrad.cost_model import MIN_SIMILAR_KERNELS
from symgrad.records import dataclass, replace

MAX_PATHS = 128  # of kernels that are alike


@dataclass(frozen=True, slots=True, eq=False)
class SizedText:
    """The body of a function: a text that others have, and the numbers in it."""

    text: TextWithNumbers
    numbers: tuple[int, ...]


class AlikeKernels:
    """The kernels of a module of which many differ in the sizes of loops and buffers only.

    `texts` are the bodies of those that were emitted, by their names.
    """

    def __init__(self, kernels: Sequence[Kernel], target: Target) -> None:
        self.texts: dict[str, SizedText] = {}
        self._target = target
        self._alike: dict[Hashable, Templates[SizedFunction]] = {}
        are_many = len(kernels) >= MIN_SIMILAR_KERNELS
        self._keys = {k.name: _key(k) for k in kernels} if are_many else {}
        self._counts = Counter(key for key, _ in self._keys.values())

    def emitted(self, module: ir.Module, kernel: Kernel) -> ir.LLVMFunction | None:
        """Return the function of a kernel in `module`, None where few are alike."""
        key, sizes = self._keys.get(kernel.name, (None, ()))
        if not sizes or self._counts[key] < MIN_SIMILAR_KERNELS:
            return None
        templates = self._alike.setdefault(key, Templates(MAX_PATHS))
        template = templates.found(sizes, lambda: self._traced(kernel, sizes))
        return None if template is None else self._instance(module, kernel.name, template, sizes)

    def _traced(self, kernel: Kernel, sizes: tuple[int, ...]) -> SizedFunction | None:
        """Emit a kernel with symbolic sizes, None if it needs more than its own function."""
        path = Path()
        sized = _with_sizes(kernel, sizes, path)
        found = sized_function(path, ir.Module(), sized, self._target)
        is_alone = not found.module.metadata and all(map(_is_declared, found.called))
        return found if is_alone else None

    def _instance(
        self, module: ir.Module, name: str, template: SizedFunction, sizes: tuple[int, ...]
    ) -> ir.LLVMFunction:
        numbers = template.path.numbers(sizes)
        function = template.function.like(module, name, lambda: template.text.of(numbers))
        for called in template.called:
            module.globals.setdefault(called.name, called)
        function.lifted = template.passed(numbers)
        self.texts[name] = SizedText(template.text, numbers)
        return function


def print_alike(kernels: Sequence[Kernel]) -> list[str]:
    """Return the texts of kernels, all called "kernel"; what many share is printed once."""
    keys = [_key(kernel) for kernel in kernels] if len(kernels) >= MIN_SIMILAR_KERNELS else []
    counts = Counter(key for key, _ in keys)
    templates: dict[Hashable, tuple[TakenPath, TextWithNumbers]] = {}
    texts = []
    for number, kernel in enumerate(kernels):
        key, sizes = keys[number] if keys else (None, ())
        if not sizes or counts[key] < MIN_SIMILAR_KERNELS:
            texts.append(print_kernel(replace(kernel, name="kernel")))
            continue
        if key not in templates:
            path = Path()
            sized = replace(_with_sizes(kernel, sizes, path), name="kernel")
            text = path.text(partial(print_kernel, sized))
            templates[key] = path.taken(), text
        taken, text = templates[key]
        assert taken.holds(sizes), "the text of a kernel depends on what its sizes are"
        texts.append(text.of(taken.numbers(sizes)))
    return texts


def _with_sizes(kernel: Kernel, sizes: tuple[int, ...], path: Path) -> Kernel:
    """Return a kernel with symbolic sizes in the place of its own."""
    symbolic = dict(zip(sizes, path.sizes(sizes), strict=True))
    counts = [replace(p, count=symbolic.get(p.count, p.count)) for p in kernel.params]
    body = _with_extents(kernel.body, lambda n: symbolic.get(n, n))
    return replace(kernel, params=tuple(counts), body=body)


def _is_declared(made: object) -> bool:
    return isinstance(made, ir.LLVMFunction) and made.is_declaration


def _key(kernel: Kernel) -> tuple[Hashable, tuple[int, ...]]:
    """Return what a kernel shares with those that are alike, and its sizes, each once.

    What is shared are objects: kernels that are alike have been made of one another.
    """
    sizes: dict[int, int] = {}

    def place(size: int) -> int:
        return -size if size <= 1 else sizes.setdefault(size, len(sizes) + 1)

    params = tuple([(p.name, p.dtype, p.mode, place(p.count)) for p in kernel.params])
    body = _key_of(kernel.body, place)
    return (params, body), tuple(sizes)


def _key_of(body: Sequence[Stmt], place: Callable[[int], int]) -> Hashable:
    found: list[Hashable] = []
    for statement in body:
        if isinstance(statement, For):
            marks = statement.vector, statement.interleave, statement.parallel
            is_marked = statement.ordered, statement.prefetches
            inside = _key_of(statement.body, place)
            found.append((statement.var, place(statement.extent), marks, is_marked, inside))
        elif isinstance(statement, Fold):
            given = statement.accumulators, statement.items, statement.combine
            shared = *given, statement.left, statement.right, statement.combined
            inside = _key_of(statement.body, place)
            extent = place(statement.extent)
            found.append((statement.var, extent, statement.lanes, inside, *map(id, shared)))
        else:
            found.append(id(statement))
    return tuple(found)


def _with_extents(body: Sequence[Stmt], size: Callable[[int], Any]) -> tuple[Stmt, ...]:
    """Return `body` with other extents of its loops and folds."""
    made: list[Stmt] = []
    for statement in body:
        if isinstance(statement, For):
            inside = _with_extents(statement.body, size)
            statement = replace(statement, extent=size(statement.extent), body=inside)
        if isinstance(statement, Fold):
            inside = _with_extents(statement.body, size)
            statement = replace(statement, extent=size(statement.extent), body=inside)
        made.append(statement)
    return tuple(made)
