"""Machine code in this process: LLVM's optimizer and linker, the team of threads, a cache."""
