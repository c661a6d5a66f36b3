"""Hash-consing of index sets: each set of indices is stored once, and known by its number.

What an element depends on is a set of indices. Most elements of a tensor have a set that another
one has too, so tensors hold numbers of sets, and an op unites each pair of numbers once. Number 0
is the empty set. Whatever is done here takes time about proportional to the indices in the sets
that are new, in NumPy's loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symgrad.errors import CompileError, user_source

# The numbers of the sets that the elements of a tensor depend on, in the shape of the tensor.
Numbers = NDArray[np.int64]
Indices = NDArray[np.int64]

# Indices that are held or united at once: more do not fit in the memory of most machines.
MOST_INDICES = 1 << 28

_HALF = 31  # bits of the number of a set, in a key of two


class IndexSets:
    """All sets of indices below `size` that have been made so far, for a function `subject`."""

    def __init__(self, size: int, subject: str) -> None:
        self.size = size
        self.subject = subject
        # The hash of a set is the sum of the weights of its indices: of any order and any grouping.
        self._weights = np.random.default_rng(0).integers(1 << 64, size=size, dtype=np.uint64)
        self._indices = _Growing(np.arange(size, dtype=np.int64))
        self._ends = _Growing(np.concatenate([[0], np.arange(size + 1, dtype=np.int64)]))
        order = np.argsort(self._weights)
        self._hashes, self._numbers = self._weights[order], order.astype(np.int64) + 1
        self._pairs, self._unions = np.zeros(0, np.int64), np.zeros(0, np.int64)

    @property
    def count(self) -> int:
        """How many sets there are, the empty one among them."""
        return len(self._ends.values) - 1

    def singletons(self, shape: Sequence[int]) -> Numbers:
        """Return for each element, in row-major order, the set of its own index."""
        return np.arange(1, self.size + 1, dtype=np.int64).reshape(tuple(shape))

    def sizes_of(self, numbers: Numbers) -> NDArray[np.int64]:
        """Return how many indices sets have."""
        ends = self._ends.values
        sizes: NDArray[np.int64] = ends[numbers + 1] - ends[numbers]
        return sizes

    def indices_of(self, numbers: Numbers) -> Indices:
        """Return the indices of sets, ascending in each, one set after another."""
        found: Indices = self._indices.values[
            ranges(self._ends.values[numbers], self.sizes_of(numbers))
        ]
        return found

    # ------------------------------------------------------------------------------- unions

    def union(self, a: Numbers, b: Numbers) -> Numbers:
        """Return the unions of the sets of two tensors of one shape, element by element."""
        if a is b:
            return a
        repeated = _repeated_axes(a, b)
        if repeated:
            part = tuple(slice(0, 1) if x in repeated else slice(None) for x in range(a.ndim))
            return np.broadcast_to(self.union(a[part].copy(), b[part].copy()), a.shape)
        # Flat, so that what is written below is not a copy, as it would be of a permuted array.
        low, high = np.minimum(a, b).ravel(), np.maximum(a, b).ravel()
        places = np.flatnonzero((low != high) & (low != 0))
        if places.size:
            pairs = low[places] << _HALF | high[places]
            unique, which = np.unique(pairs, return_inverse=True)
            high[places] = self._unions_of_pairs(unique)[which]
        return high.reshape(a.shape)

    def _unions_of_pairs(self, pairs: Indices) -> Numbers:
        """Return the unions of pairs of sets, which ascend; of those met before, what was found."""
        places, is_known = _find(self._pairs, pairs)
        found = np.empty(pairs.size, np.int64)
        found[is_known] = self._unions[places[is_known]]
        new, into = pairs[~is_known], places[~is_known]
        if new.size:
            members = np.stack([new >> _HALF, new & (1 << _HALF) - 1], axis=1).reshape(-1)
            made = self._made(members, np.full(new.size, 2))
            found[~is_known] = made
            self._pairs = np.insert(self._pairs, into, new)
            self._unions = np.insert(self._unions, into, made)
        return found

    def union_of_all(self, operands: Sequence[Numbers | None]) -> Numbers | None:
        """Return the unions over tensors of one shape, None standing for empty sets."""
        present = [numbers for numbers in operands if numbers is not None]
        if not present:
            return None
        total = present[0]
        for numbers in present[1:]:
            total = self.union(total, numbers)
        return total

    def union_over(self, numbers: Numbers, axes: Sequence[int]) -> Numbers:
        """Return the unions over the elements along `axes`, which are left out."""
        kept = [axis for axis in range(numbers.ndim) if axis not in axes]
        for axis in axes:
            if numbers.shape[axis] > 1 and numbers.strides[axis] == 0:
                numbers = numbers[(slice(None),) * axis + (slice(0, 1),)]
        shape = tuple(numbers.shape[axis] for axis in kept)
        count = int(np.prod(shape, dtype=np.int64))
        rows = numbers.transpose((*kept, *axes)).reshape(count, -1 if numbers.size else 0)
        if rows.shape[1] == 0:
            return np.zeros(shape, np.int64)
        if rows.shape[1] <= 2:
            return self.union(rows[:, 0], rows[:, -1]).reshape(shape)
        owners = np.repeat(np.arange(count), rows.shape[1])
        return self.united(owners, rows.reshape(-1), count).reshape(shape)

    def union_along(self, numbers: Numbers, axis: int) -> Numbers:
        """Return the unions over the elements up to each along `axis` (a prefix scan)."""
        found = np.moveaxis(numbers, axis, -1).copy()
        step = 1
        while step < found.shape[-1]:
            found[..., step:] = self.union(found[..., step:].copy(), found[..., :-step].copy())
            step *= 2
        return np.moveaxis(found, -1, axis)

    def united(self, owners: Indices, members: Numbers, count: int) -> Numbers:
        """Return for each owner below `count` the union of those `members` that are its own."""
        is_there = members != 0
        keys = _unique(owners[is_there] * self.count + members[is_there])
        owners, members = np.divmod(keys, self.count)
        sizes = np.bincount(owners, minlength=count)
        first = np.cumsum(sizes) - sizes
        result = np.zeros(count, np.int64)
        result[sizes == 1] = members[first[sizes == 1]]
        several = np.flatnonzero(sizes > 1)
        if several.size:
            kept = sizes[owners] > 1
            result[several] = self._unions_of_groups(members[kept], sizes[several])
        return result

    def _unions_of_groups(self, members: Numbers, sizes: Indices) -> Numbers:
        """Return the unions of groups of sets that follow one another; equal groups once."""
        first = np.cumsum(sizes) - sizes
        # An odd multiplier spreads numbers that follow one another.
        spread = (members.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        spread ^= spread >> np.uint64(29)
        spread *= np.uint64(0xBF58476D1CE4E5B9)
        spread ^= spread >> np.uint64(32)
        _, one_of, which = np.unique(
            np.add.reduceat(spread, first), return_index=True, return_inverse=True
        )
        likes = one_of[which]
        is_equal = np.array_equal(sizes[likes], sizes) and np.array_equal(
            members[ranges(first[likes], sizes)], members
        )
        if not is_equal:  # two groups have one hash: none is taken for another
            one_of = which = np.arange(first.size)
        chosen = members[ranges(first[one_of], sizes[one_of])]
        return self._made(chosen, sizes[one_of])[which]

    def _made(self, members: Numbers, sizes: Indices) -> Numbers:
        """Return the unions of groups of sets that follow one another, none of them empty."""
        counts = self.sizes_of(members)
        if counts.sum() + len(self._indices.values) > MOST_INDICES:
            raise CompileError(
                self.subject,
                f"a pattern would have more than {MOST_INDICES} non-zeros on the way",
                hint="leave sparsity out for a dense result",
                source=user_source(),
            )
        owners = np.repeat(np.repeat(np.arange(sizes.size), sizes), counts)
        keys = _unique(owners * self.size + self.indices_of(members))
        owners, indices = np.divmod(keys, self.size)
        return self._interned(indices, np.bincount(owners, minlength=sizes.size))

    def _interned(self, indices: Indices, sizes: Indices) -> Numbers:
        """Return the numbers of sets that are given one after another, none of them empty."""
        first = np.cumsum(sizes) - sizes
        hashes = np.add.reduceat(self._weights[indices], first)
        unique, one_of, which = np.unique(hashes, return_index=True, return_inverse=True)
        places, is_known = _find(self._hashes, unique)
        new = one_of[~is_known]
        numbers = np.empty(unique.size, np.int64)
        numbers[is_known] = self._numbers[places[is_known]]
        numbers[~is_known] = self._appended(indices, first[new], sizes[new])
        self._hashes = np.insert(self._hashes, places[~is_known], unique[~is_known])
        self._numbers = np.insert(self._numbers, places[~is_known], numbers[~is_known])
        found = numbers[which]
        is_right = self._are(found, indices, sizes)
        if not is_right.all():  # another set has the hash: these have numbers of their own
            found[~is_right] = self._appended(indices, first[~is_right], sizes[~is_right])
        return found

    def _are(self, numbers: Numbers, indices: Indices, sizes: Indices) -> NDArray[np.bool_]:
        """Return which of `numbers` are the sets that are given one after another."""
        found: NDArray[np.bool_] = self.sizes_of(numbers) == sizes
        compared = sizes[found]
        if compared.size:
            is_equal = self.indices_of(numbers[found]) == indices[np.repeat(found, sizes)]
            found[found] = np.logical_and.reduceat(is_equal, np.cumsum(compared) - compared)
        return found

    def _appended(self, indices: Indices, first: Indices, sizes: Indices) -> Numbers:
        begin = self.count
        self._ends.extend(self._ends.values[-1] + np.cumsum(sizes))
        self._indices.extend(indices[ranges(first, sizes)])
        return np.arange(begin, self.count, dtype=np.int64)


class _Growing:
    """An array that is extended at its end, in memory that at least doubles when it is full."""

    def __init__(self, values: NDArray[np.int64]) -> None:
        self._memory, self._used = values, len(values)

    @property
    def values(self) -> NDArray[np.int64]:
        return self._memory[: self._used]

    def extend(self, values: NDArray[np.int64]) -> None:
        end = self._used + len(values)
        if end > len(self._memory):
            larger = np.empty(max(end, 2 * len(self._memory)), np.int64)
            larger[: self._used] = self.values
            self._memory = larger
        self._memory[self._used : end] = values
        self._used = end


def ranges(first: Indices, sizes: Indices) -> Indices:
    """Return `first[i], first[i] + 1, ...`, of which there are `sizes[i]`, one after another."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(first - before, sizes) + np.arange(int(sizes.sum()), dtype=np.int64)


def _find(ascending: NDArray[Any], keys: NDArray[Any]) -> tuple[Indices, NDArray[np.bool_]]:
    """Return where each key is, or would be, in an array, and which of them are there."""
    places = np.searchsorted(ascending, keys)
    is_there = np.zeros(keys.size, np.bool_)
    is_inside = places < ascending.size
    is_there[is_inside] = ascending[places[is_inside]] == keys[is_inside]
    return places, is_there


def _unique(keys: Indices) -> Indices:
    """Return `keys` ascending and without repeats, by a sort: hashing so many is far slower."""
    ordered = np.sort(keys)
    is_first = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def _repeated_axes(a: NDArray[Any], b: NDArray[Any]) -> set[int]:
    """Return the axes along which the elements of both are the same in memory."""
    return {
        axis
        for axis in range(a.ndim)
        if a.shape[axis] > 1 and a.strides[axis] == 0 and b.strides[axis] == 0
    }
