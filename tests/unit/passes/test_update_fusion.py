"""An update is part of the kernel that makes its gradient, or it is said why not.

Which gradients are in memory is asked of the compiled step, what is computed of all floors; the
results of fused programs are also compared with those of programs in which nothing is fused into
a product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.blocking import Blocking
from symgrad.codegen.loops.language import Product
from symgrad.graph.graph import Graph, Update
from symgrad.graph.node import Tensor
from symgrad.optim import SGD, Adam
from symgrad.optim.optimizer import Optimizer
from symgrad.passes.fusion import fuse as fuse_module
from symgrad.runtime.function import compile
from symgrad.runtime.step import Step
from tests.support.floors import compile_for, program_for, run_everywhere, run_native

RNG = np.random.default_rng(0)


def weight(*shape: int, name: str = "w") -> sg.Variable:
    scale = np.float32(shape[0] ** -0.5)
    return sg.variable(scale * RNG.standard_normal(shape).astype(np.float32), name=name)


X = sg.placeholder((33, 24), name="x")
INPUT = RNG.standard_normal((33, 24)).astype(np.float32)
OPTIMIZERS: dict[str, Callable[[], Optimizer]] = {
    "descent": lambda: SGD(0.1),
    "momentum": lambda: SGD(0.1, momentum=0.9),
    "nesterov": lambda: SGD(0.1, momentum=0.9, nesterov=True),
    "adam": Adam,
}


def perceptron() -> Tensor:
    h: Tensor = X
    for number, (size, following) in enumerate(pairwise((24, 40, 17, 3))):
        h = sg.tanh(h @ weight(size, following, name=f"w{number}") + weight(following))
    return sg.mean(sg.square(h))


def windows() -> Tensor:
    """Return the loss of a convolution whose windows do not overlap."""
    image = sg.reshape(X, (11, 3, 4, 6))
    return sg.mean(sg.square(sg.einsum("nhwc,hwcd->nd", image, weight(3, 4, 6, 8))))


def heads() -> Tensor:
    return sg.mean(sg.square(sg.einsum("bi,ihs->bhs", X, weight(24, 3, 5))))


def transposed() -> Tensor:
    return sg.mean(sg.square(sg.matmul(X, weight(9, 24), transpose_b=True)))


def in_another_shape() -> Tensor:
    return sg.mean(sg.square(X @ sg.reshape(weight(4, 6, 10), (24, 10))))


def normalized() -> Tensor:
    h = X @ weight(24, 16, name="w")
    centered = h - h.mean(-1, keepdims=True)
    scale = sg.rsqrt(sg.square(centered).mean(-1, keepdims=True) + 1e-5)
    return sg.mean(sg.tanh(centered * scale * weight(16, name="gain") + weight(16, name="shift")))


MODELS = (perceptron, windows, heads, transposed, in_another_shape, normalized)
# Three layers take longer than all others.
every_model = pytest.mark.parametrize(
    "model", [pytest.param(perceptron, marks=pytest.mark.slow), *MODELS[1:]]
)


def training(loss: Tensor, updates: Sequence[Update]) -> Step:
    # What is asked of it is decided before LLVM optimizes anything.
    return compile([X], loss, updates=updates, opt_level=0)


# By default every second rule for each model.
@pytest.mark.parametrize(
    ("model", "rule"),
    [
        pytest.param(model, rule, marks=[pytest.mark.slow] if (i + j) % 2 else [])
        for i, model in enumerate(MODELS)
        for j, rule in enumerate(OPTIMIZERS)
    ],
)
def test_no_gradient_is_in_memory(model, rule):
    loss = model()
    updates = OPTIMIZERS[rule]().minimize(loss)
    step = training(loss, updates)
    assert step.memory.gradients == ()
    assert "gradient buffers: 0 bytes" in str(step.memory)
    assert step.executable.partition.in_place == set(step.executable.partition.graph.updates)


@every_model
def test_a_decay_of_weights_is_part_of_the_kernel_too(model):
    loss = model()
    variables = [u.variable for u in SGD(1.0).minimize(loss)]
    gradients = zip(sg.gradients(loss, variables), variables, strict=True)
    step = training(loss, Adam().apply_gradients([(g + 0.01 * w, w) for g, w in gradients]))
    assert step.memory.gradients == ()


# By default each model with one rule, and each rule with one model at least.
@pytest.mark.parametrize(
    ("model", "rule"),
    [
        pytest.param(model, rule, marks=[pytest.mark.slow] if (i + j) % len(OPTIMIZERS) else [])
        for i, model in enumerate(MODELS)
        for j, rule in enumerate(OPTIMIZERS)
    ],
)
def test_a_step_is_right_on_all_floors(model, rule):
    loss = model()
    graph = Graph([loss], [X], OPTIMIZERS[rule]().minimize(loss))
    different = run_everywhere(graph, [INPUT], targets=["native"])
    assert different is None, different


@every_model
def test_fused_and_apart_give_the_same(model, monkeypatch):
    loss = model()
    graph = Graph([loss], [X], Adam().minimize(loss))
    fused = compile_for(graph)
    monkeypatch.setattr(fuse_module, "merge_from_operands", lambda *_: None)
    apart = compile_for(graph)
    assert len(apart.program.launches) > len(fused.program.launches)
    expected = run_native(apart, [INPUT]).state
    for state, value in run_native(fused, [INPUT]).state.items():
        np.testing.assert_allclose(value, expected[state], rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------ what cannot be one kernel


def reasons(step: Step) -> dict[str, str]:
    return {record.variable: record.reason for record in step.memory.gradients}


def test_a_gradient_clipped_by_its_length_is_in_memory():
    w, u = weight(24, 16), weight(16, 5, name="u")
    loss = sg.mean(sg.square(sg.tanh(X @ w) @ u))
    gradients = sg.gradients(loss, [w, u])
    length = sg.sqrt(sg.sum(sg.square(gradients[0])) + sg.sum(sg.square(gradients[1])))
    clipped = [g * sg.minimum(1.0, 1 / length) for g in gradients]
    step = training(loss, Adam().apply_gradients(zip(clipped, [w, u], strict=True)))
    assert reasons(step) == dict.fromkeys(["w", "u"], "the sum between the two needs all of it")
    assert step.memory.gradient_bytes == w.value.nbytes + u.value.nbytes


def test_of_a_tied_weight_one_part_of_the_gradient_is_in_memory():
    w = weight(24, 24)
    loss = sg.mean(sg.square(sg.tanh(X @ w) @ w))
    step = training(loss, SGD(0.1).minimize(loss))
    assert reasons(step) == {"w": "the einsum that uses it is a kernel of its own"}
    assert step.memory.gradient_bytes == w.value.nbytes


def test_a_gradient_that_a_loop_adds_up_is_in_memory():
    w = weight(24, 24)
    _, h = sg.while_loop(
        lambda i, h: sg.logical_and(i < 5, h[0] < 100.0),
        lambda i, h: (i + 1, sg.tanh(h @ w + 0.5)),
        (sg.constant(0), sg.sum(X, axis=0)),
    )
    step = training(sg.sum(h), SGD(0.1).minimize(sg.sum(h)))
    assert list(reasons(step)) == ["w"]
    assert reasons(step)["w"].startswith("it is complete when the ")


def test_a_gradient_that_leaves_its_loop_as_one_product_is_not():
    w = weight(24, 24)
    loss = sg.sum(sg.scan(lambda h, x: (sg.tanh(h @ w + x), x), sg.zeros((24,)), X)[0])
    assert training(loss, SGD(0.1).minimize(loss)).memory.gradients == ()


def test_a_gradient_that_is_a_result_is_read_from_there():
    w = weight(24, 16)
    loss = sg.mean(sg.square(X @ w))
    (g,) = sg.gradients(loss, [w])
    step = compile([X], g, updates=SGD(0.1).apply_gradients([(g, w)]))
    assert step.memory.gradients == ()  # the update goes on with what the kernel has in registers
    assert len([k for k in step.kernels if "subtract" in k.ops and "einsum" in k.ops]) == 1


def test_a_transposed_gradient_is_in_memory():
    w = weight(6, 10, 4)
    loss = sg.mean(sg.square(X @ sg.reshape(sg.permute_dims(w, (0, 2, 1)), (24, 10))))
    step = training(loss, SGD(0.1).minimize(loss))
    assert reasons(step) == {"w": "it is used at other elements than it is computed at"}


# --------------------------------------------------------------- every way to compute a product

PRODUCTS = {
    # rows, columns, terms of each sum
    "one block": (40, 48, 64),
    "sums in several blocks": (64, 64, 5000),
    "one row of tiles": (3, 200, 4096),
    "narrow": (200, 3, 4096),
    "by dot products": (5, 7, 3000),
    "large": (520, 530, 700),
}


@pytest.mark.parametrize(
    "layout", ["ki,kj->ij", "ik,kj->ij", "ki,jk->ij", "ik,jk->ij", "ki,kj->ji"]
)
@pytest.mark.parametrize("sizes", PRODUCTS.values(), ids=PRODUCTS)
def test_the_update_is_made_once_the_sums_are_complete(sizes, layout):
    extent = dict(zip("ijk", sizes, strict=True))
    operands, _, out = layout.partition("->")
    a, b = (sg.placeholder([extent[c] for c in labels]) for labels in operands.split(","))
    w = sg.variable(np.ones([extent[c] for c in out], np.float32), name="w")
    m = sg.variable(np.full([extent[c] for c in out], 2.0, np.float32), name="m")
    new_m = 0.5 * m + sg.einsum(layout, a, b)
    graph = Graph([], [a, b], [Update(m, new_m), Update(w, w - 0.25 * new_m)])
    executable = compile_for(graph)
    assert len(executable.program.launches) == 1
    arrays = [RNG.integers(-3, 4, t.type.static_shape).astype(np.float32) for t in (a, b)]
    found = run_native(executable, arrays).state
    # Small integers: no sum is rounded, so one product too many or too few would be seen.
    expected_m = 1 + np.einsum(layout, *arrays, dtype=np.float64, optimize=True)
    np.testing.assert_array_equal(found[m.state], expected_m)
    np.testing.assert_array_equal(found[w.state], 1 - 0.25 * expected_m)


def test_the_products_above_are_computed_in_unlike_ways():
    ways = {str(_blocking(sizes)) for sizes in PRODUCTS.values()}
    assert len(ways) >= 4
    assert any(_blocking(sizes).block[2] < sizes[2] for sizes in PRODUCTS.values())


def _blocking(sizes: tuple[int, int, int]) -> Blocking:
    rows, columns, terms = sizes
    a, b = sg.placeholder((terms, rows)), sg.placeholder((terms, columns))
    w = sg.variable(np.ones((rows, columns), np.float32))
    graph = Graph([], [a, b], [Update(w, w - sg.einsum("ki,kj->ij", a, b))])
    (kernel,) = program_for(graph).kernels
    (product,) = (s for s in kernel.body if isinstance(s, Product))
    return product.blocking
