"""Complex numbers at the edges of a program: arguments, memory, files, exports and text."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.compare import structurally_equal
from symgrad.graph.graph import Graph

_VALUE = np.array([1 + 2j, -0.5j, 3], np.complex64)


def _step() -> tuple[sg.Step, sg.Variable]:
    z = sg.placeholder((3,), "complex64", name="z")
    w = sg.variable(_VALUE, name="w")
    return sg.compile([z], {"y": z * w}, updates=[(w, w + z)], opt_level=0), w


def test_real_arrays_and_python_numbers_are_taken_for_complex_inputs():
    z, c = sg.placeholder((2,), "complex64"), sg.placeholder((), "complex128")
    step = sg.compile([z, c], [z * 1j, c], opt_level=0)
    found = step(np.array([1, 2], np.float32), 2 + 1j)
    np.testing.assert_array_equal(found[0], [1j, 2j])
    assert found[1] == 2 + 1j
    assert found[0].dtype == np.complex64
    with pytest.raises(sg.DTypeError, match="complex128 was given, complex64 is needed"):
        step(np.ones(2, np.complex128), 0)


def test_a_real_input_takes_no_complex_number():
    step = sg.compile(x := sg.placeholder(()), x * 2, opt_level=0)
    with pytest.raises(sg.DTypeError, match="complex128 was given, float32 is needed"):
        step(1j)


def test_a_result_is_written_to_a_given_array():
    step, _ = _step()
    out = {"y": np.zeros(3, np.complex64)}
    step(_VALUE, out=out)
    np.testing.assert_allclose(out["y"], _VALUE**2)


def test_sizes_may_be_unknown():
    z = sg.placeholder(("n",), "complex128")
    step = sg.compile(z, [sg.vecdot(z, z), sg.mean(z), sg.prod(z)], opt_level=0)
    for size in (3, 1, 4):
        a = np.arange(1, size + 1) * (1 - 2j)
        np.testing.assert_allclose(step(a), [np.vdot(a, a), a.mean(), a.prod()])


def test_text_gives_a_graph_back_with_its_constants():
    step, _ = _step()
    z = sg.placeholder((2,), "complex128")
    special = np.array([complex(np.inf, -0.0), complex(np.nan, 1)])
    for graph in (step.graph, Graph([z + special, z * 2j], [z])):
        again = Graph.parse(str(graph))
        assert structurally_equal(again, graph)
        assert str(again) == str(graph)


def test_a_checkpoint_gives_complex_values_back(tmp_path):
    path = tmp_path / "values"
    w, u = sg.variable(_VALUE, name="w"), sg.variable(np.array([[1e300 - 2j]]), name="u")
    sg.save(path, [w, u])
    w.value, u.value = np.zeros(3), np.zeros((1, 1))
    sg.restore(path, [w, u])
    np.testing.assert_array_equal(w.value, _VALUE)
    np.testing.assert_array_equal(u.value, [[1e300 - 2j]])


def test_a_checkpoint_tells_complex_values_from_pairs_of_real_ones(tmp_path):
    w = sg.variable(_VALUE, name="w")
    pairs = sg.variable(np.zeros((3, 2), np.float32), name="w")
    for saved, other in ((w, pairs), (pairs, w)):
        sg.save(tmp_path / "values", saved)
        with pytest.raises(sg.CheckpointError, match=r"w is .*, the variable is"):
            sg.restore(tmp_path / "values", other)


def test_an_export_takes_and_gives_complex_arrays(tmp_path):
    step, w = _step()
    step.export(tmp_path / "net")
    header = (tmp_path / "net.h").read_text()
    assert "takes z: c64[3], the real and the imaginary part in turn" in header
    assert "const float *z, float *output0" in header
    library = sg.load(tmp_path / "net")
    np.testing.assert_array_equal(library(_VALUE)["y"], step(_VALUE)["y"])
    np.testing.assert_array_equal(library.variables["w"], w.value)


def test_a_program_is_found_again_with_its_complex_variables(tmp_path, monkeypatch):
    first, a = _step()
    second, b = _step()
    first(_VALUE)
    second(_VALUE)
    np.testing.assert_array_equal(a.value, b.value)
    np.testing.assert_allclose(a.value, 2 * _VALUE)


def test_functions_of_arrays_differentiate_complex_ones():
    def length(z):
        return sg.sum(sg.abs(z) ** 2)

    np.testing.assert_allclose(sg.grad(length)(_VALUE), 2 * _VALUE.conj())
    tangent = np.array([1j, 1, 0], np.complex64)
    _y, dy = sg.jvp(lambda z: z * sg.conj(z), (_VALUE,), (tangent,))
    np.testing.assert_allclose(dy, 2 * np.real(_VALUE.conj() * tangent), rtol=1e-6)
    matrices = np.stack([np.outer(_VALUE, _VALUE), np.eye(3) * 1j]).astype(np.complex64)
    found = sg.vmap(lambda m: m @ m + sg.prod(m[0]))(matrices)
    np.testing.assert_allclose(found, [m @ m + m[0].prod() for m in matrices], rtol=1e-5)
