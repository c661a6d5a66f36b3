"""symgrad: a graph-mode symbolic differentiation compiler for CPUs."""
