"""Functions with a gradient of their own, for tests of where such functions may stand."""

from __future__ import annotations

import symgrad as sg


@sg.custom_gradient
def softplus(x):
    """Return log(1 + exp(x)), with a gradient that reads what the function has computed."""
    e = sg.exp(x)
    return sg.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))


@sg.custom_gradient
def exponential(x):
    """Return exp(x), with a gradient in terms of itself."""
    return sg.exp(x), lambda dy: dy * exponential(x)
