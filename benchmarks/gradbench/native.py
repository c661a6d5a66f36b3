"""GradBench problems in C++, compiled here for this machine and called through ctypes.

`NAME.cpp` has a function `NAME_FUNCTION` for each of a problem: of pointers to the arrays that are
given, of the sizes that those were made for, and of pointers to the results.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.gradbench.problem import Call, Given, Problem, arrays_of
from symgrad.graph.aligned import aligned_zeros
from symgrad.graph.types import Array

# Sums may be in another order, as in symgrad's vectors, and functions of vectors may be libmvec's.
OPTIONS = ("-std=c++17", "-O3", "-march=native", "-ffast-math", "-fPIC")


def has_compiler() -> bool:
    """Return whether there is a C++ compiler."""
    return shutil.which("g++") is not None


def load(problem: Problem, folder: Path) -> ctypes.CDLL:
    """Compile a problem's functions into `folder` and load them."""
    source, made = Path(__file__).with_name(f"{problem.name}.cpp"), folder / f"{problem.name}.o"
    subprocess.run(["g++", *OPTIONS, "-c", str(source), "-o", str(made)], check=True, timeout=120)
    # Linked with -ffast-math, it would have all of this process take denormal numbers for zeros.
    library = made.with_suffix(".so")
    subprocess.run(["g++", "-shared", str(made), "-o", str(library)], check=True, timeout=60)
    return ctypes.CDLL(str(library))


def native_call(
    library: ctypes.CDLL, name: str, given: Given, sizes: Sequence[int], like: Sequence[Array]
) -> Call:
    """Return a call of a function whose results have the shapes and dtypes of `like`."""
    results = [aligned_zeros(array.shape, array.dtype) for array in like]
    arrays = [np.ascontiguousarray(array) for array in arrays_of(given).values()]
    function = library[name]
    function.restype = None
    passed = (*_pointers(arrays), *map(ctypes.c_int64, sizes), *_pointers(results))

    def run(_kept: object = arrays) -> None:
        function(*passed)

    return Call(run, results)


def _pointers(arrays: Sequence[Array]) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]
