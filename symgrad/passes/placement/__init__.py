"""SPMD partitioning: which rank has which part of each tensor, and the collectives in between."""
