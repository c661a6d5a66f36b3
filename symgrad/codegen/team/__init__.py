"""The team of threads: a work-sharing runtime, emitted as LLVM IR; it is no part of a schedule."""
