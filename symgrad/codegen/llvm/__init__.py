"""LLVM IR emission, built with llvmlite: kernels, programs, vector code, math functions."""
