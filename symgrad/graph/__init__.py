"""What a program is: types, nodes, ops, their text form and NumPy meaning; no transformation."""
