"""Quasi-affine index arithmetic: linear in loop variables, with divisions by constants."""

from __future__ import annotations

from collections.abc import Iterator

from symgrad.codegen.loops.language import (
    Index,
    IndexAtom,
    Modulus,
    Quotient,
    StridedOperand,
    ZeroBorder,
)
from symgrad.codegen.loops.strided import walk


def index_of(*terms: tuple[IndexAtom, int], const: int = 0) -> Index:
    """Return the sum of `coefficient * atom` and `const` in normal form.

    `n*(e // n) + e % n` becomes `e`, so that splitting and merging axes leaves no trace.
    """
    if len(terms) < 2:  # most sums: nothing to join, nothing to put in order
        return Index(const, terms if terms and terms[0][1] else ())
    total: dict[IndexAtom, int] = {}
    for atom, coefficient in terms:
        total[atom] = total.get(atom, 0) + coefficient
    # What is joined may be the quotient that another remainder waits for.
    pending = [atom for atom in total if isinstance(atom, Modulus) and total[atom]]
    while (joined := _joinable(total, pending)) is not None:
        pending.remove(joined)
        const = _join_quotient(total, joined, const)
        pending += [atom for atom, _ in joined.index.terms if isinstance(atom, Modulus)]
    kept = ((a, c) for a, c in total.items() if c)
    return Index(const, tuple(sorted(kept, key=lambda term: _atom_key(term[0]))))


def _atom_key(atom: IndexAtom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else (1, repr(atom))


def _quotient_atom(index: Index, by: int) -> Quotient:
    """Return `index // by` in normal form: `(e // m) // n` is `e // (m*n)`."""
    while index.const == 0 and len(index.terms) == 1:
        ((atom, coefficient),) = index.terms
        if coefficient != 1 or not isinstance(atom, Quotient):
            break
        index, by = atom.index, atom.by * by
    return Quotient(index, by)


def _joinable(total: dict[IndexAtom, int], remainders: list[Modulus]) -> Modulus | None:
    """Return one of `remainders` that stands in `total` beside the quotient it belongs to."""
    for modulus in remainders:
        scale = total.get(modulus, 0)
        if scale and total.get(_quotient_atom(modulus.index, modulus.by)) == scale * modulus.by:
            return modulus
    return None


def _join_quotient(total: dict[IndexAtom, int], modulus: Modulus, const: int) -> int:
    """Put what they were divided out of in the place of a remainder and its quotient."""
    scale = total.pop(modulus)
    del total[_quotient_atom(modulus.index, modulus.by)]
    for atom, coefficient in modulus.index.terms:
        total[atom] = total.get(atom, 0) + scale * coefficient
    return const + scale * modulus.index.const


def scaled_sum(parts: list[tuple[Index, int]], const: int = 0) -> Index:
    """Return `const + sum(factor * part)`."""
    terms = [(atom, c * factor) for part, factor in parts for atom, c in part.terms]
    return index_of(*terms, const=const + sum(part.const * factor for part, factor in parts))


def quotient(index: Index, by: int, extents: dict[str, int]) -> Index:
    """Return `index // by`; what divides leaves, where the rest is known to stay below `by`."""
    whole, rest = _split(index, by)
    low, high = bounds(rest, extents)
    if low >= 0 and high < by:
        return whole
    return scaled_sum([(whole, 1), (Index(0, ((_quotient_atom(rest, by), 1),)), 1)])


def modulus(index: Index, by: int, extents: dict[str, int]) -> Index:
    """Return `index % by`; what divides drops out, where the rest is known to stay below `by`."""
    _, rest = _split(index, by)
    low, high = bounds(rest, extents)
    return rest if low >= 0 and high < by else Index(0, ((Modulus(rest, by), 1),))


def _split(index: Index, by: int) -> tuple[Index, Index]:
    """Return (whole, rest) with `index == whole * by + rest`."""
    whole = tuple((a, c // by) for a, c in index.terms if c % by == 0)
    rest = tuple((a, c) for a, c in index.terms if c % by)
    return Index(index.const // by, whole), Index(index.const % by, rest)


def bounds(index: Index, extents: dict[str, int]) -> tuple[int, int]:
    """Return the least and the greatest value; a variable v takes 0 to extents[v] - 1."""
    low = high = index.const
    for atom, coefficient in index.terms:
        first, last = _atom_bounds(atom, extents)
        low += coefficient * (first if coefficient > 0 else last)
        high += coefficient * (last if coefficient > 0 else first)
    return low, high


def _atom_bounds(atom: IndexAtom, extents: dict[str, int]) -> tuple[int, int]:
    if isinstance(atom, str):
        return 0, max(extents[atom] - 1, 0)
    if isinstance(atom, Modulus):
        return 0, atom.by - 1
    low, high = bounds(atom.index, extents)
    return low // atom.by, high // atom.by


def operand_bounds(
    operand: StridedOperand,
    shape: tuple[int, int],
    extents: dict[str, int],
    borders: tuple[ZeroBorder, ...] = (),
) -> tuple[int, int]:
    """Return the first and the last element of a buffer that a matrix of `shape` reaches.

    What is in absent ones of `borders` is in no buffer.
    """
    low, high = bounds(operand.index, extents)
    strides = [
        {place: (size, by) for place, size, by in walk(*axis)}
        for axis in (
            (operand.rows, operand.row_digits, shape[0]),
            (operand.columns, operand.column_digits, shape[1]),
        )
    ]
    for border in borders:
        if border.absent:
            _, row = strides[0].pop(border.row_place)
            _, term = strides[1].pop(border.term_place)
            least, most = border.reach(row, term)
            low, high = low + least, high + most
    for size, by in (*strides[0].values(), *strides[1].values()):
        reach = by * (size - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high


def step_within(index: Index, variable: str, run: int) -> int | None:
    """Return by how much an index grows with `variable`, from a multiple of `run` to the next one.

    None if it does not grow evenly, as where a division begins anew within a run.
    """
    steps = [(_atom_step(atom, variable, run), factor) for atom, factor in index.terms]
    known = [factor * step for step, factor in steps if step is not None]
    return sum(known) if len(known) == len(steps) else None


def even_run(index: Index, variable: str, run: int) -> int:
    """Return the longest part of a run of `variable` in which an index grows evenly with it."""
    parts = {run, *(by for by in _divisors(index) if run % by == 0)}
    even = (part for part in parts if step_within(index, variable, part) is not None)
    return max(even, default=1)


def _divisors(index: Index) -> Iterator[int]:
    for atom, _ in index.terms:
        if not isinstance(atom, str):
            yield atom.by
            yield from _divisors(atom.index)


def _atom_step(atom: IndexAtom, variable: str, run: int) -> int | None:
    if isinstance(atom, str):
        return int(atom == variable)
    if step_within(atom.index, variable, run) == 0:
        return 0
    is_plain = atom.index == Index(0, ((variable, 1),))
    if is_plain and atom.by % run == 0:
        return int(isinstance(atom, Modulus))
    return None
