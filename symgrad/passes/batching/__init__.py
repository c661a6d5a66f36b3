"""vmap: a graph built once more with a batch axis."""
