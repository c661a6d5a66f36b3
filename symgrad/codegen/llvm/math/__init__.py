"""Scalar math in LLVM IR without a math library: what `lanes.py` builds scalar operations from."""
