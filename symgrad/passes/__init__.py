"""Compiler passes, graph to graph: gradients, rewriting, fusion, memory; no code generation."""
