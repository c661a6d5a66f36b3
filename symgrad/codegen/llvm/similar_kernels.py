"""Merging of similar functions: kernels that differ in sizes only become one, which takes these.

    define void @"k0"(ptr %.0) {         define void @"similar"(ptr %.0, i64 %size.0) {
      ... icmp slt i64 %.8, 100            ... icmp slt i64 %.8, %size.0
    define void @"k1"(ptr %.0) {   ->    define i32 @"step"(...) {
      ... icmp slt i64 %.8, 101            call void @"similar"(ptr %.5, i64 100)
    define i32 @"step"(...) {              call void @"similar"(ptr %.6, i64 101)
      call void @"k0"(ptr %.5)
      call void @"k1"(ptr %.6)

The update of a thousand parameters of a thousand sizes is mostly a few loops that end elsewhere:
LLVM is then given a few. Where kernels are few nothing is merged: each is compiled for its sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from symgrad.codegen import ir
from symgrad.codegen.concolic import TextWithNumbers
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.llvm.alike_kernels import SizedText
from symgrad.cost_model import MAX_SIZES_TAKEN, MIN_SIMILAR_KERNELS

SIMILAR = "similar"  # what the name of a merged function begins with

_I64 = ir.IntType(64)
# Where a number is an operand that may be any value: not in a constant vector, an alloca, a switch
# or a call, which may need to know it.
_LINE = re.compile(
    r"  \S+ = (?:getelementptr (?!.*<i64)|phi i64 |select i1 \S+, i64 "
    r"|(?:add|sub|mul|icmp \w+)(?: \w+)* i64 ).*"
)
_NUMBER = re.compile(
    r"(?<=\bi64 )(?:\d+\b|\?\d+\?)(?! x )"
    r"|(?<=, )(?:\d+|\?\d+\?)$"
    r"|(?<=\[ )(?:\d+|\?\d+\?)(?=, %)"
)

# What functions have in common, and the numbers in their lines that may differ.
_Masked = tuple[str, list[str]]


def merge_similar_kernels(
    module: ir.Module,
    functions: Sequence[ir.LLVMFunction],
    texts: Mapping[str, SizedText],
    calls: Mapping[str, Sequence[ir.FunctionCall]],
) -> None:
    """Make one function, which takes sizes, of kernels of which many differ in nothing else.

    `texts` are, by the names of functions, those that several functions have with other sizes, and
    `calls` are all calls of each.
    """
    if len(functions) < MIN_SIMILAR_KERNELS:
        return
    masks = _Masks()
    groups: dict[str, list[tuple[ir.LLVMFunction, list[str]]]] = {}
    for function in functions:
        shape, numbers = masks.of(function, texts.get(function.name))
        groups.setdefault(shape, []).append((function, numbers))
    for group in groups.values():
        if len(group) >= MIN_SIMILAR_KERNELS:
            _merge(module, group, calls)


class _Masks:
    """What functions have in common; that of a text which several have is found once."""

    def __init__(self) -> None:
        self._of_texts: dict[TextWithNumbers, _Masked | None] = {}

    def of(self, function: ir.LLVMFunction, sized: SizedText | None) -> _Masked:
        header = function.header.replace(function.ref, "", 1)
        found = None if sized is None else self._of_text(sized.text)
        if found is None or sized is None:
            shape, numbers = _masked("\n".join([*function.lines()][1:]))
            return header + shape, numbers
        shape, numbers = found
        values = sized.numbers
        return header + shape, [str(values[int(n[1:-1])]) if "?" in n else n for n in numbers]

    def _of_text(self, text: TextWithNumbers) -> _Masked | None:
        """Return the mask of a text, None if there are sizes in it that may not differ."""
        if text not in self._of_texts:
            found = _masked(text.marked() + "\n}")
            self._of_texts[text] = None if "?" in found[0] else found
        return self._of_texts[text]


def _masked(body: str) -> _Masked:
    numbers: list[str] = []
    masked = [_mask(line, numbers) for line in body.split("\n")]
    return "\n".join(masked), numbers


def _mask(line: str, numbers: list[str]) -> str:
    """Return `line` without its numbers, which are added to `numbers`."""
    if not _LINE.fullmatch(line):
        return line
    numbers += _NUMBER.findall(line)
    return _NUMBER.sub("#", line)


def _merge(
    module: ir.Module,
    group: list[tuple[ir.LLVMFunction, list[str]]],
    calls: Mapping[str, Sequence[ir.FunctionCall]],
) -> None:
    # Of each number the values it has in the kernels: what varies alike is one size.
    columns = [*zip(*(numbers for _, numbers in group), strict=True)]
    varying = dict.fromkeys(column for column in columns if len(set(column)) > 1)
    if not 0 < len(varying) <= MAX_SIZES_TAKEN:
        return
    first = group[0][0]
    takes = first.function_type.takes
    kind = ir.FunctionType(first.function_type.return_type, [*takes, *[_I64] * len(varying)])
    merged = kernel_function(module, kind, module.get_unique_name(SIMILAR))
    merged.attributes |= first.attributes
    sizes = {column: f"%size.{number}" for number, column in enumerate(varying)}
    refs = [*(argument.ref for argument in first.args), *sizes.values()]
    for argument, ref in zip(merged.args, refs, strict=True):
        argument.ref = ref
    _fill(merged, first, [sizes.get(column) for column in columns])
    for number, (function, _) in enumerate(group):
        taken = [_I64(int(column[number])) for column in varying]
        for call in calls[function.name]:
            call.redirect(merged, taken)
        module.merge(function, merged)


def _fill(merged: ir.LLVMFunction, like: ir.LLVMFunction, sizes: list[str | None]) -> None:
    """Give `merged` the body of `like`, with some of its numbers replaced by sizes."""
    left = iter(sizes)
    for line in "\n".join(like.lines()).split("\n")[1:-1]:
        if not line.startswith(" "):
            block = ir.Block(merged, line.removesuffix(":"))
            merged.blocks.append(block)
            continue
        is_masked = _LINE.fullmatch(line) is not None
        text = _NUMBER.sub(lambda found: next(left) or found[0], line) if is_masked else line
        block.instructions.append(text)
