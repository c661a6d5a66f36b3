"""Automatic differentiation: reverse mode, forward mode, Jacobians, custom gradients."""
