"""Types and constants of LLVM IR, each with its text.

A type is equal to any other of the same text. A constant is its type called: `IntType(32)(7)`; that
of a vector type takes one value for all lanes, or a list of one for each.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final


class _Undefined:
    def __repr__(self) -> str:
        return "Undefined"


Undefined: Final = _Undefined()


class Type:
    """A type; `zero` is the text of a constant of it that is given as None."""

    __slots__ = ("text",)
    zero = "zeroinitializer"

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.text}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __call__(self, value: Any) -> Constant:
        """Return a constant of this type."""
        return Constant(self, value)

    def literal(self, value: Any) -> str:
        """Return the text of a value that is neither zero by default nor undefined."""
        raise TypeError(f"{self} has no constant {value!r}")


class VoidType(Type):
    """What functions without a result return."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("void")


class IntType(Type):
    """An integer of `width` bits, signed or unsigned by what is done with it."""

    __slots__ = ("width",)
    zero = "0"

    def __init__(self, width: int) -> None:
        super().__init__(f"i{width}")
        self.width = width

    def literal(self, value: Any) -> str:
        if self.width == 1:
            return "true" if value else "false"
        return f"{value:d}" if isinstance(value, int) else str(int(value))


class FloatType(Type):
    """float32, whose constants LLVM writes as the bits of a float64."""

    __slots__ = ()
    zero = "0.0"

    def __init__(self) -> None:
        super().__init__("float")

    def literal(self, value: Any) -> str:
        (rounded,) = struct.unpack("<f", struct.pack("<f", value))
        return _double_literal(rounded)


class DoubleType(Type):
    """float64."""

    __slots__ = ()
    zero = "0.0"

    def __init__(self) -> None:
        super().__init__("double")

    def literal(self, value: Any) -> str:
        return _double_literal(value)


def _double_literal(value: float) -> str:
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return f"0x{bits:016x}"


class HalfType(Type):
    """float16."""

    __slots__ = ()
    zero = "0.0"

    def __init__(self) -> None:
        super().__init__("half")

    def literal(self, value: Any) -> str:
        (bits,) = struct.unpack("<H", struct.pack("<e", value))
        return f"0xH{bits:04X}"


class BFloatType(Type):
    """bfloat16, of which there are no constants."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("bfloat")


class PointerType(Type):
    """An opaque pointer. `pointee` is the type of the function that is there, if it is called."""

    __slots__ = ("pointee",)
    zero = "null"

    def __init__(self, pointee: FunctionType | None = None) -> None:
        super().__init__("ptr")
        self.pointee = pointee


class VectorType(Type):
    """`count` lanes of a scalar type."""

    __slots__ = ("count", "element")

    def __init__(self, element: Type, count: int) -> None:
        super().__init__(f"<{count} x {element.text}>")
        self.element = element
        self.count = count

    def literal(self, value: Any) -> str:
        if isinstance(value, list | tuple):
            return f"<{_listed([self.element] * self.count, value)}>"
        return f"splat ({_constant_of(self.element, value)})"


class ArrayType(Type):
    """`count` elements of a type, one behind the other."""

    __slots__ = ("count", "element")

    def __init__(self, element: Type, count: int) -> None:
        super().__init__(f"[{count} x {element.text}]")
        self.element = element
        self.count = count

    def literal(self, value: Any) -> str:
        return f"[{_listed([self.element] * self.count, value)}]"


class LiteralStructType(Type):
    """A struct of the given fields, padded as C does."""

    __slots__ = ("elements",)

    def __init__(self, elements: Sequence[Type]) -> None:
        super().__init__(f"{{{', '.join(e.text for e in elements)}}}")
        self.elements = tuple(elements)

    def literal(self, value: Any) -> str:
        return f"{{{_listed(self.elements, value)}}}"


class FunctionType(Type):
    """What a function returns and takes."""

    __slots__ = ("return_type", "takes")

    def __init__(self, return_type: Type, takes: Sequence[Type]) -> None:
        super().__init__(f"{return_type.text} ({', '.join(t.text for t in takes)})")
        self.return_type = return_type
        self.takes = tuple(takes)

    def as_pointer(self) -> PointerType:
        """Return the type of the address of such a function."""
        return PointerType(self)


class LLVMValue:
    """What an instruction may take: its type, and the text that refers to it."""

    __slots__ = ("ref", "type")

    def __init__(self, kind: Any, ref: str) -> None:
        self.type = kind
        self.ref = ref

    def __str__(self) -> str:
        return f"{self.type.text} {self.ref}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


class Constant(LLVMValue):
    """A value that is known: of None the zero of its type, of `Undefined` any.

    `number` is that of an integer, None of anything else.
    """

    __slots__ = ("number",)

    def __init__(self, kind: Type, value: Any) -> None:
        self.number: int | None = value if isinstance(value, int) else None
        if value is None:
            text = kind.zero
        elif value is Undefined:
            text = "undef"
        else:
            text = kind.literal(value)
        super().__init__(kind, text)

    def bits(self) -> int | None:
        """Return the bits of an i64, a float or a double as an int64; None of any other constant.

        LLVM writes those of a float as the bits of the float64 it is equal to.
        """
        kind, text = self.type.text, self.ref
        if kind == "i64" and text != "undef":
            return (int(text) + (1 << 63)) % (1 << 64) - (1 << 63)
        if kind not in ("float", "double") or not text.startswith("0x"):
            return None
        stated = struct.pack("<Q", int(text, 16))
        if kind == "float":
            (value,) = struct.unpack("<d", stated)
            stated = struct.pack("<f", value) + bytes(4)
        (number,) = struct.unpack("<q", stated)
        return int(number)


class Literal(Constant):
    """A constant whose text is given."""

    __slots__ = ()

    def __init__(self, kind: Type, text: str) -> None:
        LLVMValue.__init__(self, kind, text)
        self.number = None


def _constant_of(kind: Type, value: Any) -> LLVMValue:
    return value if isinstance(value, LLVMValue) else Constant(kind, value)


def _listed(kinds: Sequence[Type], values: Sequence[Any]) -> str:
    """Return the text of the constants that an aggregate is made of."""
    return ", ".join(str(_constant_of(k, v)) for k, v in zip(kinds, values, strict=True))
