"""Optimizers: from a loss, or from gradients, to the updates a compiled step carries out."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from symgrad.frontend.publication import publish as _publish
from symgrad.optim import schedules
from symgrad.optim.adam import Adam
from symgrad.optim.adamw import AdamW
from symgrad.optim.optimizer import Optimizer
from symgrad.optim.rule import Group
from symgrad.optim.sgd import SGD

# Imported when they are first asked for (`late` below); type checkers see them now.
if _TYPE_CHECKING:
    from symgrad.optim.accumulation import Accumulate
    from symgrad.optim.adadelta import Adadelta
    from symgrad.optim.adagrad import Adagrad
    from symgrad.optim.averaging import ExponentialMovingAverage
    from symgrad.optim.clipping import (
        clip_by_global_norm,
        clip_by_norm,
        clip_by_value,
        global_norm,
    )
    from symgrad.optim.lamb import LAMB
    from symgrad.optim.lars import LARS
    from symgrad.optim.lion import Lion
    from symgrad.optim.rmsprop import RMSProp

__all__ = [
    "LAMB",
    "LARS",
    "SGD",
    "Accumulate",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "ExponentialMovingAverage",
    "Group",
    "Lion",
    "Optimizer",
    "RMSProp",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "global_norm",
    "schedules",
]

_publish(
    globals(),
    ["schedules"],
    late={
        "symgrad.optim.accumulation": ["Accumulate"],
        "symgrad.optim.adadelta": ["Adadelta"],
        "symgrad.optim.adagrad": ["Adagrad"],
        "symgrad.optim.averaging": ["ExponentialMovingAverage"],
        "symgrad.optim.clipping": [
            "clip_by_global_norm",
            "clip_by_norm",
            "clip_by_value",
            "global_norm",
        ],
        "symgrad.optim.lamb": ["LAMB"],
        "symgrad.optim.lars": ["LARS"],
        "symgrad.optim.lion": ["Lion"],
        "symgrad.optim.rmsprop": ["RMSProp"],
    },
)
