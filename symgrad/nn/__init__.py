"""Neural networks: activations, layers and losses as functions of tensors."""

from symgrad.frontend.container import publish as _publish
from symgrad.graph.ops.indexing import one_hot as one_hot
from symgrad.graph.ops.transcendental import sigmoid as sigmoid
from symgrad.nn.activations import elu as elu
from symgrad.nn.activations import gelu as gelu
from symgrad.nn.activations import hard_sigmoid as hard_sigmoid
from symgrad.nn.activations import hard_silu as hard_silu
from symgrad.nn.activations import hard_tanh as hard_tanh
from symgrad.nn.activations import leaky_relu as leaky_relu
from symgrad.nn.activations import log_sigmoid as log_sigmoid
from symgrad.nn.activations import log_softmax as log_softmax
from symgrad.nn.activations import logsumexp as logsumexp
from symgrad.nn.activations import relu as relu
from symgrad.nn.activations import selu as selu
from symgrad.nn.activations import silu as silu
from symgrad.nn.activations import softmax as softmax
from symgrad.nn.activations import softplus as softplus
from symgrad.nn.layers import dropout as dropout
from symgrad.nn.layers import linear as linear
from symgrad.nn.losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from symgrad.nn.losses import cross_entropy as cross_entropy
from symgrad.nn.losses import huber as huber
from symgrad.nn.losses import mse as mse

__all__ = _publish(globals())
