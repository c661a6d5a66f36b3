"""IR builder: each method appends an instruction of LLVM, and returns its value.

Names, operands and order are those of LLVM's language reference. What LLVM refuses is found when it
parses the text; nothing is checked twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from symgrad.codegen.ir.constant_folding import (
    folded_binary,
    folded_choice,
    folded_comparison,
    is_zero,
)
from symgrad.codegen.ir.module import (
    Alloca,
    Block,
    Branch,
    ByteOffset,
    FunctionCall,
    LLVMFunction,
    Module,
    Phi,
    SwitchBranch,
)
from symgrad.codegen.ir.types import (
    Constant,
    FunctionType,
    IntType,
    LiteralStructType,
    LLVMValue,
    PointerType,
    Type,
    VectorType,
    VoidType,
)

_BOOL, _POINTER, _VOID = IntType(1), PointerType(), VoidType()
_SIGNED = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}
_UNSIGNED = {"==": "eq", "!=": "ne", "<": "ult", "<=": "ule", ">": "ugt", ">=": "uge"}
_FLOAT = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}

Binary = Callable[..., LLVMValue]


def _integer(name: str) -> Binary:
    def emit(self: IRBuilder, a: LLVMValue, b: LLVMValue, flags: Sequence[str] = ()) -> LLVMValue:
        is_known = isinstance(a, Constant) or isinstance(b, Constant)
        known = folded_binary(name, a, b) if is_known else None
        return self._binary(name, a, b, flags) if known is None else known

    return emit


def _float(name: str) -> Binary:
    def emit(self: IRBuilder, a: LLVMValue, b: LLVMValue, flags: Sequence[str] = ()) -> LLVMValue:
        return self._binary(name, a, b, flags)

    return emit


def _cast(name: str) -> Binary:
    def emit(self: IRBuilder, value: LLVMValue, kind: Type) -> LLVMValue:
        if value.type == kind:
            return value
        return self._append(kind, f"{name} {value} to {kind.text}")

    return emit


def _compared(kind: Type) -> Type:
    """Return the type of a comparison of two values of a type."""
    return VectorType(_BOOL, kind.count) if isinstance(kind, VectorType) else _BOOL


class IRBuilder:
    """Appends instructions to a block; `block` is the one it stands in."""

    __slots__ = ("block", "function")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.function: LLVMFunction = block.function

    @property
    def module(self) -> Module:
        return self.function.module

    # ------------------------------------------------------------------------------- positions

    def append_basic_block(self, name: str = "block") -> Block:
        """Append a block to the function; the builder stays where it is."""
        return self.function.append_basic_block(name)

    def position_at_end(self, block: Block) -> None:
        self.block = block

    @contextmanager
    def goto_entry_block(self) -> Iterator[None]:
        """Emit the body of the `with` at the end of the block in which the function begins."""
        before, entry = self.block, self.function.blocks[0]
        last = [entry.instructions.pop()] if entry.is_terminated else []
        self.block, entry.is_terminated = entry, False
        yield
        entry.instructions += last
        self.block, entry.is_terminated = before, bool(last)

    @contextmanager
    def if_then(self, condition: LLVMValue, likely: bool | None = None) -> Iterator[None]:
        """Emit the body of the `with` for the case that `condition` holds, and go on behind it."""
        chosen, behind = self.append_basic_block("if"), self.append_basic_block("endif")
        self._weighted(self.cbranch(condition, chosen, behind), likely)
        with self._inside(chosen, behind):
            yield
        self.block = behind

    @contextmanager
    def if_else(
        self, condition: LLVMValue, likely: bool | None = None
    ) -> Iterator[tuple[AbstractContextManager[None], AbstractContextManager[None]]]:
        """Yield two contexts, whose bodies are for `condition` and for its contrary."""
        chosen, other = self.append_basic_block("if"), self.append_basic_block("else")
        behind = self.append_basic_block("endif")
        self._weighted(self.cbranch(condition, chosen, other), likely)
        yield self._inside(chosen, behind), self._inside(other, behind)
        self.block = behind

    @contextmanager
    def _inside(self, block: Block, behind: Block) -> Iterator[None]:
        self.block = block
        yield
        if not self.block.is_terminated:
            self.branch(behind)

    def _weighted(self, branch: Branch, likely: bool | None) -> None:
        if likely is not None:
            weights = "i32 99, i32 1" if likely else "i32 1, i32 99"
            branch.set_metadata("prof", self.module.add_metadata(f'!"branch_weights", {weights}'))

    def _append(self, kind: Any, text: str) -> LLVMValue:
        value = LLVMValue(kind, f"%.{self.function.new_name()}")
        self.block.instructions.append(f"  {value.ref} = {text}")
        return value

    def _finish(self, instruction: str | Branch | SwitchBranch) -> None:
        assert not self.block.is_terminated, f"{self.block.name} has ended"
        self.block.instructions.append(instruction)
        self.block.is_terminated = True

    # --------------------------------------------------------------------------------- numbers

    def _binary(self, name: str, a: LLVMValue, b: LLVMValue, flags: Sequence[str]) -> LLVMValue:
        words = f"{name} {' '.join(flags)}" if flags else name
        return self._append(a.type, f"{words} {a}, {b.ref}")

    # What is known of integers is no instruction.
    add, sub, mul = _integer("add"), _integer("sub"), _integer("mul")
    udiv, sdiv, urem = _integer("udiv"), _integer("sdiv"), _integer("urem")
    shl, lshr, ashr = _integer("shl"), _integer("lshr"), _integer("ashr")
    and_, or_, xor = _integer("and"), _integer("or"), _integer("xor")
    fadd, fsub, fmul, fdiv = _float("fadd"), _float("fsub"), _float("fmul"), _float("fdiv")

    trunc, zext, sext = _cast("trunc"), _cast("zext"), _cast("sext")
    fptrunc, fpext, bitcast = _cast("fptrunc"), _cast("fpext"), _cast("bitcast")
    sitofp, uitofp, fptosi, fptoui = (
        _cast("sitofp"),
        _cast("uitofp"),
        _cast("fptosi"),
        _cast("fptoui"),
    )
    ptrtoint = _cast("ptrtoint")

    def fneg(self, value: LLVMValue) -> LLVMValue:
        return self._append(value.type, f"fneg {value}")

    def neg(self, value: LLVMValue) -> LLVMValue:
        """Return zero less an integer."""
        return self._append(value.type, f"sub {Constant(value.type, None)}, {value.ref}")

    def not_(self, value: LLVMValue) -> LLVMValue:
        """Return `value` with all bits the other way round."""
        kind = value.type
        return self._append(kind, f"xor {value}, {Constant(kind, -1).ref}")

    def icmp_signed(self, relation: str, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        known = folded_comparison(relation, a, b, is_signed=True)
        text = f"icmp {_SIGNED[relation]} {a}, {b.ref}"
        return self._append(_compared(a.type), text) if known is None else known

    def icmp_unsigned(self, relation: str, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        known = folded_comparison(relation, a, b, is_signed=False)
        text = f"icmp {_UNSIGNED[relation]} {a}, {b.ref}"
        return self._append(_compared(a.type), text) if known is None else known

    def fcmp_ordered(self, relation: str, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        """Compare floats; false where one is nan. The relation `ord` is that neither is."""
        name = relation if relation == "ord" else f"o{_FLOAT[relation]}"
        return self._append(_compared(a.type), f"fcmp {name} {a}, {b.ref}")

    def fcmp_unordered(self, relation: str, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        """Compare floats; true where one is nan. The relation `uno` is just that."""
        name = relation if relation == "uno" else f"u{_FLOAT[relation]}"
        return self._append(_compared(a.type), f"fcmp {name} {a}, {b.ref}")

    def select(self, condition: LLVMValue, chosen: LLVMValue, otherwise: LLVMValue) -> LLVMValue:
        is_first = folded_choice(condition)
        if is_first is not None:
            return chosen if is_first else otherwise
        return self._append(chosen.type, f"select {condition}, {chosen}, {otherwise}")

    # --------------------------------------------------------------------------------- vectors

    def extract_element(self, vector: LLVMValue, lane: LLVMValue) -> LLVMValue:
        return self._append(vector.type.element, f"extractelement {vector}, {lane}")

    def insert_element(self, vector: LLVMValue, element: LLVMValue, lane: LLVMValue) -> LLVMValue:
        return self._append(vector.type, f"insertelement {vector}, {element}, {lane}")

    def shuffle_vector(self, a: LLVMValue, b: LLVMValue, lanes: LLVMValue) -> LLVMValue:
        kind = VectorType(a.type.element, lanes.type.count)
        return self._append(kind, f"shufflevector {a}, {b}, {lanes}")

    def extract_value(self, aggregate: LLVMValue, position: int) -> LLVMValue:
        kind = aggregate.type
        is_struct = isinstance(kind, LiteralStructType)
        element = kind.elements[position] if is_struct else kind.element
        return self._append(element, f"extractvalue {aggregate}, {position}")

    def insert_value(self, aggregate: LLVMValue, value: LLVMValue, position: int) -> LLVMValue:
        return self._append(aggregate.type, f"insertvalue {aggregate}, {value}, {position}")

    # ---------------------------------------------------------------------------------- memory

    def alloca(self, kind: Type, size: LLVMValue | int | None = None) -> Alloca:
        """Return the address of `size` values on the stack, one if it is not given."""
        count = IntType(32)(size) if isinstance(size, int) else size
        place = Alloca(f"%.{self.function.new_name()}", kind, count)
        self.block.instructions.append(place)
        return place

    def alloca_once(self, kind: Type, align: int) -> Alloca:
        """Return the address of a value on the stack, taken once in a call, also in a loop."""
        place = Alloca(f"%.{self.function.new_name()}", kind, None)
        place.align = align
        self.function.blocks[0].instructions.insert(0, place)
        return place

    def load(self, pointer: LLVMValue, *, typ: Type, align: int | None = None) -> LLVMValue:
        aligned = "" if align is None else f", align {align}"
        return self._append(typ, f"load {typ.text}, {pointer}{aligned}")

    def store(
        self,
        value: LLVMValue,
        pointer: LLVMValue,
        align: int | None = None,
        *,
        is_streamed: bool = False,
    ) -> None:
        """Store a value; one that is streamed goes past the caches."""
        aligned = "" if align is None else f", align {align}"
        streamed = ", !nontemporal !{i32 1}" if is_streamed else ""
        self.block.instructions.append(f"  store {value}, {pointer}{aligned}{streamed}")

    def load_atomic(self, pointer: LLVMValue, ordering: str, align: int, *, typ: Type) -> LLVMValue:
        return self._append(typ, f"load atomic {typ.text}, {pointer} {ordering}, align {align}")

    def store_atomic(self, value: LLVMValue, pointer: LLVMValue, ordering: str, align: int) -> None:
        text = f"  store atomic {value}, {pointer} {ordering}, align {align}"
        self.block.instructions.append(text)

    def atomic_rmw(
        self, operation: str, pointer: LLVMValue, value: LLVMValue, ordering: str
    ) -> LLVMValue:
        text = f"atomicrmw {operation} {pointer}, {value} {ordering}"
        return self._append(value.type, text)

    def compare_exchange(
        self, pointer: LLVMValue, expected: LLVMValue, value: LLVMValue
    ) -> LLVMValue:
        """Store `value` where `expected` is, as one; return whether it was there."""
        text = f"cmpxchg {pointer}, {expected}, {value} acq_rel acquire"
        pair = self._append(LiteralStructType([value.type, _BOOL]), text)
        return self.extract_value(pair, 1)

    def gep(
        self,
        pointer: LLVMValue,
        indices: Sequence[LLVMValue],
        *,
        source_etype: Type,
        inbounds: bool = False,
    ) -> LLVMValue:
        """Return the address of an element; of one in each lane if an index is a vector."""
        if len(indices) == 1 and is_zero(indices[0]):
            return pointer
        widths = [i.type.count for i in indices if isinstance(i.type, VectorType)]
        kind = VectorType(_POINTER, widths[0]) if widths else _POINTER
        words = "getelementptr inbounds" if inbounds else "getelementptr"
        places = ", ".join(map(str, indices))
        return self._append(kind, f"{words} {source_etype.text}, {pointer}, {places}")

    def byte_offset(self, pointer: LLVMValue, offset: LLVMValue) -> LLVMValue:
        """Return the address that lies a known number of bytes behind another one."""
        if is_zero(offset):
            return pointer
        place = ByteOffset(f"%.{self.function.new_name()}", pointer, offset)
        self.block.instructions.append(place)
        return place

    # --------------------------------------------------------------------------------- control

    def phi(self, kind: Type, name: str = "") -> Phi:
        phi = Phi(kind, f"%{name}.{self.function.new_name()}")
        self.block.instructions.append(phi)
        return phi

    def branch(self, target: Block) -> Branch:
        branch = Branch(self.module, None, [target])
        self._finish(branch)
        return branch

    def cbranch(self, condition: LLVMValue, chosen: Block, otherwise: Block) -> Branch:
        branch = Branch(self.module, condition, [chosen, otherwise])
        self._finish(branch)
        return branch

    def switch(self, value: LLVMValue, default: Block) -> SwitchBranch:
        switch = SwitchBranch(value, default)
        self._finish(switch)
        return switch

    def ret(self, value: LLVMValue) -> None:
        self._finish(f"  ret {value}")

    def ret_void(self) -> None:
        self._finish("  ret void")

    def call(
        self, function: LLVMValue, args: Sequence[LLVMValue], *, tail: bool = False
    ) -> LLVMValue:
        """Call a function, or what is at the address of one."""
        kind = function.type.pointee
        return self._call(kind, function.ref, args, "tail call" if tail else "call")

    def call_of(
        self, function: LLVMFunction, args: Sequence[LLVMValue]
    ) -> tuple[LLVMValue, FunctionCall]:
        """Call a function, which may be merged into another one later; return the call too."""
        kind = function.function_type.return_type
        result = "" if kind == _VOID else f"%.{self.function.new_name()}"
        call = FunctionCall(function, args, result)
        self.block.instructions.append(call)
        return LLVMValue(kind, result), call

    def asm(
        self,
        kind: FunctionType,
        text: str,
        constraints: str,
        args: Sequence[LLVMValue],
        *,
        side_effect: bool,
    ) -> LLVMValue:
        """Execute instructions of the machine, written in its assembly."""
        words = "asm sideeffect" if side_effect else "asm"
        return self._call(kind, f'{words} "{text}", "{constraints}"', args, "call")

    def _call(
        self, kind: FunctionType, callee: str, args: Sequence[LLVMValue], word: str
    ) -> LLVMValue:
        text = f"{word} {kind.return_type.text} {callee}({', '.join(map(str, args))})"
        if kind.return_type != _VOID:
            return self._append(kind.return_type, text)
        self.block.instructions.append(f"  {text}")
        return LLVMValue(_VOID, "")
