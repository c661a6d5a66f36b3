"""Functions that are traced: on arrays they are compiled and run, on tensors they build a graph.

A trace is a nested graph, kept for each signature; calling it on tensors makes one node, a call.
Whether a compiled program has the code of a function once for all calls or puts it where the calls
are is for `symgrad/passes/inline_calls.py` to say.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, SymgradError, user_source
from symgrad.graph.build import current_region
from symgrad.graph.control import require_callables
from symgrad.graph.dtypes import as_dtype
from symgrad.graph.graph import Graph
from symgrad.graph.nested import Traced, inline
from symgrad.graph.nests import Nest, flatten, unflatten
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.calls import call, with_intermediates
from symgrad.graph.ops.leaf import placeholder, placeholder_op
from symgrad.graph.traverse import topological
from symgrad.graph.types import TensorType
from symgrad.runtime.function import Step, compile

_CACHE_SIZE = 128  # signatures of one function

# What is being traced: functions, by their ids, and signatures.
_open_traces: ContextVar[frozenset[Hashable]] = ContextVar("open_traces", default=frozenset())


def function(func: Callable[..., Any]) -> Function:
    """Return `func` as a function that is compiled for arrays and builds a graph for tensors.

    Given arrays only, at the top level, it is compiled, cached by signature and run, and NumPy
    arrays come back. Given a tensor, if it uses a placeholder from outside, or within a branch, a
    body or another such function, its results are tensors. Arguments and results may be nests.
    A number of Python is part of the signature, like anything else that is no array.

    A function may call itself with another signature, not with its own: that is a `GraphError`,
    since tracing it would not end.
    """
    require_callables("function", func=func)
    return Function(func)


class Function:
    """What `function` returns: call it."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self._func = func
        self._traces: OrderedDict[Hashable, _Trace] = OrderedDict()
        functools.update_wrapper(self, func)

    def __repr__(self) -> str:
        return f"<function {self._name} of arrays and tensors>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Make a method of it, whose instance is part of the signature."""
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on arrays, or build its nodes."""
        leaves, nest = flatten((args, kwargs))
        operands = [leaf for leaf in leaves if _is_operand(leaf)]
        trace = self._trace_for(leaves, nest)
        is_symbolic = any(isinstance(operand, Tensor) for operand in operands)
        if is_symbolic or trace.is_open or current_region() is not None:
            return trace.build([as_tensor(operand) for operand in operands])
        return trace.run(operands)

    @property
    def _name(self) -> str:
        return str(getattr(self._func, "__name__", "function"))

    def _trace_for(self, leaves: Sequence[Any], nest: Nest) -> _Trace:
        """Return the trace for arguments like these.

        Within a region it is made anew: it may use tensors of that region.
        """
        signature = tuple(_signature(self._name, leaf) for leaf in leaves)
        if current_region() is not None:
            return self._traced(leaves, nest, signature)
        key = (nest, signature)
        trace = self._traces.pop(key, None) or self._traced(leaves, nest, signature)
        self._traces[key] = trace
        while len(self._traces) > _CACHE_SIZE:
            self._traces.popitem(last=False)
        return trace

    def _traced(self, leaves: Sequence[Any], nest: Nest, signature: Sequence[Hashable]) -> _Trace:
        key = (id(self), nest, tuple(signature))
        self._require_not_open(key)
        traced = Traced(self._name, [part for part in signature if isinstance(part, TensorType)])
        params = iter(traced.params)
        arguments = [next(params) if _is_operand(leaf) else leaf for leaf in leaves]
        args, kwargs = unflatten(nest, arguments)
        with traced.open(), _tracing(key):
            results, result_nest = flatten(self._func(*args, **kwargs))
            tensors = [as_tensor(result) for result in results]
        traced.give(tensors)
        captures = traced.captures
        is_open = any(node.definition is placeholder_op for node in topological(captures))
        return _Trace(traced.graph(captures), tuple(captures), result_nest, is_open)

    def _require_not_open(self, key: Hashable) -> None:
        """Raise if the function is being traced for this signature already."""
        if key in _open_traces.get():
            raise GraphError(
                self._name,
                "the function calls itself with arguments of the types it was called with, and "
                "tracing it would not end",
                hint="use sg.while_loop, or make the depth an argument that is a number of Python",
                source=user_source(),
            )


@contextmanager
def _tracing(key: Hashable) -> Iterator[None]:
    """Note that a function is traced for a signature while the block runs."""
    token = _open_traces.set(_open_traces.get() | {key})
    try:
        yield
    finally:
        _open_traces.reset(token)


def _is_operand(leaf: Any) -> bool:
    return isinstance(leaf, Tensor | np.ndarray | np.generic)


def _signature(subject: str, leaf: Any) -> Hashable:
    """Return what a trace depends on: the type of an array or tensor, the value of all else."""
    if isinstance(leaf, Tensor):
        return leaf.type
    if isinstance(leaf, np.ndarray | np.generic):
        try:
            return TensorType(as_dtype(leaf.dtype), leaf.shape)
        except SymgradError as error:
            error.source = user_source()
            raise
    if isinstance(leaf, bool | int | float):
        return type(leaf), repr(leaf)  # 1, 1.0 and True are equal, and so are 0.0 and -0.0
    try:
        hash(leaf)
    except TypeError as error:
        problem = f"argument {leaf!r} is neither an array nor hashable"
        raise DTypeError(subject, problem, source=user_source()) from error
    return type(leaf), leaf


@dataclass(slots=True, eq=False)
class _Trace:
    """A function for one signature: its graph, over its operands and what it captures.

    It is open, and not to be run alone, if something it captures is made of a placeholder.
    """

    graph: Graph
    captures: tuple[Tensor, ...]
    nest: Nest
    is_open: bool
    callee: Graph | None = None
    step: Step | None = None

    def build(self, operands: Sequence[Tensor]) -> Any:
        """Call the function on `operands`."""
        if not self.graph.outputs:
            return unflatten(self.nest, ())
        if self.callee is None:
            self.callee = with_intermediates(self.graph)
        node = call(self.callee, [*operands, *self.captures])
        return unflatten(self.nest, node.outputs[: len(self.graph.outputs)])

    def run(self, arrays: Sequence[Any]) -> Any:
        """Compute the results for arrays; compiled at the first call."""
        if self.step is None:
            params = [placeholder(t.shape, t.dtype) for t in self.graph.inputs]
            params = params[: len(arrays)]
            results = inline(self.graph, [*params, *self.captures])
            self.step = compile(params, unflatten(self.nest, results), name=self.graph.name)
        return self.step(*arrays)
