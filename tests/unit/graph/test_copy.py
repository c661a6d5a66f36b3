"""Copies of tensors, nodes and graphs: what is compared by identity is its own copy."""

from __future__ import annotations

import copy
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import symgrad as sg

W = sg.variable(3.0, name="w")
X = sg.placeholder((2,), name="x")
Y = W * X
PARTS = {"variable": W, "tensor": Y, "node": Y.node, "graph": sg.Graph(Y)}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_copy_is_the_same_object(part):
    assert copy.copy(part) is part
    assert copy.deepcopy({"nest": [part]})["nest"][0] is part


@pytest.mark.parametrize("part", [W, Y, Y.node], ids=["variable", "tensor", "node"])
def test_a_part_of_a_graph_is_not_pickled(part):
    with pytest.raises(TypeError, match=f"a {type(part).__name__} is compared by identity"):
        ForkingPickler.dumps(part)


def test_a_pickled_graph_has_variables_of_its_own_with_the_same_values():
    u = sg.variable(np.array([[0.1, np.nan], [-0.0, 1e300]]), name="u")
    loop = sg.fori_loop(0, 3, lambda i, v: v * u + sg.astype(i, "float64"), u)
    graph = sg.Graph([loop, Y], [X], [sg.inplace_update(W, W + 1.0)])
    found = ForkingPickler.loads(ForkingPickler.dumps(graph))
    assert isinstance(found, sg.Graph)
    assert str(found) == str(graph)
    for owner, same in zip(graph.variables, found.variables, strict=True):
        assert owner.state is not same.state
        assert owner.value.tobytes() == same.value.tobytes()
    step = sg.compile(found.inputs, found.outputs)
    wanted = sg.compile([X], [loop, Y])(np.ones(2, "f"))
    for a, b in zip(step(np.ones(2, "f")), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_graph_with_a_function_of_python_is_not_pickled():
    @sg.custom_gradient
    def double(x):
        return x * 2.0, lambda dy: dy * 2.0

    y, _ = sg.scan(lambda c, _: (double(c), None), X, length=3)
    with pytest.raises(TypeError, match="custom_gradient in the graph has a function of Python"):
        ForkingPickler.dumps(sg.Graph([y]))


def test_a_copied_step_is_the_step_and_is_exported_rather_than_pickled():
    step = sg.compile([X], Y)
    assert copy.copy(step) is step
    assert copy.deepcopy([step])[0] is step
    with pytest.raises(sg.DTypeError, match="a Step is compared by identity") as caught:
        ForkingPickler.dumps(step)
    assert caught.value.hint == "step.export(path) writes what sg.load runs, or pickle step.graph"


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, ForkingPickler.dumps])
def test_an_optimizer_is_not_copied(make):
    opt = sg.optim.Adam(0.1)
    opt.minimize((W * W).sum(), {"w": W})
    with pytest.raises(sg.DTypeError, match="Adam has variables, which a copied or pickled") as e:
        make(opt)
    assert "sg.save and sg.restore" in str(e.value)


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, ForkingPickler.dumps])
def test_a_generator_is_not_copied_since_a_copy_would_draw_the_same(make):
    rng = sg.random.Generator(1)
    for generator in (rng, rng.fold(2)):
        with pytest.raises(sg.DTypeError, match="Generator has variables, which a copied") as e:
            make({"rng": generator}["rng"])
        assert "sg.save and sg.restore" in str(e.value)


@sg.function
def _doubled(x):
    return x * 2.0


def test_a_function_is_copied_and_pickled_by_name_as_those_of_python():
    np.testing.assert_array_equal(_doubled(np.ones(2)), [2, 2])
    assert copy.copy(_doubled) is _doubled
    assert copy.deepcopy({"f": _doubled})["f"] is _doubled
    assert _doubled.__reduce__() == "_doubled"


def test_a_copied_pull_gives_the_same():
    _, pull = sg.vjp(lambda x: x * x, np.array([1.0, 2.0]))
    for same in (copy.copy(pull), copy.deepcopy(pull)):
        np.testing.assert_array_equal(same(np.ones(2))[0], [2, 4])


def test_a_copied_tensor_compiles_and_has_gradients():
    x, y = copy.copy(X), copy.deepcopy(Y)
    (dw,) = sg.gradients(copy.copy(y), copy.deepcopy(W))
    assert dw is not None
    step = sg.compile([x], [y, dw])
    results = step(np.array([1, 2], "f"))
    np.testing.assert_array_equal(results[0], [3, 6])
    np.testing.assert_array_equal(results[1], 3)


def test_a_copied_tensor_array_has_the_same_slots():
    array = sg.TensorArray(2, ()).write(0, 5.0)
    assert copy.deepcopy(array).stack().node.inputs == array.stack().node.inputs
