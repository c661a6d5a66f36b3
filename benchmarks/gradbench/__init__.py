"""The problems of GradBench, the public benchmark of automatic differentiation, beside C++ by hand.

A problem has a module: its function, written as one writes it, its derivative, and how its inputs
are made; beside it is the same in C++, both written by hand. `tests/e2e/test_gradbench.py` checks
them against NumPy.
"""

from benchmarks.gradbench.comparison import measure

__all__ = ["measure"]
