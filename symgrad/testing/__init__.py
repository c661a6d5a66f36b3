"""Checks for users: numerical gradients, comparison of arrays, the NumPy interpreter."""

from symgrad.frontend.publication import publish as _publish
from symgrad.testing.closeness import assert_allclose
from symgrad.testing.gradient_check import check_gradients
from symgrad.testing.interpreter import interpret

__all__ = ["assert_allclose", "check_gradients", "interpret"]

_publish(globals())
