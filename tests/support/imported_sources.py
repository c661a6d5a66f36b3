"""Import closure: the files of symgrad that a module of it imports, without those of packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "symgrad"

# The public face imports all there is, so a package without one is in its place.
_PROGRAM = """
import importlib, sys, types
package = types.ModuleType("symgrad")
package.__path__ = ["symgrad"]
sys.modules["symgrad"] = package
importlib.import_module(sys.argv[1])
for name, module in sys.modules.items():
    if name.startswith("symgrad.") and not hasattr(module, "__path__"):
        print(module.__file__)
"""


def imported_sources(module: str) -> set[Path]:
    """Return the files that are imported with a module, by a process of its own."""
    call = [sys.executable, "-c", _PROGRAM, module]
    done = subprocess.run(call, capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    return {Path(line).resolve() for line in done.stdout.splitlines()}
