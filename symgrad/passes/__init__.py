"""Compiler passes, from graph to graph: gradients, rewriting, fusion, memory planning."""
