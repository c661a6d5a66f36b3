"""Program IR: instructions around calls of kernels, their memory and their verifier."""
