"""From graph to graph: gradients, rewriting, fusion, memory planning; no code generation."""
