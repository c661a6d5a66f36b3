"""Lowering: from groups of nodes to kernels of the loop language."""
