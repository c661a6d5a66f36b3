"""Real parts, imaginary parts and conjugates: of real numbers, which are all there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import as_number
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.public_ops import public


@public(is_standard=True, ufuncs=[np.conjugate])
def conj(x: Any, /) -> Tensor:
    """Return the complex conjugate: a real `x` itself. Raises `DTypeError` for bools.

    >>> sg.run(sg.conj([1.0, 2.0]))
    array([1., 2.], dtype=float32)
    """
    return as_number("conj", x)


@public(is_standard=True, functions=[np.real])
def real(x: Any, /) -> Tensor:
    """Return the real part: a real `x` itself. Raises `DTypeError` for bools.

    >>> sg.run(sg.real([1.0, 2.0]))
    array([1., 2.], dtype=float32)
    """
    return as_number("real", x)


@public(is_standard=True, functions=[np.imag])
def imag(x: Any, /) -> Tensor:
    """Return the imaginary part: of a real `x` zeros. Raises `DTypeError` for bools.

    >>> sg.run(sg.imag([1.0, 2.0]))
    array([0., 0.], dtype=float32)
    """
    return filled_like(as_number("imag", x), 0)
