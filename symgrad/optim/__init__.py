"""Optimizers: from a loss, or from gradients, to the updates a compiled step carries out."""

from symgrad.optim.adam import Adam
from symgrad.optim.optimizer import Optimizer
from symgrad.optim.sgd import SGD

__all__ = ["SGD", "Adam", "Optimizer"]
