"""From loops to LLVM IR, built with llvmlite: the machines, the ABI, the optimizer."""
