"""Memory of several MiB, which the system may give in huge pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from symgrad.graph.aligned import ALIGNMENT, aligned_copy, aligned_empty, aligned_zeros
from symgrad.graph.huge_pages import HUGE_BYTES, fresh_zeros

_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def _huge_bytes_at(address: int) -> int:
    """Return how much of the mapping that an address is in lies in huge pages."""
    is_inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if "-" in first and not first.endswith(":"):
            start, stop = (int(word, 16) for word in first.split("-"))
            is_inside = start <= address < stop
        elif is_inside and first == "AnonHugePages:":
            return int(line.split()[1]) << 10
    return 0


def test_what_fills_no_huge_page_is_left_to_the_allocator():
    assert fresh_zeros(HUGE_BYTES - 1) is None
    assert aligned_empty((7,), np.dtype("float32")).shape == (7,)


@pytest.mark.parametrize("count", [HUGE_BYTES, HUGE_BYTES + 1, 3 * HUGE_BYTES - 4096])
def test_long_memory_is_aligned_and_zero_to_its_end(count):
    made = [aligned_zeros((count,), np.dtype(np.uint8)) for _ in range(8)]
    assert all(array.ctypes.data % ALIGNMENT == 0 for array in made)
    assert not any(array.any() for array in made)
    for number, array in enumerate(made):
        array[...] = number
    assert all((array == number).all() for number, array in enumerate(made))


def test_a_long_copy_has_the_shape_and_the_values_of_the_array():
    array = np.arange(1 << 20, dtype="float32").reshape(1 << 10, 1 << 10)
    copy = aligned_copy(array.T)
    assert copy.flags.c_contiguous
    assert copy.flags.writeable
    np.testing.assert_array_equal(copy, array.T)


def test_arrays_that_are_walked_through_together_begin_at_several_places_of_pages():
    made = [aligned_empty((HUGE_BYTES,), np.dtype(np.uint8)) for _ in range(4)]
    assert len({array.ctypes.data % 4096 for array in made}) == 4


def test_long_memory_is_in_huge_pages_where_the_system_has_them():
    if not _SETTING.exists() or "[never]" in _SETTING.read_text():
        pytest.skip("the system gives no huge pages")
    made = [aligned_zeros((4 * HUGE_BYTES,), np.dtype(np.uint8)) for _ in range(4)]
    for array in made:
        array[...] = 1
    # It need not have one left for each place, but has for some.
    assert any(_huge_bytes_at(array.ctypes.data + HUGE_BYTES) for array in made)
