"""What a step of a workload makes of its function in TensorFlow: tasks of `workload_tasks.py`.

A step is one `tf.function`, as a graph or compiled by XLA. It moves weights by TensorFlow's own
kernels of optimizers, which do not go through lists of what an optimizer of Keras may be asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.network_peers import BETA1, BETA2, EPSILON, RATE, Arrays
from benchmarks.timing import optional
from benchmarks.workload_peers import Contender, Function
from symgrad.graph.types import Array

# Of a function, its weights, what else it is given, and whether XLA compiles it.
TensorFlowMaker = Callable[[Function, Arrays, Arrays, bool], Contender]


def tensorflow_training(
    slots: int, move: Callable[[Any, Any, Any, Any, Any], None], checked_steps: int
) -> TensorFlowMaker:
    """Return a maker of steps that call `move(tf, w, slots of w, g, t)` for each weight."""

    def make(function: Function, weights: Arrays, given: Arrays, is_xla: bool) -> Contender:
        tf = optional("tensorflow")
        w = {name: tf.Variable(array) for name, array in weights.items()}
        kept = {n: [tf.Variable(tf.zeros_like(v)) for _ in range(slots)] for n, v in w.items()}
        count = tf.Variable(0.0)
        inputs = {name: tf.constant(array) for name, array in given.items()}

        def take_step(given: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = function(w, given)
            t = count.assign_add(1.0)
            for name, g in tape.gradient(loss, w).items():
                # Of rows that were read it is those rows.
                move(tf, w[name], kept[name], tf.convert_to_tensor(g), t)
            return loss

        update = tf.function(take_step, jit_compile=is_xla, autograph=False)

        def results() -> list[Array]:
            before = [v.numpy() for v in w.values()]
            losses = np.array([float(update(inputs)) for _ in range(checked_steps)])
            moved = [v.numpy() - start for v, start in zip(w.values(), before, strict=True)]
            return [losses, *moved]

        return Contender(lambda: update(inputs).numpy(), results)

    return make


def sgd(rate: float) -> Callable[..., None]:
    """Return how SGD moves a weight."""

    def move(_tf: Any, w: Any, _slots: Any, g: Any, _t: Any) -> None:
        w.assign_sub(rate * g)

    return move


def adam(decay: float = 0.0) -> Callable[..., None]:
    """Return how Adam moves a weight, which is decayed before if it is to be: AdamW."""

    def move(tf: Any, w: Any, slots: Any, g: Any, t: Any) -> None:
        if decay:
            w.assign(w * (1 - RATE * decay))
        m, v = slots
        power = tf.pow(BETA2, t)
        tf.raw_ops.ResourceApplyAdam(
            var=w.handle,
            m=m.handle,
            v=v.handle,
            beta1_power=tf.pow(BETA1, t),
            beta2_power=power,
            lr=RATE,
            beta1=BETA1,
            beta2=BETA2,
            epsilon=EPSILON * tf.sqrt(1 - power),  # TensorFlow adds it before v is corrected
            grad=g,
        )

    return move


# Of the library, a function, its weights, what else it is given, and vectors: what is found.
Derive = Callable[[Any, Function, Any, Any, Any], list[Any]]


def tensorflow_derivative(
    derive: Derive, vectors_of: Callable[[Arrays], list[Array]]
) -> TensorFlowMaker:
    """Return a maker of steps that compute what `derive` does."""

    def make(function: Function, weights: Arrays, given: Arrays, is_xla: bool) -> Contender:
        tf = optional("tensorflow")

        def tensors(w: Any, inputs: Any, along: Any) -> list[Any]:
            # A gradient of rows that were read is those rows.
            return [tf.convert_to_tensor(t) for t in derive(tf, function, w, inputs, along)]

        compiled = tf.function(tensors, jit_compile=is_xla, autograph=False)
        w, inputs = ({n: tf.constant(a) for n, a in arrays.items()} for arrays in (weights, given))
        along = [tf.constant(array) for array in vectors_of(weights)]

        def results() -> list[Array]:
            return [found.numpy() for found in compiled(w, inputs, along)]

        return Contender(lambda: compiled(w, inputs, along)[-1].numpy(), results)

    return make


def gradient(tf: Any, function: Function, w: Any, given: Any, _along: Any) -> list[Any]:
    """Return the loss and its gradient."""
    leaves = [*w.values()]
    with tf.GradientTape() as tape:
        tape.watch(leaves)
        loss = function(w, given)
    return [loss, *tape.gradient(loss, leaves)]


def hessian_product(tf: Any, function: Function, w: Any, given: Any, along: Any) -> list[Any]:
    """Return the loss, and its Hessian times a vector: forward mode over reverse mode."""
    leaves = [*w.values()]
    with tf.autodiff.ForwardAccumulator(leaves, along) as accumulator:
        loss, *gradients = gradient(tf, function, w, given, along)
    return [loss, *(accumulator.jvp(g) for g in gradients)]


def normal_product(tf: Any, function: Function, w: Any, given: Any, along: Any) -> list[Any]:
    """Return the residuals, and their Jacobian's transpose times its product with a vector."""
    leaves = [*w.values()]
    with tf.GradientTape() as tape:
        tape.watch(leaves)
        with tf.autodiff.ForwardAccumulator(leaves, along) as accumulator:
            residuals = function(w, given)
    change = accumulator.jvp(residuals)
    return [residuals, *tape.gradient(residuals, leaves, output_gradients=change)]
