"""Functions of neural networks, composed of ops; no state and no layer classes."""
