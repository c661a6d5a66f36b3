"""Nests of outputs: which of them native code writes to without a look at them in Python."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.frontend.nests import flatten
from symgrad.runtime.loaded_step import LoadedStep
from symgrad.runtime.output_nest import OutputNest, output_nest_of
from symgrad.runtime.step import Step

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.linspace(1, 2, 6, dtype=np.float32).reshape(2, 3)


def steps(sequence: Callable[[Iterable[Any]], Any], folder: Path) -> tuple[Step, LoadedStep]:
    """Return a step of two outputs, as it was compiled and as it is loaded."""
    x, y = (sg.placeholder((2, 3), name=name) for name in "xy")
    step = sg.compile([x, y], sequence([x + y, x * y]))
    sg.export({"step": step}, folder / "exported")
    return step, sg.load(folder / "exported")["step"]


@pytest.mark.parametrize("sequence", [list, tuple])
def test_several_outs_that_fit_are_not_looked_at_in_python(sequence, tmp_path, monkeypatch):
    out = sequence(np.empty((2, 3), np.float32) for _ in range(2))
    for step in steps(sequence, tmp_path):
        step(A, B, out=out)
        with monkeypatch.context() as patch:
            patch.setattr(Step, "_run_into", None)
            patch.setattr(LoadedStep, "_leaves", None)
            assert step(-A, B, out=out) is out
        np.testing.assert_array_equal(out, [B - A, -A * B])
        with pytest.raises(sg.GraphError, match="out is "):
            step(A, B, out=out[:1])
        with pytest.raises(sg.GraphError, match="out is "):
            step(A, B, out={"sum": out[0]})
        with pytest.raises(sg.ShapeError, match="1 inputs were given"):
            step(A, out=out)


@pytest.mark.parametrize("sequence", [list, tuple])
def test_results_side_by_side_are_what_native_code_made(sequence, tmp_path, monkeypatch):
    loaded = steps(sequence, tmp_path)
    monkeypatch.setattr(OutputNest, "of", None)
    for step in loaded:
        assert type(step(A, B)) is sequence
        np.testing.assert_array_equal(step(A, B), [A + B, A * B])


@pytest.mark.parametrize(
    ("tree", "kind"),
    [((0,), tuple), ([0, 0], list), ((), tuple), ([0, [0]], None), ([None, 0], None), (0, None)],
)
def test_sequences_of_leaves_are_told_from_other_nests(tree, kind):
    leaves, nest = flatten(tree)
    assert output_nest_of(nest, len(leaves)).sequence is kind


def test_no_outputs_are_returned_as_they_were_asked_for():
    x, total = sg.placeholder((3,)), sg.variable(0.0)
    nests: list[Any] = [None, (), []]
    for nothing in nests:
        step = sg.compile([x], nothing, [(total, total + sg.sum(x))])
        assert step(np.ones(3, np.float32)) == nothing
