"""Code generation: from graph to loops to LLVM IR; nothing here runs machine code."""
