"""Neural networks: activations, layers and losses as functions of tensors."""

from symgrad.frontend.container import map_ops_over_containers
from symgrad.graph.ops.indexing import one_hot
from symgrad.graph.ops.transcendental import sigmoid
from symgrad.nn.activations import (
    elu,
    gelu,
    hard_sigmoid,
    hard_silu,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    logsumexp,
    relu,
    selu,
    silu,
    softmax,
    softplus,
)
from symgrad.nn.layers import dropout, linear
from symgrad.nn.losses import binary_cross_entropy_with_logits, cross_entropy, huber, mse

__all__ = [
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "dropout",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "huber",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "mse",
    "one_hot",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
]

map_ops_over_containers(globals())
