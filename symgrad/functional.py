"""Tracing and just-in-time compilation: functions that run on arrays and build graph on tensors.

A trace is a nested graph, kept for each signature; calling it on tensors makes one node, a call.
Whether a compiled program has the code of a function once for all calls or puts it where the calls
are is for `symgrad/passes/calls/inline_calls.py` to say. See Note [Where a trace is kept].
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, SymgradError, user_source
from symgrad.frontend.control import require_callables
from symgrad.frontend.growth import looks_for_counters
from symgrad.frontend.nests import Nest, flatten, unflatten
from symgrad.graph.build import (
    current_region,
    enclosing_regions,
    gradient_keys_in_force,
    origin_of,
)
from symgrad.graph.dtypes import as_dtype, uint64
from symgrad.graph.effects import has_effects, renumbered
from symgrad.graph.foreign_arrays import as_numpy
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import constant_op, placeholder, placeholder_op
from symgrad.graph.nested import Traced, inline
from symgrad.graph.node import Region, Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.calls import call, with_intermediates
from symgrad.graph.traverse import topological
from symgrad.graph.types import State, TensorType
from symgrad.records import dataclass
from symgrad.runtime.function import compile
from symgrad.runtime.step import Step
from symgrad.suggestions import known_as

_CACHE_SIZE = 128  # signatures of one function

# What is being traced: functions, by their ids, and signatures.
_open_traces: ContextVar[frozenset[Hashable]] = ContextVar("open_traces", default=frozenset())


@known_as("tf_function")
def function(func: Callable[..., Any]) -> Function:
    """Return `func` as a function that is compiled for arrays and builds a graph for tensors.

    Given arrays only, at the top level, it is compiled, cached by signature and run, and NumPy
    arrays come back. Given a tensor, if it uses a tensor from outside, such as a variable, or
    within a branch, a body or another such function, its results are tensors; the state of a
    generator of random numbers does not count. Arguments and results may be nests. A number of
    Python is part of the signature, like anything else that is no array.

    A function may call itself with another signature, not with its own: that is a `GraphError`,
    since tracing it would not end.

    >>> double = sg.function(lambda x: 2 * x)
    >>> double(np.float32([1.0, 2.0]))  # arrays: it is compiled and run
    array([2., 4.], dtype=float32)
    >>> double(sg.placeholder((3,)))  # a tensor: it builds graph
    <Tensor call: f32[3]>
    """
    require_callables("function", func=func)
    return Function(func, gives_arrays=False)


class Function:
    """What `function` returns: call it.

    With `gives_arrays`, variables and constants from outside do not make its results tensors: it
    is then a function of arrays that reads them, as the derivatives in `symgrad/arrays/` are.
    """

    def __init__(self, func: Callable[..., Any], *, gives_arrays: bool = True) -> None:
        # First, since it copies attributes: those of a Function that `func` is, or wraps, too.
        functools.update_wrapper(self, func)
        self._func = func
        self._gives_arrays = gives_arrays
        self._traces: OrderedDict[Hashable, _Trace] = OrderedDict()

    def __repr__(self) -> str:
        return f"<function {self._name} of arrays and tensors>"

    def __reduce__(self) -> str:
        """Copy and pickle as a function of Python does: by its name, a copy is itself."""
        return str(getattr(self._func, "__qualname__", self._name))

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Make a method of it, whose instance is part of the signature."""
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on arrays, or build its nodes."""
        given, nest = flatten((args, kwargs))
        leaves = [as_numpy(self._name, leaf) for leaf in given]
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
        """Return the trace for arguments like these."""
        signature = tuple([_signature(self._name, leaf) for leaf in leaves])
        key = (nest, signature, _circumstances())
        here = current_region()
        for region in enclosing_regions(here):
            if (self, key) in region.traces:
                found = region.traces[self, key]
                assert isinstance(found, _Trace), f"{self!r} has left {found!r} in {region.name}"
                return found
        trace = self._traces.pop(key, None) or self._traced(leaves, nest, signature)
        if trace.home is not None:
            trace.home.traces[self, key] = trace
            return trace
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
        origins = tuple([origin_of(t) for t in captures])
        is_open = _is_made_of_placeholders(origins) or not (
            self._gives_arrays or all(map(_is_generator_state, origins))
        )
        return _Trace(traced.graph(captures), origins, result_nest, is_open)

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


# Note [Where a trace is kept]
# A trace may be used wherever all that it captures may: it is kept by the innermost region that a
# capture belongs to, or by the function if it captures tensors of the top level or none. It is
# looked up from the region that is open outwards. So what is traced in one branch and captures
# nothing of it serves the others too, and a function that calls another twice, which calls a third
# twice, is traced once. Captures are those of the region they were made in: a call enters them
# into whatever region it is in.


def _circumstances() -> Hashable:
    """Return what a trace depends on beside its arguments: how ops are built at the time."""
    keys = gradient_keys_in_force()
    # While counters are looked for, arrays that grow are not written.
    return looks_for_counters(), tuple(sorted(keys.items())) if keys else ()


def _is_made_of_placeholders(tensors: Sequence[Tensor]) -> bool:
    return any(node.definition is placeholder_op for node in topological(tensors))


def _is_generator_state(tensor: Tensor) -> bool:
    """Return whether `tensor` is the key or the counter of a generator, or a key folded from one.

    Users see what is drawn, not these, and no gradient passes them.
    """
    if tensor.dtype != uint64 or tensor.ndim:
        return False
    leaves = [node for node in topological([tensor]) if node.definition.is_leaf]
    states = [node.attrs.get("state") for node in leaves if node.definition is not constant_op]
    return bool(states) and all(isinstance(s, State) and s.is_of_generator for s in states)


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

    It is open, and not to be run alone, if something it captures is made of a placeholder, or is
    a tensor that the caller may differentiate by.
    """

    graph: Graph
    captures: tuple[Tensor, ...]
    nest: Nest
    is_open: bool
    callee: Graph | None = None
    step: Step | None = None

    @property
    def home(self) -> Region | None:
        """The innermost region that a capture belongs to, None for the top level."""
        regions = [region for t in self.captures if (region := t.node.region) is not None]
        return max(regions, key=lambda region: len(enclosing_regions(region)), default=None)

    def build(self, operands: Sequence[Tensor]) -> Any:
        """Call the function on `operands`."""
        if not self.graph.outputs:
            return unflatten(self.nest, ())
        if has_effects(self.graph):
            # Each call of the function makes its own calls outside, after those before it.
            given = [*operands, *self.captures]
            return unflatten(self.nest, inline(renumbered(self.graph), given))
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
