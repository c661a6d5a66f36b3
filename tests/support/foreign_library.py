"""Functions of C for tests of calls: built once by the system's compiler, loaded for no one else.

`LIBRARY` has them as ctypes finds them, and `noted()` what `note` was called with.
"""

from __future__ import annotations

import ctypes
import itertools
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCE = r"""
#include <stdint.h>
#include <string.h>

/* y = 2 x; a first element of more than 100 is refused. */
int32_t twice4(const double *x, double *y) {
    for (int i = 0; i < 4; i++) y[i] = 2 * x[i];
    return x[0] > 100 ? 7 : 0;
}

/* The row-major order of a matrix of 2 x 3 as numbers, and of as many int32 their sum. */
int32_t read23(const float *x, const int32_t *k, double *flat, int64_t *sum) {
    *sum = 0;
    for (int i = 0; i < 6; i++) { flat[i] = x[i]; *sum += k[i]; }
    return 0;
}

/* Whether the workspace is aligned, and can be written. */
int32_t work(const double *x, double *y, void *workspace) {
    memset(workspace, 1, 100);
    *y = *x + (((uintptr_t)workspace & 63) == 0);
    return -3 * (*x < 0);
}

static int64_t noted[1000];
static int count;

int32_t note(const int64_t *number, int64_t *next) {
    noted[count++ % 1000] = *number;
    *next = *number + 1;
    return *number == 13;
}

int forget(void) { count = 0; return 0; }
int64_t noted_at(int i) { return i < count ? noted[i] : -1; }

int32_t plus_ten(const int64_t *number, int64_t *sum) { *sum = *number + 10; return 0; }
int32_t plus_twenty(const int64_t *number, int64_t *sum) { *sum = *number + 20; return 0; }

/* As Fortran has it: all by reference, over what it is given, and a status at the end. */
const double constant_of_library = 0.5;
void scale_(const char *how, const int32_t *n, const int64_t *by, double *x, const double *other,
            int32_t flag, int32_t *status) {
    for (int i = 0; i < *n; i++) x[i] = *how == 'D' ? x[i] / *by : x[i] * *by + *other;
    *status = flag == *n ? 0 : 5;
}
"""


@cache
def library_path() -> Path:
    """Return the path of the library, which is built when this is asked for first."""
    folder = Path(tempfile.mkdtemp(prefix="symgrad-foreign-"))
    source = folder / "foreign.c"
    source.write_text(SOURCE)
    path = folder / "foreign.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", str(source), "-o", str(path)], check=True)
    return path


@cache
def library() -> ctypes.CDLL:
    """Return the library."""
    found = ctypes.CDLL(str(library_path()))
    found.noted_at.restype = ctypes.c_int64
    return found


def address_of(name: str) -> int:
    """Return where a symbol of the library is."""
    return ctypes.cast(getattr(library(), name), ctypes.c_void_p).value or 0


def noted() -> list[int]:
    """Return the numbers that `note` was called with since this was asked last."""
    all_of_them = (int(library().noted_at(at)) for at in range(1000))
    found = list(itertools.takewhile(lambda number: number >= 0, all_of_them))
    library().forget()
    return found
