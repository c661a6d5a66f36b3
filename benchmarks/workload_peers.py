"""A workload in four libraries: a function of weights, and what a step makes of it.

Here is which libraries there are and what each of them is given. What a step makes of the function
is a task of `benchmarks/workload_tasks.py`; `benchmarks/workloads.py` compares results and times.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import Arrays
from benchmarks.timing import Contestant, optional
from symgrad.graph.types import Array

COMPILED = "PyTorch, compiled"
GRAPH, XLA = "TensorFlow", "TensorFlow, XLA"

# From weights and what else is given to a loss, or to residuals.
Function = Callable[[Any, Any], Any]
Functions = tuple[Function, Function, Function, Function]


@dataclass(frozen=True, slots=True)
class Contender:
    """A step to time, and what it computes, made by the first calls of it.

    `least_seconds` says what its kernels would take at the machine's limits on one core.
    """

    step: Contestant
    results: Callable[[], list[Array]]
    least_seconds: Callable[[], float] | None = None


# Of a function, its weights, what else it is given, and a number of threads.
Maker = Callable[[Function, Arrays, Arrays, int], Contender]


@dataclass(frozen=True, slots=True)
class Task:
    """What a step makes of a function, in each library, of its weights, and of vectors if any.

    `draw` draws these for some weights, and again returns what it drew before.
    """

    symgrad: Maker
    jax: Maker
    torch: Maker
    # Of the last argument XLA compiles.
    tensorflow: Callable[[Function, Arrays, Arrays, bool], Contender]
    draw: Callable[[Arrays], Sequence[Array]] = lambda _: ()


@dataclass(frozen=True, slots=True)
class Workload:
    """A step to measure: how it is made, and how many times as fast as the best other it must be.

    `make` returns the weights and what else is given, small ones if it is asked to. The functions,
    of symgrad, JAX, PyTorch and TensorFlow, map dicts of tensors, both of these, to a scalar or to
    residuals. There is a goal for one thread and one for two. Results may differ by `tolerance` of
    their norm. `compile` makes what `torch.compile` makes of PyTorch's function, where that is
    known to pay. `without` are libraries that do not compile it within minutes.
    """

    name: str
    goals: tuple[float, float]
    task: Task
    make: Callable[[bool], tuple[Arrays, Arrays]]
    functions: Functions
    tolerance: float = 2e-3
    compile: Callable[[], Function] | None = None
    without: tuple[str, ...] = ()


def symgrad_contender(workload: Workload, arrays: tuple[Arrays, Arrays], threads: int) -> Contender:
    """Return the step of symgrad."""
    return workload.task.symgrad(workload.functions[0], *arrays, threads)


def jax_contender(
    workload: Workload, arrays: tuple[Arrays, Arrays], threads: int
) -> Contender | None:
    """Return the step of JAX, whose threads are as many as the cores it was given; None without."""
    jax = optional("jax")
    if jax is None:
        return None
    has_doubles = any(array.dtype == np.float64 for array in arrays[0].values())
    jax.config.update("jax_enable_x64", has_doubles)
    return workload.task.jax(workload.functions[1], *arrays, threads)


def torch_contender(
    workload: Workload, arrays: tuple[Arrays, Arrays], threads: int
) -> Contender | None:
    """Return the step of PyTorch; None without it."""
    torch = optional("torch")
    if torch is None:
        return None
    torch.set_num_threads(threads)
    return workload.task.torch(workload.functions[2], *arrays, threads)


def compiled_contender(
    workload: Workload, arrays: tuple[Arrays, Arrays], threads: int
) -> Contender | None:
    """Return the compiled step of PyTorch; None if there is none, or nothing to compile it with."""
    torch = optional("torch")
    if torch is None or workload.compile is None or shutil.which("c++") is None:
        return None
    torch.set_num_threads(threads)
    return workload.task.torch(workload.compile(), *arrays, threads)


def torch_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as PyTorch compiles it."""
    # In processes of its own, which are left over, it would disturb what is timed.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    compiled: Callable[..., Any] = optional("torch").compile(function)
    return compiled


def tensorflow_contender(
    is_xla: bool, workload: Workload, arrays: tuple[Arrays, Arrays], _threads: int
) -> Contender | None:
    """Return the step of TensorFlow, on as many threads as it has cores; None without it."""
    if optional("tensorflow") is None:
        return None
    return workload.task.tensorflow(workload.functions[3], *arrays, is_xla)


LIBRARIES: dict[str, Callable[..., Contender | None]] = {
    "symgrad": symgrad_contender,
    "JAX": jax_contender,
    "PyTorch": torch_contender,
    COMPILED: compiled_contender,
    GRAPH: partial(tensorflow_contender, False),
    XLA: partial(tensorflow_contender, True),
}


def alike(function: Callable[[Any, Any, Any], Any]) -> Functions:
    """Return a function that is written alike in all libraries, whose module it is given first."""
    return (
        partial(function, sg),
        lambda weights, given: function(optional("jax").numpy, weights, given),
        lambda weights, given: function(optional("torch"), weights, given),
        lambda weights, given: function(tensorflow_numpy(), weights, given),
    )


def tensorflow_numpy() -> Any:
    """Return TensorFlow's functions of NumPy's names."""
    return optional("tensorflow").experimental.numpy
