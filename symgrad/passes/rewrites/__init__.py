"""Peephole rewrites: algebra, constant folding, common subexpressions, dead code."""
