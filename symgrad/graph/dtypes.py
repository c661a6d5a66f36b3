"""Element types (dtypes) and type promotion: names, NumPy equivalents, how two promote."""

from __future__ import annotations

from typing import Any, Literal

import ml_dtypes
import numpy as np

from symgrad.errors import DTypeError, shortened, user_source
from symgrad.records import dataclass

Kind = Literal["bool", "unsigned", "signed", "float", "complex"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type, of which there is one object, hashed as such.

    `name` is NumPy's name and `short` the one the textual IR uses (`f32`, `i64`, `bool`). It equals
    its name, NumPy's dtype and NumPy's scalar type, and NumPy takes it for its own: `x.dtype ==
    "float32"`, `np.zeros(3, x.dtype)`. As with NumPy's dtypes, a set or a dict tells them apart.

    >>> sg.zeros(2).dtype == "float32", np.zeros(2, sg.float64).dtype, sg.float16.bits
    (True, dtype('float64'), 16)
    """

    name: str
    short: str
    kind: Kind
    bits: int
    numpy: np.dtype[Any]

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        if isinstance(other, str):
            return self.name == other
        return isinstance(other, type | np.dtype) and self.numpy == _as_numpy(other)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype, by the name that `np.dtype` looks for."""
        return self.numpy

    @property
    def itemsize(self) -> int:
        """Bytes an element takes in memory (a bool takes one)."""
        return self.bits // 8 or 1

    @property
    def is_float(self) -> bool:
        """Whether it is float16, bfloat16, float32 or float64."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer, signed or not; a bool is none."""
        return self.kind in ("signed", "unsigned")

    @property
    def is_bool(self) -> bool:
        """Whether it is bool."""
        return self.kind == "bool"

    @property
    def is_half(self) -> bool:
        """Whether this is a 16-bit float: computed in float32, rounded after every op."""
        return self.kind == "float" and self.bits == 16

    @property
    def is_complex(self) -> bool:
        """Whether elements are complex numbers."""
        return self.kind == "complex"

    @property
    def is_trainable(self) -> bool:
        """Whether gradients flow through tensors of this type."""
        return self.is_float or self.is_complex

    @property
    def real(self) -> DType:
        """The dtype of the real part of a complex number; of any other, its own."""
        return _PARTS.get(self.name, self)

    @property
    def complex(self) -> DType:
        """The complex dtype that this one is promoted to where it meets a complex scalar."""
        return self if self.is_complex else _WHOLES.get(self.name, complex64)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return as_dtype, (self.name,)  # a copy is the one object

    def __str__(self) -> str:
        return self.short

    def __repr__(self) -> str:
        return f"symgrad.{self.name}"


def _as_numpy(value: Any) -> np.dtype[Any] | None:
    try:
        found: np.dtype[Any] = np.dtype(value)
        return found
    except (TypeError, ValueError):
        return None


bool_ = DType("bool", "bool", "bool", 1, np.dtype(np.bool_))
int8 = DType("int8", "i8", "signed", 8, np.dtype(np.int8))
int16 = DType("int16", "i16", "signed", 16, np.dtype(np.int16))
int32 = DType("int32", "i32", "signed", 32, np.dtype(np.int32))
int64 = DType("int64", "i64", "signed", 64, np.dtype(np.int64))
uint8 = DType("uint8", "u8", "unsigned", 8, np.dtype(np.uint8))
uint16 = DType("uint16", "u16", "unsigned", 16, np.dtype(np.uint16))
uint32 = DType("uint32", "u32", "unsigned", 32, np.dtype(np.uint32))
uint64 = DType("uint64", "u64", "unsigned", 64, np.dtype(np.uint64))
float16 = DType("float16", "f16", "float", 16, np.dtype(np.float16))
bfloat16 = DType("bfloat16", "bf16", "float", 16, np.dtype(ml_dtypes.bfloat16))
float32 = DType("float32", "f32", "float", 32, np.dtype(np.float32))
float64 = DType("float64", "f64", "float", 64, np.dtype(np.float64))
complex64 = DType("complex64", "c64", "complex", 64, np.dtype(np.complex64))
complex128 = DType("complex128", "c128", "complex", 128, np.dtype(np.complex128))

# Those that loops compute in; a complex tensor becomes two of them before there are loops.
REAL = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64,
)  # fmt: skip
FLOATS = (float16, bfloat16, float32, float64)
COMPLEX = (complex64, complex128)
ALL = (*REAL, *COMPLEX)

