"""Checks for users: numerical gradients, comparison of arrays, the NumPy interpreter."""
