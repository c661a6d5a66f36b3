"""LLVM's back ends: a process that compiles for its own machine loads no others."""

import subprocess
import sys

_CODE = """
import llvmlite.binding as llvm
from symgrad.codegen.target import target_named

foreign = "x86_64" if llvm.get_default_triple().startswith("aarch64") else "aarch64"
triple = f"{foreign}-unknown-linux-gnu"
target_named("native").machine()
try:
    llvm.Target.from_triple(triple)
except RuntimeError:
    print("one")
target_named("x86-64" if foreign == "x86_64" else foreign).machine()
print(llvm.Target.from_triple(triple).name)
"""


def test_the_back_end_of_another_architecture_is_loaded_when_it_is_meant():
    run = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True)
    loaded, found = run.stdout.split()
    assert loaded == "one"
    assert found in ("aarch64", "x86-64")
