"""Gradients: reverse mode, forward mode, Jacobians, and gradients that users register."""
