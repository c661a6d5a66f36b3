"""Properties of every layer, tested over the table of `tests/nn/layer_cases.py`.

Each is tested for several layers in one program, as most of what it takes to compile one does not
depend on its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.schedule import parallelize as share_work
from symgrad.codegen.schedule import two_stage_reduction as split_folds
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.nn.layer import Layer, arrays_of, inputs_of, with_gradients
from tests.nn.layer_cases import LAYERS
from tests.support.case import Real
from tests.support.evaluators import Evaluator, evaluate_native, evaluate_reference
from tests.support.floors import compile_for, run_native

Array = np.ndarray[Any, Any]
Make = Callable[[Layer], tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Array]]]

_CASES = 3  # as many as vmap maps over, and as a loop has iterations
_CLOSE = 1e-12
_TOLERANCES = {"float32": 2e-5, "float64": 1e-11, "bfloat16": 6e-2}

# What is made of a layer is graph, and every op of it is tested natively by itself.
every_evaluator = pytest.mark.parametrize(
    "evaluator",
    [evaluate_reference, pytest.param(evaluate_native, marks=pytest.mark.slow)],
    ids=["reference", "native"],
)
_PIECE = 8
_PIECES = [LAYERS[start : start + _PIECE] for start in range(0, len(LAYERS), _PIECE)]
_SPREAD = LAYERS[:: len(LAYERS) // 3 + 1]
some_layers = pytest.mark.parametrize("layers", _PIECES, ids=lambda layers: layers[0].name)
# Machine code takes long to make: a few layers stand for all, which are slow.
a_spread_of_layers = pytest.mark.parametrize(
    "layers",
    [
        pytest.param(_SPREAD, id="spread"),
        *(pytest.param(piece, id=piece[0].name, marks=pytest.mark.slow) for piece in _PIECES),
    ],
)


def test_names_of_layers_are_distinct():
    names = [layer.name for layer in LAYERS]
    assert len(set(names)) == len(names)


def _run(
    layers: Sequence[Layer], make: Make, run: Evaluator = evaluate_reference
) -> Iterator[tuple[Layer, list[Array]]]:
    """Run what `make` makes of each layer, its inputs, outputs and arrays, as one program."""
    made = [make(layer) for layer in layers]
    inputs = [x for xs, _, _ in made for x in xs]
    outputs = [y for _, ys, _ in made for y in ys]
    found = iter(run(Graph(outputs, inputs), [a for _, _, arrays in made for a in arrays]))
    for layer, (_, ys, _) in zip(layers, made, strict=True):
        yield layer, [next(found) for _ in ys]


@cache
def _built(layer: Layer, dtype: DType) -> tuple[list[Tensor], list[Tensor]]:
    """Return inputs and outputs: building gradients takes longer than evaluating them does."""
    xs = inputs_of(layer, dtype)
    return xs, with_gradients(layer, xs)


def _direct(layer: Layer, dtype: DType = dtypes.float64, arrays: Any = None) -> Any:
    return (*_built(layer, dtype), arrays_of(layer, dtype) if arrays is None else arrays)


@cache
def _wanted(layers: tuple[Layer, ...]) -> dict[Layer, list[Array]]:
    return dict(_run(layers, _direct))


def _wide(array: Array) -> Array:
    return array.astype(np.float64)


def _assert_close(found: Sequence[Array], wanted: Sequence[Array], close: float, what: str) -> None:
    for place, (result, want) in enumerate(zip(found, wanted, strict=True)):
        where = f"{what}, result {place}"
        assert result.shape == want.shape, f"{where}\n{result}\n{want}"
        apart = np.abs(_wide(result) - _wide(want)).max(initial=0)
        scale = max(1.0, np.abs(_wide(want)).max(initial=0))
        assert apart <= close * scale, f"{where}: {apart} apart of {scale}\n{result}\n{want}"


@every_evaluator
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@some_layers
def test_a_low_precision_rounds_what_float64_gives(layers, dtype, evaluator):
    under_test = dtypes.as_dtype(dtype)
    layers = [layer for layer in layers if under_test in layer.dtypes]

    def in_float64(layer: Layer) -> Any:
        arrays = arrays_of(layer, under_test)
        return _direct(layer, arrays=[_wide(a) if _is_float(a) else a for a in arrays])

    exact = dict(_run(layers, in_float64))
    for layer, found in _run(layers, lambda layer: _direct(layer, under_test), evaluator):
        close = _TOLERANCES[dtype] * layer.slack
        _assert_close(found, exact[layer], close, f"{layer.name} in {dtype}")
        assert {a.dtype for a in found} == {under_test.numpy}, layer.name


def _is_float(array: Array) -> bool:
    return dtypes.as_dtype(array.dtype).is_float


@every_evaluator
@some_layers
def test_the_size_of_the_batch_may_be_unknown(layers, evaluator):
    def unknown(layer: Layer) -> Any:
        xs = inputs_of(layer, dtypes.float64, batch=f"batch of {layer.name}".replace(" ", "_"))
        return xs, with_gradients(layer, xs), arrays_of(layer, dtypes.float64)

    for layer, found in _run(layers, unknown, evaluator):
        _assert_close(found, _wanted(layers)[layer], _CLOSE, layer.name)


@every_evaluator
@some_layers
def test_a_function_is_called_like_the_layer_itself(layers, evaluator):
    def called(layer: Layer) -> Any:
        xs = inputs_of(layer, dtypes.float64)
        function = sg.function(layer.build)
        first, second = function(*xs), function(*xs)
        return xs, with_gradients(layer, xs, (first + second) / 2), arrays_of(layer, dtypes.float64)

    for layer, found in _run(layers, called, evaluator):
        _assert_close(found, _wanted(layers)[layer], _CLOSE, layer.name)


def _several(layer: Layer) -> list[list[Array]]:
    """Return the arrays of several cases, which differ in what is batched."""
    first = arrays_of(layer, dtypes.float64)
    others = [arrays_of(layer, dtypes.float64, seed) for seed in range(1, _CASES)]
    return [
        [other if place in layer.batched else own for place, (own, other) in enumerate(pairs)]
        for pairs in (list(zip(first, arrays, strict=True)) for arrays in (first, *others))
    ]


def _stacked(layer: Layer) -> list[Array]:
    columns = zip(*_several(layer), strict=True)
    return [
        np.stack(column) if place in layer.batched else column[0]
        for place, column in enumerate(columns)
    ]


@cache
def _wanted_of_cases(layers: tuple[Layer, ...]) -> dict[Layer, list[Array]]:
    """Return results with an axis for the cases, and gradients, summed where there is none."""
    runs = [
        dict(_run(layers, lambda layer: _direct(layer, arrays=_several(layer)[case])))  # noqa: B023
        for case in range(_CASES)
    ]
    wanted = {}
    for layer in layers:
        columns = list(zip(*(run[layer] for run in runs), strict=True))
        floats = [p for p, given in enumerate(layer.inputs) if isinstance(given, Real)]
        is_stacked = [True, *(place in layer.batched for place in floats)]
        wanted[layer] = [
            np.stack(column) if stacked else np.sum(column, axis=0)
            for column, stacked in zip(columns, is_stacked, strict=True)
        ]
    return wanted


@every_evaluator
@some_layers
def test_vmap_gives_what_the_layer_gives_for_each_case(layers, evaluator):
    def mapped(layer: Layer) -> Any:
        xs = inputs_of(layer, dtypes.float64, lead=(_CASES,))
        axes = tuple(0 if place in layer.batched else None for place in range(len(xs)))
        y = sg.vmap(layer.build, in_axes=axes)(*xs)
        return xs, with_gradients(layer, xs, y), _stacked(layer)

    wanted = _wanted_of_cases(layers)
    for layer, found in _run(layers, mapped, evaluator):
        _assert_close(found, wanted[layer], _CLOSE, layer.name)


@every_evaluator
@some_layers
def test_scan_gives_what_the_layer_gives_in_each_iteration(layers, evaluator):
    def scanned(layer: Layer) -> Any:
        xs = inputs_of(layer, dtypes.float64, lead=(_CASES,))

        def body(count: Any, slices: Any) -> Any:
            given = iter(slices)
            args = [next(given) if p in layer.batched else x for p, x in enumerate(xs)]
            return count + 1, layer.build(*args)

        stacks = [xs[place] for place in layer.batched]
        _, y = sg.scan(body, sg.constant(0), stacks)
        return xs, with_gradients(layer, xs, y), _stacked(layer)

    wanted = _wanted_of_cases(layers)
    for layer, found in _run(layers, scanned, evaluator):
        _assert_close(found, wanted[layer], _CLOSE, layer.name)


@a_spread_of_layers
def test_any_number_of_threads_gives_the_same_bits(layers, monkeypatch):
    # What is small is shared too, and cut finely.
    monkeypatch.setattr(share_work, "UNCUT", 1)
    monkeypatch.setattr(split_folds, "PIECES", 2)

    def run(threads: int) -> Evaluator:
        def on_threads(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
            step = compile_for(graph, threads=Threads(threads, least_cycles=0))
            return run_native(step, arrays).outputs

        return on_threads

    one = dict(_run(layers, lambda layer: _direct(layer, dtypes.float32), run(1)))
    for layer, found in _run(layers, lambda layer: _direct(layer, dtypes.float32), run(3)):
        assert [a.tobytes() for a in found] == [a.tobytes() for a in one[layer]], layer.name


@a_spread_of_layers
def test_an_exported_layer_gives_the_same_bits(layers, tmp_path):
    made = {layer.name: _direct(layer, dtypes.float32) for layer in layers}
    steps = {name: sg.compile(xs, ys, name=name) for name, (xs, ys, _) in made.items()}
    sg.export(steps, tmp_path / "layers")
    library = sg.load(tmp_path / "layers")
    for name, (_, _, arrays) in made.items():
        found, wanted = library[name](*arrays), steps[name](*arrays)
        assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted], name
