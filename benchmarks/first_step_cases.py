"""What the time to the first step is measured of: the workloads, and steps of many small ops.

Each is a workload (`benchmarks/workload_peers.py`), so symgrad and JAX are given the same function;
what is called with many sizes of its input has a case of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import Arrays
from benchmarks.timing import optional
from benchmarks.workload_peers import Workload, alike, jax_contender, symgrad_contender
from benchmarks.workload_tasks import GRADIENT, TRAIN_ADAM, TRAIN_SGD
from benchmarks.workloads import WORKLOADS

LAYERS, LAYERS_EDITED, CHAIN = "layers", "layers, one edited", "chain"
WIDTHS, WIDTHS_EDITED = "layers of 24 widths", "layers of 24 widths, one edited"
# Of each case that finds what another has left in the cache, that other one.
EDITED = {LAYERS_EDITED: LAYERS, WIDTHS_EDITED: WIDTHS}
PARAMETERS, BATCHES = "1,000 sizes", "60 batches"
_WIDTH, _ROWS, _BATCHES = 32, 16, 60

First = Callable[[], object]


def _draw(shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    random = np.random.default_rng(0)
    return {
        name: (random.standard_normal(shape) / 10).astype(np.float32)
        for name, shape in shapes.items()
    }


# Its graph has 446 nodes with the gradient and the update.
def _make_layers(quick: bool) -> tuple[Arrays, Arrays]:
    count = 3 if quick else 24
    shapes: dict[str, tuple[int, ...]] = {f"w{i}": (_WIDTH, _WIDTH) for i in range(count)}
    shapes |= {f"b{i}": (_WIDTH,) for i in range(count)}
    return _draw(shapes), _draw({"x": (_ROWS, _WIDTH)})


# Layers of which no two are equal, as in a network that narrows: each has kernels of its own.
def _make_widths(quick: bool) -> tuple[Arrays, Arrays]:
    count = 3 if quick else 24
    widths = [_WIDTH + 8 * (count - i) for i in range(count + 1)]
    shapes: dict[str, tuple[int, ...]] = {f"w{i}": (widths[i], widths[i + 1]) for i in range(count)}
    shapes |= {f"b{i}": (widths[i + 1],) for i in range(count)}
    return _draw(shapes), _draw({"x": (_ROWS, widths[0])})


def _layers(xp: Any, w: Any, given: Any, edited: int = -1) -> Any:
    h = given["x"]
    for i in range(len(w) // 2):
        h = xp.tanh(h @ w[f"w{i}"] + w[f"b{i}"])
        h = xp.exp(h) if i == edited else h
    return (h * h).mean()


def _edited_layers(xp: Any, w: Any, given: Any) -> Any:
    return _layers(xp, w, given, len(w) // 4)


def _make_chain(_quick: bool) -> tuple[Arrays, Arrays]:
    return _draw({"w": (1000,), "b": (1000,)}), _draw({"x": (1000,)})


def _chain(ops: int) -> Callable[[Any, Any, Any], Any]:
    def function(xp: Any, w: Any, given: Any) -> Any:
        h = given["x"]
        for _ in range(ops // 3):
            h = xp.tanh(h * w["w"] + w["b"])
        return h.sum()

    return function


def _make_parameters(quick: bool) -> tuple[Arrays, Arrays]:
    shapes = {f"w{i}": (100 + i,) for i in range(9 if quick else 1_000)}
    return _draw(shapes), _draw({"x": (1,)})


def _parameters(_xp: Any, w: Any, given: Any) -> Any:
    total = given["x"].sum()
    for weight in w.values():
        total = total + (weight * weight).sum()
    return total


_GOALS = (0.0, 0.0)  # of the speed of a step, which is not what is measured here
SMALL = (
    Workload(LAYERS, _GOALS, TRAIN_SGD, _make_layers, alike(_layers)),
    Workload(LAYERS_EDITED, _GOALS, TRAIN_SGD, _make_layers, alike(_edited_layers)),
    Workload(WIDTHS, _GOALS, TRAIN_SGD, _make_widths, alike(_layers)),
    Workload(WIDTHS_EDITED, _GOALS, TRAIN_SGD, _make_widths, alike(_edited_layers)),
    Workload(CHAIN, _GOALS, GRADIENT, _make_chain, alike(_chain(5_000))),
    Workload(PARAMETERS, _GOALS, TRAIN_ADAM, _make_parameters, alike(_parameters)),
)
NAMED = {workload.name: workload for workload in (*SMALL, *WORKLOADS)}
CASES = (*NAMED, BATCHES)


def first_step(case: str, library: str, quick: bool) -> First | None:
    """Return what makes a step and runs it once, None if the library is not there.

    Arrays are made before, and in JAX all that is not the step itself: what traces and compiles it
    is its first call.
    """
    if library == "JAX" and optional("jax") is None:
        return None
    if case == BATCHES:
        return (_batches if library == "symgrad" else _batches_of_jax)(quick)
    workload = NAMED[case]
    arrays = workload.make(quick)
    workload.task.draw(arrays[0])
    if library == "symgrad":
        return lambda: symgrad_contender(workload, arrays, 1).step()
    contender = jax_contender(workload, arrays, 1)
    return None if contender is None else contender.step


def _mlp(xp: Any, w: Any, x: Any) -> Any:
    h = xp.tanh(x @ w["w0"])
    return ((h @ w["w1"]) ** 2).mean()


def _arrays_of_batches(quick: bool) -> tuple[Arrays, list[Any]]:
    weights = _draw({"w0": (64, 128), "w1": (128, 10)})
    return weights, [np.ones((n, 64), np.float32) for n in range(1, (3 if quick else _BATCHES) + 1)]


def _batches(quick: bool) -> First:
    weights, batches = _arrays_of_batches(quick)

    def run() -> None:
        w = {name: sg.variable(array) for name, array in weights.items()}
        x = sg.placeholder((None, 64))
        loss = _mlp(sg, w, x)
        step = sg.compile([x], loss, updates=sg.optim.SGD(0.1).minimize(loss))
        for batch in batches:
            step(batch)

    return run


def _batches_of_jax(quick: bool) -> First:
    jax = optional("jax")
    weights, batches = _arrays_of_batches(quick)
    held = {name: jax.numpy.asarray(array) for name, array in weights.items()}

    def update(w: Any, x: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda w: _mlp(jax.numpy, w, x))(w)
        return jax.tree_util.tree_map(lambda a, g: a - 0.1 * g, w, gradient), loss

    compiled = jax.jit(update)
    given = [jax.numpy.asarray(batch) for batch in batches]
    return lambda: [jax.block_until_ready(compiled(held, batch)) for batch in given]
