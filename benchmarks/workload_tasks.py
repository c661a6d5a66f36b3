"""What a step of a workload makes of its function, in symgrad, JAX and PyTorch.

    TRAIN_SGD, TRAIN_ADAM, TRAIN_ADAMW      the loss; the weights are moved
    GRADIENT                                the loss and its gradient
    HESSIAN_PRODUCT                         the loss, and its Hessian times a vector
    GAUSS_NEWTON_PRODUCT                    the residuals r, and J.T (J v) of their Jacobian J

Each library does it as it does best: JAX is compiled as one function, which may overwrite weights
that it trains, PyTorch has its fused optimizers; TensorFlow's part is in `workload_tensorflow.py`.
All are handed what the function reads besides its weights at each step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import BETA1, BETA2, EPSILON, RATE, Arrays
from benchmarks.timing import optional
from benchmarks.workload_peers import Contender, Function, Maker, Task
from benchmarks.workload_tensorflow import (
    adam,
    gradient,
    hessian_product,
    normal_product,
    sgd,
    tensorflow_derivative,
    tensorflow_training,
)
from symgrad.graph.types import Array

SGD_RATE, DECAY = 0.1, 0.01
CHECKED_STEPS = 3


def _least_seconds(step: sg.Step, arrays: list[Array]) -> float:
    """Return what the kernels of a step would take at the limits of one core: the roofline."""
    return sum(row.least_seconds for row in step.profile(*arrays, repeat=1).rows)


# -------------------------------------------------------------------------------------- training


def _trained(step: Callable[[], Any], weights: Callable[[], list[Array]]) -> list[Array]:
    """Return the losses of some steps, and how far each of the weights moved in them."""
    before = weights()
    losses = np.array([float(step()) for _ in range(CHECKED_STEPS)])
    return [losses, *(after - first for after, first in zip(weights(), before, strict=True))]


def _symgrad_training(optimizer: Callable[[], Any]) -> Maker:
    def make(function: Function, weights: Arrays, given: Arrays, threads: int) -> Contender:
        w = {name: sg.variable(array, name=name) for name, array in weights.items()}
        inputs = {n: sg.placeholder(a.shape, str(a.dtype), name=n) for n, a in given.items()}
        loss = function(w, inputs)
        updates = optimizer().minimize(loss)
        compiled = sg.compile([*inputs.values()], loss, updates, threads=threads)
        arrays = [*given.values()]

        def step() -> Any:
            return compiled(*arrays)

        return Contender(
            step,
            lambda: _trained(step, lambda: [v.value.copy() for v in w.values()]),
            lambda: _least_seconds(compiled, arrays),
        )

    return make


def _jax_training(slots: int, move: Callable[..., Any]) -> Maker:
    """Return a maker of steps that set each weight and its slots to `move(w, g, t, *slots)`."""

    def make(function: Function, weights: Arrays, given: Arrays, _threads: int) -> Contender:
        jax = optional("jax")
        jnp = jax.numpy

        def update(state: Any, t: Any, given: Any) -> Any:
            w = {name: entry[0] for name, entry in state.items()}
            loss, gradient = jax.value_and_grad(function)(w, given)
            moved = {
                n: move(jnp, entry[0], gradient[n], t, *entry[1:]) for n, entry in state.items()
            }
            return moved, t + 1, loss

        compiled = jax.jit(update, donate_argnums=(0, 1))
        arrays = {name: jnp.asarray(array) for name, array in given.items()}
        state = {
            name: (jnp.array(array), *(jnp.zeros_like(array) for _ in range(slots)))
            for name, array in weights.items()
        }
        held = [state, jnp.ones((), jnp.float32)]

        def step() -> Any:
            *held[:], loss = compiled(*held, arrays)
            return loss.block_until_ready()

        return Contender(
            step, lambda: _trained(step, lambda: [np.array(held[0][name][0]) for name in weights])
        )

    return make


def _torch_training(optimizer: Callable[[Any, Any], Any]) -> Maker:
    """Return a maker of steps of `optimizer(torch.optim, parameters)`."""

    def make(function: Function, weights: Arrays, given: Arrays, _threads: int) -> Contender:
        torch = optional("torch")
        w = {name: torch.tensor(array, requires_grad=True) for name, array in weights.items()}
        inputs = {name: torch.tensor(array) for name, array in given.items()}
        rule = optimizer(torch.optim, list(w.values()))

        def step() -> Any:
            rule.zero_grad(set_to_none=True)
            loss = function(w, inputs)
            loss.backward()
            rule.step()
            return loss.detach()

        return Contender(
            step, lambda: _trained(step, lambda: [t.detach().numpy().copy() for t in w.values()])
        )

    return make


def _move_sgd(_jnp: Any, w: Any, g: Any, _t: Any) -> Any:
    return (w - SGD_RATE * g,)


def _move_adam(jnp: Any, w: Any, g: Any, t: Any, m: Any, v: Any) -> Any:
    m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g * g
    rate, scale = RATE / (1 - BETA1**t), 1 / jnp.sqrt(1 - BETA2**t)
    return w - rate * m / (jnp.sqrt(v) * scale + EPSILON), m, v


def _move_adamw(jnp: Any, w: Any, g: Any, t: Any, m: Any, v: Any) -> Any:
    return _move_adam(jnp, w * (1 - RATE * DECAY), g, t, m, v)


_BETAS = (BETA1, BETA2)
TRAIN_SGD = Task(
    _symgrad_training(lambda: sg.optim.SGD(SGD_RATE)),
    _jax_training(0, _move_sgd),
    _torch_training(lambda optim, w: optim.SGD(w, lr=SGD_RATE, fused=True)),
    tensorflow_training(0, sgd(SGD_RATE), CHECKED_STEPS),
)
TRAIN_ADAM = Task(
    _symgrad_training(lambda: sg.optim.Adam(RATE, BETA1, BETA2, EPSILON)),
    _jax_training(2, _move_adam),
    _torch_training(lambda optim, w: optim.Adam(w, lr=RATE, betas=_BETAS, eps=EPSILON, fused=True)),
    tensorflow_training(2, adam(), CHECKED_STEPS),
)
TRAIN_ADAMW = Task(
    _symgrad_training(lambda: sg.optim.AdamW(RATE, BETA1, BETA2, EPSILON, DECAY)),
    _jax_training(2, _move_adamw),
    _torch_training(
        lambda optim, w: optim.AdamW(
            w, lr=RATE, betas=_BETAS, eps=EPSILON, weight_decay=DECAY, fused=True
        )
    ),
    tensorflow_training(2, adam(DECAY), CHECKED_STEPS),
)

# ----------------------------------------------------------------------------------- derivatives

# Of a function, tensors of its weights, what else it is given, and vectors to multiply with. In
# JAX, which keeps dicts in an order of its own, these and what is found are dicts.
Derive = Callable[[Function, dict[str, Any], dict[str, Any], Any], list[Any]]


def _derivative(
    has_vectors: bool, symgrad: Derive, jax: Derive, torch: Derive, tensorflow: Callable[..., Any]
) -> Task:
    """Return the task to compute what four functions do, one a library."""

    def vectors_of(weights: Arrays) -> list[Array]:
        kinds = [(array.shape, array.dtype) for array in weights.values()]
        return list(_drawn(*kinds)) if has_vectors else []

    return Task(
        _symgrad_derivative(symgrad, vectors_of),
        _jax_derivative(jax, vectors_of),
        _torch_derivative(torch, vectors_of),
        tensorflow_derivative(tensorflow, vectors_of),
        vectors_of,
    )


@lru_cache(maxsize=1)
def _drawn(*kinds: tuple[tuple[int, ...], np.dtype[Any]]) -> list[Array]:
    """Draw a vector of each kind; the time to a first step has none of that."""
    random = np.random.default_rng(2)
    return [random.normal(size=shape).astype(dtype) for shape, dtype in kinds]


def _symgrad_derivative(derive: Derive, vectors_of: Callable[[Arrays], list[Array]]) -> Maker:
    def make(function: Function, weights: Arrays, given: Arrays, threads: int) -> Contender:
        def placeholders(arrays: Arrays) -> dict[str, Any]:
            return {n: sg.placeholder(a.shape, str(a.dtype), name=n) for n, a in arrays.items()}

        vectors = vectors_of(weights)
        w, inputs = placeholders(weights), placeholders(given)
        along = [sg.placeholder(array.shape, str(array.dtype)) for array in vectors]
        outputs = derive(function, w, inputs, along)
        leaves = [*w.values(), *inputs.values(), *along]
        compiled = sg.compile(leaves, outputs, threads=threads)
        arrays = [*weights.values(), *given.values(), *vectors]
        return Contender(
            lambda: compiled(*arrays),
            lambda: list(compiled(*arrays)),
            lambda: _least_seconds(compiled, arrays),
        )

    return make


def _jax_derivative(derive: Derive, vectors_of: Callable[[Arrays], list[Array]]) -> Maker:
    def make(function: Function, weights: Arrays, given: Arrays, _threads: int) -> Contender:
        jax = optional("jax")
        compiled = jax.jit(lambda w, inputs, along: derive(function, w, inputs, along))
        vectors = dict(zip(weights, vectors_of(weights), strict=False))
        nests = dict(weights), dict(given), vectors
        arrays = jax.tree_util.tree_map(jax.numpy.asarray, nests)

        def step() -> Any:
            return jax.block_until_ready(compiled(*arrays))

        def results() -> list[Array]:
            value, found = step()  # whose names are in another order
            return [np.array(value), *(np.array(found[name]) for name in weights)]

        return Contender(step, results)

    return make


def _torch_derivative(derive: Derive, vectors_of: Callable[[Arrays], list[Array]]) -> Maker:
    def make(function: Function, weights: Arrays, given: Arrays, _threads: int) -> Contender:
        torch = optional("torch")
        w = {name: torch.tensor(array, requires_grad=True) for name, array in weights.items()}
        inputs = {name: torch.tensor(array) for name, array in given.items()}
        along = [torch.tensor(array) for array in vectors_of(weights)]

        def step() -> Any:
            return derive(function, w, inputs, along)

        return Contender(step, lambda: [found.detach().numpy() for found in step()])

    return make


def _symgrad_gradient(function: Function, w: Any, given: Any, _along: Any) -> list[Any]:
    loss = function(w, given)
    return [loss, *sg.gradients(loss, [*w.values()])]


def _jax_gradient(function: Function, w: Any, given: Any, _along: Any) -> list[Any]:
    return list(optional("jax").value_and_grad(function)(w, given))


def _torch_gradient(function: Function, w: Any, given: Any, _along: Any) -> list[Any]:
    loss = function(w, given)
    return [loss, *optional("torch").autograd.grad(loss, [*w.values()])]


GRADIENT = _derivative(False, _symgrad_gradient, _jax_gradient, _torch_gradient, gradient)


def _symgrad_hessian_product(function: Function, w: Any, given: Any, along: Any) -> list[Any]:
    loss = function(w, given)
    return [loss, *sg.hvp(loss, [*w.values()], along)]


def _jax_hessian_product(function: Function, w: Any, given: Any, along: Any) -> list[Any]:
    jax = optional("jax")
    derive = jax.value_and_grad(lambda w: function(w, given))
    (loss, _), (_, found) = jax.jvp(derive, (w,), (along,))
    return [loss, found]


def _torch_hessian_product(function: Function, w: Any, given: Any, along: Any) -> list[Any]:
    # Twice in reverse mode, since a Hessian is symmetric.
    autograd, leaves = optional("torch").autograd, [*w.values()]
    loss = function(w, given)
    gradients = autograd.grad(loss, leaves, create_graph=True)
    return [loss, *autograd.grad(gradients, leaves, along)]


HESSIAN_PRODUCT = _derivative(
    True, _symgrad_hessian_product, _jax_hessian_product, _torch_hessian_product, hessian_product
)


def _symgrad_normal_product(function: Function, w: Any, given: Any, along: Any) -> list[Any]:
    leaves = [*w.values()]
    residuals = function(w, given)
    (change,) = sg.jvp(residuals, leaves, along)
    return [residuals, *sg.gradients(residuals, leaves, change)]


def _jax_normal_product(function: Function, w: Any, given: Any, along: Any) -> list[Any]:
    jax = optional("jax")
    residuals, pull = jax.vjp(lambda w: function(w, given), w)
    _, change = jax.jvp(lambda w: function(w, given), (w,), (along,))
    return [residuals, *pull(change)]


def _torch_normal_product(function: Function, w: Any, given: Any, along: Any) -> list[Any]:
    torch = optional("torch")
    forward, leaves = torch.autograd.forward_ad, [*w.values()]
    with forward.dual_level():
        pairs = zip(leaves, along, strict=True)
        duals = {n: forward.make_dual(*pair) for n, pair in zip(w, pairs, strict=True)}
        residuals, change = forward.unpack_dual(function(duals, given))
        return [residuals, *torch.autograd.grad(residuals, leaves, change.detach())]


GAUSS_NEWTON_PRODUCT = _derivative(
    True, _symgrad_normal_product, _jax_normal_product, _torch_normal_product, normal_product
)
