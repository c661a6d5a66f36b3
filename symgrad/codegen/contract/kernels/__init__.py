"""Leaf functions of a GEMM: microkernels and packers, by the data that describes them."""
