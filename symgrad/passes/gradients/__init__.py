"""Automatic differentiation: reverse mode, forward mode, Jacobians, gradients of users."""
