"""Sparsity: which elements depend on which, and which of them can share a seed."""
