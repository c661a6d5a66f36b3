"""Schedules of kernels: vectorization, code motion, two-stage reductions, threads."""
