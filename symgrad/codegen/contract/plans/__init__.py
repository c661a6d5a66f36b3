"""GEMM plans: how a contraction is computed, as data, and the search for the cheapest way."""
