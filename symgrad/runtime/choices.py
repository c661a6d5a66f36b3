"""IR stages and export formats: what users may ask a step for.

They are known without what makes them, which a first step does not need.
"""

from __future__ import annotations

# See `stages.py`.
STAGES = ("graph", "optimized", "loops", "llvm", "llvm-opt", "asm")
# See `aot.py`.
FORMATS = ("so", "o", "h")
