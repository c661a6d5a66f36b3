"""Optimizers: updates of variables, built as graph from their gradients."""
