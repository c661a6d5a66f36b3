"""Training a network with Adam in symgrad, JAX and PyTorch: one call is loss, gradient and update.

A network says what its loss is in each of them; the rest is here, and is each one's best: JAX is
compiled as one function that is given its parameters to overwrite, PyTorch has its fused Adam.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.timing import optional
from symgrad.graph.types import Array

RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8

Arrays = Mapping[str, Array]
Step = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Network:
    """A network to train: its weights and batch, and its loss in each library.

    `make` returns both, small ones if it is asked to. `symgrad` and `jax` map dicts of tensors,
    the weights and the batch, to the loss; `torch` makes parameters and the loss as a function of
    nothing out of dicts of arrays.
    """

    name: str
    make: Callable[[bool], tuple[Arrays, Arrays]]
    symgrad: Callable[[Any, Any], Any]
    jax: Callable[[Any, Any], Any]
    torch: Callable[[Arrays, Arrays], tuple[list[Any], Callable[[], Any]]]


def symgrad_step(network: Network, weights: Arrays, batch: Arrays, threads: int) -> Step:
    """Return a step of symgrad."""
    w = {name: sg.variable(array, name=name) for name, array in weights.items()}
    given = {n: sg.placeholder(a.shape, str(a.dtype), name=n) for n, a in batch.items()}
    loss = network.symgrad(w, given)
    updates = sg.optim.Adam(RATE, BETA1, BETA2, EPSILON).minimize(loss)
    step, arrays = sg.compile(list(given.values()), loss, updates, threads=threads), batch.values()
    return lambda: float(step(*arrays))


def jax_step(network: Network, weights: Arrays, batch: Arrays, _threads: int) -> Step | None:
    """Return a step of JAX, whose threads are as many as the cores it was given; None without."""
    jax = optional("jax")
    if jax is None:
        return None
    jnp = jax.numpy
    tree = jax.tree_util.tree_map
    given = {name: jnp.asarray(array) for name, array in batch.items()}

    def update(w: Any, m: Any, v: Any, t: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda w: network.jax(w, given))(w)
        t = t + 1
        m = tree(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, gradient)
        v = tree(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, gradient)
        rate, scale = RATE / (1 - BETA1**t), 1 / jnp.sqrt(1 - BETA2**t)
        moved = tree(lambda w, m, v: w - rate * m / (jnp.sqrt(v) * scale + EPSILON), w, m, v)
        return moved, m, v, t, loss

    compiled = jax.jit(update, donate_argnums=(0, 1, 2, 3))
    slots = [tree(jnp.zeros_like, dict(weights)) for _ in range(2)]
    state = [tree(jnp.array, dict(weights)), *slots, jnp.zeros((), jnp.float32)]

    def step() -> float:
        *state[:], loss = compiled(*state)
        return float(loss)

    return step


def torch_images(weights: Arrays, batch: Arrays) -> tuple[dict[str, Any], Any, Any]:
    """Return weights, images and labels as tensors of PyTorch, with channels last in memory."""
    torch = optional("torch")
    w = {}
    for name, array in weights.items():
        given = torch.tensor(array)
        if given.ndim == 4:
            given = given.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        w[name] = given.requires_grad_(True)
    images = torch.tensor(batch["x"]).permute(0, 3, 1, 2)
    return w, images, torch.tensor(batch["labels"])


def torch_step(network: Network, weights: Arrays, batch: Arrays, threads: int) -> Step | None:
    """Return a step of PyTorch; None without it."""
    torch = optional("torch")
    if torch is None:
        return None
    torch.set_num_threads(threads)
    parameters, loss_of = network.torch(weights, batch)
    optimizer = torch.optim.Adam(parameters, lr=RATE, betas=(BETA1, BETA2), eps=EPSILON, fused=True)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def random_weights(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, Array]:
    """Return weights, the deviation of matrices falling with their rows; vectors are 0."""
    random = np.random.default_rng(seed)
    return {
        name: random.normal(0, shape[-2] ** -0.5, shape).astype(np.float32)
        if len(shape) > 1
        else np.zeros(shape, np.float32)
        for name, shape in shapes.items()
    }
