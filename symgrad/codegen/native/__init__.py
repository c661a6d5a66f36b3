"""Machine code in this process: LLVM's optimizer and linker, the OpenMP runtime, a cache."""
