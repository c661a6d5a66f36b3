"""Complex numbers and their parts: `complex` of two real tensors, real, imag, conj and angle.

They cost nothing: a complex tensor is a pair of real ones when a program is compiled. Adjoints are
those of the convention of `gradients`, dL/dRe - i dL/dIm for a real L.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Grads, Infer, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.operands import cast, promote_operands, require_dtype, require_equal_types
from symgrad.graph.ops.arithmetic import as_number, negative
from symgrad.graph.ops.elementwise import broadcast_together, filled_like, float_operand
from symgrad.graph.ops.trigonometry import atan2
from symgrad.graph.pair_rules import Parts, splits
from symgrad.graph.public_ops import public
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import ScalarExpr
from symgrad.graph.types import Array, TensorType


def _free(_s: Scalars[ScalarExpr], *elements: ScalarExpr) -> ScalarExpr:
    """Stand for the body of an op of which no code is made: its rule only takes pairs apart."""
    return elements[0]


def _is_complex(dtype: DType) -> bool:
    return dtype.is_complex


def _is_part(dtype: DType) -> bool:
    return dtype in (dtypes.float32, dtypes.float64)


def _infer_part(op: str) -> Infer:
    def infer(z: TensorType) -> TensorType:
        require_dtype(op, "x", z, _is_complex)
        return z.with_dtype(z.dtype.real)

    return infer


@public()
def complex(real: Any, imag: Any, /) -> Tensor:
    """Make a complex tensor of its real and its imaginary part, which broadcast together.

    The result is complex128 where a part is float64, else complex64. The gradient of `real` is the
    real part of that of the result, the gradient of `imag` minus the imaginary part. Raises
    `DTypeError` for a part that is complex or bool.

    >>> sg.run(sg.complex([1.0, 2.0], 3.0))
    array([1.+3.j, 2.+3.j], dtype=complex64)
    """
    parts = promote_operands("complex", real, imag)
    dtype = parts[0].dtype
    if dtype.is_complex or dtype.is_bool:
        raise DTypeError("complex", f"{dtype.name} is no dtype of a part", source=user_source())
    wide = [cast(part, dtype.complex.real) for part in parts]
    return apply(complex_op, *broadcast_together("complex", real=wide[0], imag=wide[1]))


def _complex_infer(real: TensorType, imag: TensorType) -> TensorType:
    require_dtype("complex", "real", real, _is_part)
    part = require_equal_types("complex", real=real, imag=imag)
    return part.with_dtype(part.dtype.complex)


def _complex_reference(real: Array, imag: Array) -> Array:
    out = np.empty(real.shape, dtypes.as_dtype(real.dtype).complex.numpy)
    out.real, out.imag = real, imag
    return out


def _complex_grad(_node: Node, g: Tensor) -> Grads:
    return real(g), negative(imag(g))


complex_op = elementwise(
    "complex",
    infer=_complex_infer,
    reference=_complex_reference,
    grad=_complex_grad,
    body=_free,
    of_pairs="rule",
)


@splits(complex_op)
def _split_complex(re: Tensor, im: Tensor) -> Parts:
    return Parts(re, im)


@public(is_standard=True, functions=[np.real])
def real(x: Any, /) -> Tensor:
    """Return the real part: a real `x` itself. Raises `DTypeError` for bools.

    >>> sg.run(sg.real(sg.asarray([1 + 2j])))
    array([1.], dtype=float32)
    """
    x = as_number("real", x)
    return apply(real_op, x) if x.dtype.is_complex else x


def _real_grad(_node: Node, g: Tensor) -> Grads:
    return (apply(complex_op, g, filled_like(g, 0)),)


real_op = elementwise(
    "real",
    infer=_infer_part("real"),
    reference=lambda z: np.array(z.real),
    grad=_real_grad,
    body=_free,
    of_pairs="rule",
)


@splits(real_op)
def _split_real(z: Parts) -> Tensor:
    return z.re


@public(is_standard=True, functions=[np.imag])
def imag(x: Any, /) -> Tensor:
    """Return the imaginary part: of a real `x` zeros. Raises `DTypeError` for bools.

    >>> sg.run(sg.imag(sg.asarray([1 + 2j])))
    array([2.], dtype=float32)
    """
    x = as_number("imag", x)
    return apply(imag_op, x) if x.dtype.is_complex else filled_like(x, 0)


def _imag_grad(_node: Node, g: Tensor) -> Grads:
    return (apply(complex_op, filled_like(g, 0), negative(g)),)


imag_op = elementwise(
    "imag",
    infer=_infer_part("imag"),
    reference=lambda z: np.array(z.imag),
    grad=_imag_grad,
    body=_free,
    of_pairs="rule",
)


@splits(imag_op)
def _split_imag(z: Parts) -> Tensor:
    return z.im


@public(is_standard=True, ufuncs=[np.conjugate])
def conj(x: Any, /) -> Tensor:
    """Return the complex conjugate: a real `x` itself. Raises `DTypeError` for bools.

    >>> sg.run(sg.conj(sg.asarray([1 + 2j])))
    array([1.-2.j], dtype=complex64)
    """
    x = as_number("conj", x)
    return apply(conj_op, x) if x.dtype.is_complex else x


def _conj_infer(z: TensorType) -> TensorType:
    require_dtype("conj", "x", z, _is_complex)
    return z


conj_op = elementwise(
    "conj",
    infer=_conj_infer,
    reference=lambda z: np.asarray(np.conjugate(z)),
    grad=lambda _node, g: (conj(g),),
    body=_free,
    of_pairs="rule",
)


@splits(conj_op)
def _split_conj(z: Parts) -> Parts:
    return Parts(z.re, negative(z.im))


@public()
def angle(z: Any, /) -> Tensor:
    """Return the angle of a complex number, `atan2(imag(z), real(z))`, in radians.

    Of a real number it is 0 or pi. At 0 the gradient is 0, as that of `atan2` is.

    >>> sg.run(sg.angle(sg.asarray([1j])))
    array([1.5707964], dtype=float32)
    """
    x = float_operand(as_number("angle", z))
    return atan2(imag(x), real(x))
