"""NumPy's dispatch protocols on tensors: which function of symgrad stands for which of NumPy's.

`numpy.exp(x)` or `numpy.sum(x, axis=0)` on a tensor builds graph. What is not in the tables here is
refused by NumPy itself with a `TypeError`; so are options that a function here does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.frontend import creation
from symgrad.frontend.container import Container, leafwise
from symgrad.graph.node import Tensor
from symgrad.graph.ops import (
    arithmetic,
    bits,
    comparison,
    contraction,
    conversion,
    indexing,
    reduction,
    slicing,
    structure,
    subscript,
    summation,
    transcendental,
    views,
)
from symgrad.graph.public_ops import provide, wrap_public_ops

_UFUNCS: dict[np.ufunc, Callable[..., Tensor]] = {
    np.add: arithmetic.add,
    np.subtract: arithmetic.subtract,
    np.multiply: arithmetic.multiply,
    np.divide: arithmetic.divide,
    np.floor_divide: arithmetic.floor_divide,
    np.remainder: arithmetic.remainder,
    np.negative: arithmetic.negative,
    np.positive: arithmetic.positive,
    np.square: arithmetic.square,
    np.absolute: arithmetic.abs,
    np.fabs: arithmetic.abs,
    np.sign: arithmetic.sign,
    np.floor: arithmetic.floor,
    np.ceil: arithmetic.ceil,
    np.rint: arithmetic.round,
    np.maximum: arithmetic.maximum,
    np.minimum: arithmetic.minimum,
    np.isfinite: arithmetic.isfinite,
    np.isinf: arithmetic.isinf,
    np.isnan: comparison.isnan,
    np.equal: comparison.equal,
    np.not_equal: comparison.not_equal,
    np.less: comparison.less,
    np.less_equal: comparison.less_equal,
    np.greater: comparison.greater,
    np.greater_equal: comparison.greater_equal,
    np.logical_and: comparison.logical_and,
    np.logical_or: comparison.logical_or,
    np.logical_xor: comparison.logical_xor,
    np.logical_not: comparison.logical_not,
    np.bitwise_and: bits.bitwise_and,
    np.bitwise_or: bits.bitwise_or,
    np.bitwise_xor: bits.bitwise_xor,
    np.invert: bits.bitwise_invert,
    np.left_shift: bits.bitwise_left_shift,
    np.right_shift: bits.bitwise_right_shift,
    np.power: transcendental.pow,
    np.float_power: transcendental.pow,
    np.exp: transcendental.exp,
    np.expm1: transcendental.expm1,
    np.log: transcendental.log,
    np.log1p: transcendental.log1p,
    np.sqrt: transcendental.sqrt,
    np.sin: transcendental.sin,
    np.cos: transcendental.cos,
    np.tanh: transcendental.tanh,
    np.matmul: contraction.matmul,
    np.vecdot: contraction.vecdot,
}

_REDUCTIONS: dict[np.ufunc, Callable[..., Tensor]] = {
    np.add: reduction.sum,
    np.multiply: reduction.prod,
    np.maximum: reduction.max,
    np.minimum: reduction.min,
    np.logical_and: reduction.all,
    np.logical_or: reduction.any,
}


def _array_ufunc(
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    if any(isinstance(x, Container) for x in inputs):
        return NotImplemented  # NumPy then asks the container, which maps over its leaves
    if method == "__call__" and ufunc in _UFUNCS and not options:
        return _UFUNCS[ufunc](*inputs)
    if method == "reduce" and ufunc in _REDUCTIONS:
        return _reduce(_REDUCTIONS[ufunc], inputs, options)
    if method == "outer" and ufunc is np.multiply and not options:
        return contraction.tensordot(*inputs, axes=0)
    return NotImplemented


def _reduce(
    function: Callable[..., Tensor], inputs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    given = {key: value for key, value in options.items() if value is not None or key == "axis"}
    if not given.keys() <= {"axis", "keepdims", "dtype"}:
        return NotImplemented
    # A ufunc reduces the first axis if none is named, where a function reduces all.
    return function(*inputs, **({"axis": 0} | given))


def _moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    return views.moveaxis(a, source, destination)


def _transpose(a: Any, axes: Any = None) -> Tensor:
    return views.reverse_axes(a) if axes is None else structure.permute_dims(a, axes)


def _reshape(a: Any, /, shape: Any, order: str = "C") -> Any:
    return structure.reshape(a, shape) if order == "C" else NotImplemented


def _concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Tensor:
    return slicing.concat(arrays, axis=axis)


def _stack(arrays: Sequence[Any], axis: int = 0) -> Tensor:
    return slicing.stack(arrays, axis=axis)


def _expand_dims(a: Any, axis: Any) -> Tensor:
    return structure.expand_dims(a, axis=axis)


def _pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    if mode != "constant":
        return NotImplemented
    return slicing.pad(array, pad_width, constant_values=constant_values)


def _take(a: Any, indices: Any, axis: int | None = None) -> Tensor:
    return indexing.take(a, indices, axis=axis)


def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Tensor:
    return indexing.take_along_axis(arr, indices, axis=axis)


def _where(condition: Any, *choices: Any) -> Any:
    return comparison.where(condition, *choices) if len(choices) == 2 else NotImplemented


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    return contraction.tensordot(a, b, axes=axes)


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return summation.trace(a, offset=offset, axis1=axis1, axis2=axis2)


def _tril(m: Any, k: int = 0) -> Tensor:
    return creation.tril(m, k=k)


def _triu(m: Any, k: int = 0) -> Tensor:
    return creation.triu(m, k=k)


def _round(a: Any, decimals: int = 0) -> Any:
    return arithmetic.round(a) if decimals == 0 else NotImplemented


def _repeat(a: Any, repeats: int, axis: int | None = None) -> Tensor:
    return views.repeat(a, repeats, axis=axis)


def _roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    return views.roll(a, shift, axis=axis)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, **limits: Any) -> Any:
    if not limits.keys() <= {"min", "max"}:
        return NotImplemented
    return arithmetic.clip(a, limits.get("min", a_min), limits.get("max", a_max))


# Functions that take the arguments of NumPy's, whose first is given by position.
_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.sum: reduction.sum,
    np.prod: reduction.prod,
    np.mean: reduction.mean,
    np.max: reduction.max,
    np.min: reduction.min,
    np.any: reduction.any,
    np.all: reduction.all,
    np.argmax: reduction.argmax,
    np.argmin: reduction.argmin,
    np.clip: _clip,
    np.round: _round,
    np.where: _where,
    np.reshape: _reshape,
    np.transpose: _transpose,
    np.matrix_transpose: views.matrix_transpose,
    np.moveaxis: _moveaxis,
    np.swapaxes: views.swapaxes,
    np.broadcast_to: structure.broadcast_to,
    np.expand_dims: _expand_dims,
    np.squeeze: structure.squeeze,
    np.flip: slicing.flip,
    np.roll: _roll,
    np.tile: views.tile,
    np.repeat: _repeat,
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.split: views.split,
    np.pad: _pad,
    np.tril: _tril,
    np.triu: _triu,
    np.dot: contraction.dot,
    np.outer: contraction.outer,
    np.tensordot: _tensordot,
    np.einsum: summation.einsum,
    np.trace: _trace,
    np.diagonal: summation.diagonal,
    np.take: _take,
    np.take_along_axis: _take_along_axis,
    np.zeros_like: creation.zeros_like,
    np.ones_like: creation.ones_like,
    np.full_like: creation.full_like,
    np.astype: conversion.astype,
}


def _array_function(
    function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    if function not in _FUNCTIONS or any(isinstance(x, Container) for x in args):
        return NotImplemented
    return _FUNCTIONS[function](*args, **options)


provide("getitem", subscript.getitem)
provide("array_ufunc", _array_ufunc)
provide("array_function", _array_function)
# `tensor + container` is a container.
wrap_public_ops(leafwise)
