"""Graph IR: types, nodes, ops, their text form and NumPy meaning; no transformation."""
