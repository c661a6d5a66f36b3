"""Benchmarks: programs that measure, each beside what it competes with, each with its bars.

`python -m benchmarks` runs all of them; a single one is run as `python -m benchmarks.overhead`.
Nothing here is imported by symgrad, and no test depends on a time.
"""

import os

# One core against one core. Libraries read these when they are loaded, which is after this.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
# What compiling takes is measured without what an earlier run has left, but for `first_step`.
os.environ.setdefault("SYMGRAD_CACHE", "0")
