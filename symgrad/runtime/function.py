"""Compiler driver: from tensors to a callable step, which `compile` makes and `run` calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Literal

from symgrad.codegen.native.cores import usable_cores
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.errors import CompileError, DTypeError, shortened, user_source
from symgrad.frontend.nests import flatten
from symgrad.graph.given_arrays import as_int
from symgrad.graph.graph import Graph, Update, listed_updates
from symgrad.graph.leaf import Variable
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.runtime.step import Step
from symgrad.suggestions import known_as

UpdateLike = Update | tuple[Variable, Any]


@known_as("jit", "theano_function", "session")
def compile(
    inputs: Any,
    outputs: Any,
    updates: Iterable[UpdateLike] = (),
    *,
    name: str | None = None,
    threads: int | Literal["auto"] | None = None,
    target: str = "native",
    opt_level: int = 3,
    fast_math: bool = False,
    memory_limit: int | None = None,
    check_numerics: bool = False,
    cache: bool = True,
) -> Step:
    """Compile `outputs` and `updates` as one native program over `inputs`.

    `inputs` is a list of placeholders, or of nests of them: one argument of the step each.
    `outputs` is any nest of tensors; arrays come back in the same nest. `updates` are `Update`s or
    (variable, new value) pairs, all applied at once when the step has been computed.

    `threads` is how many threads share the work of a kernel that is worth it, None for one, "auto"
    for as many as this process may use cores: of its affinity, and of the quota of a container.
    Results have the same bits whatever it is. No more threads run than there are such cores, and
    where other programs keep a core busy, one thread does what more would do no faster.

    `target` is "native", an x86-64 level or "aarch64"; code for another machine cannot be called.
    `opt_level` is that of LLVM's code generator, 0 to 3, and 0 leaves out its middle end;
    `fast_math` allows rewrites that hold for real numbers only; `cache` shares the machine code of
    equal programs, in files also with other processes. With `check_numerics` all that a step gives,
    and all new values of variables, must be finite. If not, it raises `NotFiniteError`, naming the
    op that made nan or infinity of finite operands, and keeps the state; `where` may cut some off.

    `memory_limit` bounds `step.memory.arena_bytes`: what a step takes beside inputs, outputs,
    variables, constants and the tapes of loops without a bound. A program that takes more computes
    again what it would have kept for its gradient; results have the same bits, and `step.decisions`
    says what it is. Others are what they are without a limit. Each size of a step keeps the limit.

    Raises `GraphError` for a placeholder that is missing from `inputs`, `CompileError` for a
    target that is not known, a number of threads or of bytes that is none, or a limit of memory
    that no program was found for.

    >>> x, w = sg.placeholder((2,), name="x"), sg.variable([1.0, 2.0], name="w")
    >>> step = sg.compile([x], sg.sum(w * x), [(w, w - 0.1 * x)])
    >>> step(np.float32([1.0, 1.0])), w.value
    (array(3., dtype=float32), array([0.9, 1.9], dtype=float32))
    """
    arguments = inputs if isinstance(inputs, tuple | list) else (inputs,)
    flat_inputs, input_nest = flatten(tuple(arguments))
    flat_outputs, output_nest = flatten(outputs)
    graph = Graph(
        [as_tensor(t) for t in flat_outputs],
        [_as_input(t) for t in flat_inputs],
        [_as_update(u) for u in listed_updates("compile", updates)],
        name=name or "step",
    )
    options = CompileOptions(
        target_named(target), _level(opt_level), fast_math, cache, Threads(_thread_count(threads)),
        checks_numerics=check_numerics, memory_limit=_byte_count(memory_limit),
    )  # fmt: skip
    return Step(graph, options, input_nest, output_nest)


def _level(opt_level: int) -> int:
    level = as_int(opt_level)
    if level is None or level not in range(4):
        raise CompileError(
            "compile", f"opt_level {opt_level!r} is none of 0, 1, 2, 3", source=user_source()
        )
    return level


def _thread_count(threads: int | Literal["auto"] | None) -> int:
    """Return how many threads a step runs on; None is one."""
    if threads == "auto":
        return usable_cores()
    count = 1 if threads is None else as_int(threads)
    if count is not None and count >= 1:
        return count
    raise CompileError(
        "compile", f"threads={threads!r} is no positive number of threads", source=user_source()
    )


def _byte_count(memory_limit: int | None) -> int | None:
    """Return the bytes that temporaries may take; None is as many as are best."""
    if memory_limit is None:
        return None
    count = as_int(memory_limit)
    if count is not None and count >= 0:
        return count
    raise CompileError(
        "compile", f"memory_limit={memory_limit!r} is no number of bytes", source=user_source()
    )


def _as_input(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        problem = f"input {shortened(value)} is no placeholder"
        raise DTypeError("compile", problem, source=user_source())
    return value


def _as_update(update: Any) -> Update:
    if isinstance(update, Update):
        return update
    if isinstance(update, tuple) and len(update) == 2 and isinstance(update[0], Variable):
        variable, value = update
        return Update(variable, as_tensor(value, variable.dtype))
    raise DTypeError(
        "compile",
        f"{shortened(update)} is neither an Update nor a pair of a variable and its new value",
        source=user_source(),
    )


# ------------------------------------------------------------------------------------------ run

_RUN_CACHE_SIZE = 128
_run_cache: OrderedDict[tuple[object, ...], Step] = OrderedDict()


@known_as("evaluate", "eval")
def run(fetches: Any, feed_dict: Mapping[Tensor, Any] | None = None) -> Any:
    """Compute `fetches`, any nest of tensors, with placeholders fed as `feed_dict` says.

    The compiled program is kept and used again for the same fetches and placeholders.

    >>> x = sg.placeholder((2,), name="x")
    >>> sg.run({"sum": sg.sum(x), "max": sg.max(x)}, {x: np.float32([1.0, 2.0])})
    {'sum': array(3., dtype=float32), 'max': array(2., dtype=float32)}
    """
    feeds = dict(feed_dict or {})
    flat, nest = flatten(fetches)
    key = (nest, tuple(flat), tuple(feeds))
    is_known = all(isinstance(part, Hashable) for part in flat)  # else compile says what it is
    step = _run_cache.pop(key, None) if is_known else None
    if step is None:
        step = compile(list(feeds), fetches, name="run")
    if is_known:
        _run_cache[key] = step
    while len(_run_cache) > _RUN_CACHE_SIZE:
        _run_cache.popitem(last=False)
    return step(*feeds.values())