_PARTS = {"complex64": float32, "complex128": float64}
_WHOLES = {"float64": complex128}

# What Python numbers become where the Array API makes an array of them. A `constant` of an int, and
# so an operand that is one beside a bool, is int32: it is no creation function of the standard.
DEFAULT_COMPLEX, DEFAULT_FLOAT, DEFAULT_INTEGER = complex64, float32, int64

BY_SHORT = {dtype.short: dtype for dtype in ALL}
_BY_NAME = {dtype.name: dtype for dtype in ALL}
_BY_NUMPY = {dtype.numpy: dtype for dtype in ALL}

DTypeLike = DType | str | type | np.dtype[Any]


def as_dtype(value: DTypeLike) -> DType:
    """Return the `DType` for a name, a NumPy dtype, a scalar type or a `DType`.

    Raises `DTypeError` for a type symgrad does not have, and for None, which NumPy takes for
    float64: a function that has a default says so by `dtype_or`.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    given: Any = value
    numpy = None if given is None else _as_numpy(given)
    found = None if numpy is None else _BY_NUMPY.get(numpy.newbyteorder("="))
    if found is None:
        known = ", ".join(_BY_NAME)
        name = "" if isinstance(value, np.dtype) else "dtype "
        problem = f"{name}{shortened(value)} is none of {known}"
        raise DTypeError("dtype", problem, source=user_source())
    return found


def float_limits(dtype: DType) -> Any:
    """Return NumPy's description of a float dtype, which of bfloat16 another library has."""
    return ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]


def dtype_or(value: DTypeLike | None, default: DType) -> DType:
    """Return the `DType` for `value`, `default` for None."""
    return default if value is None else as_dtype(value)


_SIGNED_ABOVE = {8: int16, 16: int32, 32: int64}


def promote(subject: str, a: DType, b: DType) -> DType:
    """Return the dtype `a` and `b` meet in: the Array API table within a kind, the float across.

    An integer or bool with a float takes the float's dtype, so nothing becomes float64 unasked; a
    real dtype with a complex one takes the complex dtype whose parts hold both.
    Raises `DTypeError` for uint64 with a signed integer, which meet nowhere.
    """
    if a == b:
        return a
    if a.is_complex or b.is_complex:
        return max(a.complex, b.complex, key=lambda dtype: dtype.bits)
    if a.is_float or b.is_float:
        return _promote_floats(a, b)
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    unsigned, signed = (a, b) if a.kind == "unsigned" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    if unsigned.bits in _SIGNED_ABOVE:
        return _SIGNED_ABOVE[unsigned.bits]
    raise DTypeError(
        subject,
        f"{a.name} and {b.name} have no common dtype",
        hint="convert one of them with astype",
    )


def _promote_floats(a: DType, b: DType) -> DType:
    if not (a.is_float and b.is_float):
        return a if a.is_float else b
    if a.is_half and b.is_half:
        return float32
    return a if a.bits >= b.bits else b


_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_EXPONENT_BITS = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}


def is_lossless(given: DType, wanted: DType) -> bool:
    """Return whether every value of `given` is one of `wanted`."""
    if given == wanted or given.is_bool:
        return True
    if given.is_complex or wanted.is_complex:
        return wanted.is_complex and is_lossless(given.real, wanted.real)
    if wanted.is_bool or (given.is_float and not wanted.is_float):
        return False
    digits = given.bits - (given.kind == "signed")
    if given.is_float:
        wide_enough = _EXPONENT_BITS[given.name] <= _EXPONENT_BITS[wanted.name]
        return wide_enough and _DIGITS[given.name] <= _DIGITS[wanted.name]
    if wanted.is_float:
        return digits <= _DIGITS[wanted.name]
    fits = digits <= wanted.bits - (wanted.kind == "signed")
    return fits and (given.kind == "unsigned" or wanted.kind == "signed")
