"""Kernel fusion: which nodes make one kernel, in which order kernels run, and their buffers."""
