"""Schedules of kernels: vectorisation, code motion, two-stage reduction, threads."""
