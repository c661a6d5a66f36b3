"""Eager arrays over symgrad: what the public conformance suite is run on.

An `Array` holds values; each operation on it builds a graph with symgrad, compiles that to machine
code and runs it. A step is kept by what it was built for: the function, the dtypes and shapes of
the arrays, and all other arguments. NumPy only holds the values. What has a shape that depends on
data takes the sizes from values that are known here.
"""

from __future__ import annotations

import importlib
import operator
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

import symgrad as sg
from symgrad.graph.node import Tensor

_STEPS_KEPT = 3000  # machine code takes memory

# What a call builds: the step, the places of what it gives among the results, all of the results,
# in which a `_Given` stands for an operand, and their nest.
Built = tuple[Callable[..., Any], Sequence[int], list[Any], Any]
_built: OrderedDict[Any, Built] = OrderedDict()


@dataclass(frozen=True)
class _Given:
    place: int


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what `function` of symgrad, which builds graph, gives for arrays."""
    leaves, nest = _flat((args, kwargs))
    arrays = [leaf for leaf in leaves if isinstance(leaf, Array)]
    key = function, nest, tuple(map(_key, leaves))
    if key not in _built:
        _built[key] = _build(function, leaves, nest)
        while len(_built) > _STEPS_KEPT:
            _built.popitem(last=False)
    _built.move_to_end(key)
    run, places, results, result_nest = _built[key]
    # A tensor that comes back as it is, is the array itself.
    results = [arrays[r.place] if isinstance(r, _Given) else r for r in results]
    for place, values in zip(places, run(*(a.values for a in arrays)), strict=True):
        results[place] = Array(values)
    return _unflat(result_nest, results)


def _flat(nest: Any) -> tuple[list[Any], Any]:
    leaves, spec = optree.tree_flatten(nest, none_is_leaf=True)
    return leaves, spec


def _unflat(spec: Any, leaves: list[Any]) -> Any:
    return optree.tree_unflatten(spec, leaves)


def _key(leaf: Any) -> Any:
    if isinstance(leaf, Array):
        return leaf.values.dtype, leaf.values.shape
    if isinstance(leaf, np.ndarray):
        return leaf.dtype, leaf.shape, leaf.tobytes()
    if isinstance(leaf, float):
        return float, np.float64(leaf).tobytes()  # zeros and nan have signs
    return type(leaf), repr(leaf)  # 1 and True are equal


def _build(function: Callable[..., Any], leaves: list[Any], nest: Any) -> Built:
    given = [_model(leaf.values) if isinstance(leaf, Array) else leaf for leaf in leaves]
    args, kwargs = _unflat(nest, given)
    inputs = [tensor for tensor in given if isinstance(tensor, Tensor)]
    positions = {tensor: _Given(place) for place, tensor in enumerate(inputs)}
    results, result_nest = _flat(function(*args, **kwargs))
    results = [positions.get(r, r) if isinstance(r, Tensor) else r for r in results]
    places = [place for place, result in enumerate(results) if isinstance(result, Tensor)]
    tensors = [results[place] for place in places]
    if all(t.node.op == "constant" for t in tensors):  # there is nothing to compute
        literals = [t.node.attrs["value"] for t in tensors]
        return lambda *_: [x.array.copy() for x in literals], places, results, result_nest
    return sg.compile(inputs, tensors), places, results, result_nest


def _model(values: np.ndarray[Any, Any]) -> Tensor:
    return sg.placeholder(values.shape, values.dtype)


class Array:
    """Values, in an array of NumPy's, and operations that symgrad computes."""

    __slots__ = ("values",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"Array({self.values!r})"

    @property
    def dtype(self) -> sg.DType:
        return _model(self.values).dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def ndim(self) -> int:
        return self.values.ndim

    @property
    def size(self) -> int:
        return self.values.size

    @property
    def device(self) -> Any:
        return _model(self.values).device

    @property
    def T(self) -> Any:  # noqa: N802 - the standard's name
        return call(operator.attrgetter("T"), self)

    @property
    def mT(self) -> Any:  # noqa: N802 - the standard's name
        return call(operator.attrgetter("mT"), self)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        return call(Tensor.to_device, self, device, stream=stream)

    def __getitem__(self, key: Any, /) -> Any:
        if _is_truth_value(key):  # a mask without axes: the array or nothing, along a new axis
            return self[None, ...][: int(bool(key))]
        items = _items(key)
        if self.ndim and len(items) == self.ndim and all(type(item) is int for item in items):
            # One step reads any element of a shape.
            items = tuple(Array(np.asarray(item)) for item in items)
        return call(Tensor.__getitem__, self, items)

    def __setitem__(self, key: Any, value: Any, /) -> None:
        if _is_truth_value(key):
            if not key:
                return
            key = ...
        self.values = call(_written, self, _items(key), value).values

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        _model(self.values).__array_namespace__(api_version=api_version)  # refuses other versions
        return importlib.import_module("tests.array_api.namespace")

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        # The memory is NumPy's, and no graph takes part.
        return self.values.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self, /) -> tuple[Any, int]:
        return _model(self.values).__dlpack_device__()

    def __bool__(self, /) -> bool:
        return bool(self.values)

    def __int__(self, /) -> int:
        return int(self.values)

    def __float__(self, /) -> float:
        return float(self.values)

    def __complex__(self, /) -> complex:
        return complex(self.values)

    def __index__(self, /) -> int:
        return operator.index(self.values)


def _written(x: Tensor, key: tuple[Any, ...], value: Any) -> Tensor:
    return x.at[key].set(value)  # type: ignore[no-any-return]


def _is_truth_value(key: Any) -> bool:
    return isinstance(key, Array) and key.ndim == 0 and key.values.dtype == np.bool_


def _items(key: Any) -> tuple[Any, ...]:
    """Return the items of a key: a mask and the bounds of a slice by their values."""
    return tuple(map(_known, key if isinstance(key, tuple) else (key,)))


def _known(item: Any) -> Any:
    if isinstance(item, Array) and item.values.dtype == np.bool_:
        return item.values
    if isinstance(item, slice):
        bounds = (item.start, item.stop, item.step)
        return slice(*(operator.index(b) if isinstance(b, Array) else b for b in bounds))
    return item


def _binary(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)

    def apply(self: Array, other: Any, /) -> Any:
        return call(method, self, other)

    apply.__name__ = name
    return apply


def _unary(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)

    def apply(self: Array, /) -> Any:
        return call(method, self)

    apply.__name__ = name
    return apply


_ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul",
    "and", "or", "xor", "lshift", "rshift",
)  # fmt: skip
for _name in ("eq", "ne", "lt", "le", "gt", "ge", *_ARITHMETIC, *("r" + n for n in _ARITHMETIC)):
    setattr(Array, f"__{_name}__", _binary(f"__{_name}__"))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Array, f"__{_name}__", _unary(f"__{_name}__"))
