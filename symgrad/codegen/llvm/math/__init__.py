"""Vector math library: elementary functions in LLVM IR, which `codegen/llvm/lanes.py` calls."""
