"""einsum of any number of operands, and diagonals: compositions around the op of two operands."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from symgrad.cost_model import LIKELY_SIZE
from symgrad.errors import DTypeError, ShapeError, called, user_source
from symgrad.graph.given_arrays import require_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, normalize_axis, promote_operands
from symgrad.graph.ops.comparison import equal, where
from symgrad.graph.ops.contraction import LABELS, contract
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.structure import permute_dims, reduce_sum, reshape
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim
from symgrad.records import dataclass

_OP = "einsum"


@dataclass(frozen=True, slots=True)
class _Term:
    """An operand and one label for each of its axes."""

    tensor: Tensor
    labels: str


@public(functions=[np.einsum])
def einsum(subscripts: str, /, *operands: Any) -> Tensor:
    """Sum products of `operands` over the labels that the result does not have.

    `subscripts` is as in NumPy: `"ij,jk->ik"`, with `...`, repeated labels and an implicit result.
    An axis of size 1 is not stretched to another size, except under `...`. The result has the
    common dtype of the operands; the gradient by one is the einsum of the cotangent and the others.
    Raises `ShapeError` if sizes of a label differ, or labels are not as many as axes.

    >>> sg.run(sg.einsum("ij,j->i", [[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]))
    array([21., 43.], dtype=float32)
    """
    if not isinstance(subscripts, str):
        raise DTypeError(_OP, f"subscripts are a string, not {subscripts!r}", source=user_source())
    tensors = promote_operands(_OP, *operands) if operands else []
    terms, out, stretched = _parse(subscripts, tensors)
    terms = [_diagonal_of_repeated(term) for term in _without_stretched_axes(terms, stretched)]
    terms = [_summed(terms, place, out) for place in range(len(terms))]
    return _contracted(terms, out)


def _parse(subscripts: str, tensors: list[Tensor]) -> tuple[list[_Term], str, str]:
    """Return the terms, the labels of the result, and those that stand for `...`."""
    inputs, arrow, result = subscripts.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if len(parts) != len(tensors) or not tensors:
        _refuse(f"{len(parts)} terms in {subscripts!r} for {len(tensors)} operands")
    used = set(subscripts)
    free = [label for label in LABELS if label not in used]
    depth = 0
    for part, tensor in zip(parts, tensors, strict=True):
        depth = max(depth, _stretched_axes(part, tensor))
    stretched = "".join(free[:depth])
    labels = [_expand(p, t, stretched) for p, t in zip(parts, tensors, strict=True)]
    if arrow:
        out = result.replace("...", stretched)
        stretched_away = set(stretched) - set(out)
    else:
        counts = Counter("".join(parts).replace(".", ""))
        out = stretched + "".join(sorted(c for c, times in counts.items() if times == 1))
        stretched_away = set()
    known = set().union(*labels)
    if not set(out) <= known or len(set(out)) != len(out) or stretched_away:
        _refuse(f"the result of {subscripts!r} is not made of distinct labels of the operands")
    return [_Term(t, s) for t, s in zip(tensors, labels, strict=True)], out, stretched


def _refuse(problem: str) -> None:
    raise ShapeError(_OP, problem, source=user_source())


def _stretched_axes(part: str, tensor: Tensor) -> int:
    """Return how many axes the `...` of a term stands for."""
    named = part.replace("...", "", 1)
    if any(label not in LABELS for label in named):
        _refuse(f"{part!r} is made of more than letters and one ...")
    depth = tensor.ndim - len(named)
    if depth < 0 or (depth > 0 and "..." not in part):
        _refuse(f"{len(named)} labels {part!r} for {tensor.type}")
    return depth


def _expand(part: str, tensor: Tensor, stretched: str) -> str:
    depth = _stretched_axes(part, tensor)
    return part.replace("...", stretched[len(stretched) - depth :])


def _without_stretched_axes(terms: list[_Term], stretched: str) -> list[_Term]:
    """Drop the axes of size 1 under `...` that another operand has in full."""
    full = {
        label
        for term in terms
        for label, size in zip(term.labels, term.tensor.shape, strict=True)
        if size != 1
    }
    return [_squeezed(term, full & set(stretched)) for term in terms]


def _squeezed(term: _Term, full: set[str]) -> _Term:
    sizes = zip(term.labels, term.tensor.shape, strict=True)
    kept = [(label, size) for label, size in sizes if size != 1 or label not in full]
    shape = tuple(size for _, size in kept)
    return _Term(reshape(term.tensor, shape), "".join(label for label, _ in kept))


def _diagonal_of_repeated(term: _Term) -> _Term:
    while len(set(term.labels)) != len(term.labels):
        label = next(c for c in term.labels if term.labels.count(c) > 1)
        first = term.labels.index(label)
        second = term.labels.index(label, first + 1)
        shape = term.tensor.shape
        if shape[first] != shape[second] and not _may_be_equal(shape[first], shape[second]):
            _refuse(f"sizes of {label!r} differ in {term.labels!r} of {term.tensor.type}")
        rest = "".join(c for axis, c in enumerate(term.labels) if axis not in (first, second))
        term = _Term(_square_diagonal(term.tensor, first, second), rest + label)
    return term


def _may_be_equal(m: Dim, n: Dim) -> bool:
    return not (isinstance(m, int) and isinstance(n, int))


def _summed(terms: list[_Term], place: int, out: str) -> _Term:
    """Sum a term over the labels that neither the result nor another term has."""
    term = terms[place]
    elsewhere = set(out).union(*(t.labels for p, t in enumerate(terms) if p != place))
    axes = tuple(axis for axis, label in enumerate(term.labels) if label not in elsewhere)
    kept = "".join(label for label in term.labels if label in elsewhere)
    return _Term(reduce_sum(term.tensor, axes), kept)


def _contracted(terms: list[_Term], out: str) -> Tensor:
    for group in _order(terms, out):
        chosen = [terms[place] for place in group]
        terms = [term for place, term in enumerate(terms) if place not in group]
        while len(chosen) > 1:
            first, second, *chosen = chosen
            needed = set(out).union(*(t.labels for t in (*terms, *chosen)))
            chosen.insert(0, _product(first, second, needed, out))
        terms.extend(chosen)
    (term,) = terms
    return permute_dims(term.tensor, [term.labels.index(label) for label in out])


def _order(terms: list[_Term], out: str) -> list[tuple[int, ...]]:
    if len(terms) < 3:
        return [tuple(range(len(terms)))]
    spec = ",".join(term.labels for term in terms) + "->" + out
    known: dict[str, int] = {}
    for term in terms:
        for label, size in zip(term.labels, term.tensor.shape, strict=True):
            known[label] = size if isinstance(size, int) else known.get(label, LIKELY_SIZE)
    # NumPy takes the order from shapes alone: these arrays hold one element each.
    models = [np.broadcast_to(0.0, [known[label] for label in t.labels]) for t in terms]
    path, _ = np.einsum_path(spec, *models, optimize=("greedy", 2**62))
    return [tuple(group) for group in path[1:]]


def _product(first: _Term, second: _Term, needed: set[str], out: str) -> _Term:
    both = dict.fromkeys(first.labels + second.labels)
    kept = [label for label in both if label in needed]
    if set(kept) == set(out):
        kept = list(out)
    labels = "".join(kept)
    product = contract(first.tensor, second.tensor, first.labels, second.labels, labels)
    return _Term(product, labels)


@public()
def diagonal(x: Any, /, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Take the elements whose index along `axis2` is that along `axis1` plus `offset`.

    They lie along a new last axis in the place of both. The axes are the last two if none are
    named, as in the Array API and in `trace`; `np.diagonal` of a tensor takes the first two.

    >>> sg.run(sg.diagonal([[1, 2, 3], [4, 5, 6]], offset=1))
    array([2, 6], dtype=int32)
    """
    x, offset = as_tensor(x), require_int("diagonal", "offset", offset)
    first, second = (normalize_axis("diagonal", axis, x.ndim) for axis in (axis1, axis2))
    if first == second:
        raise ShapeError("diagonal", f"axis {first} is given twice", source=user_source())
    rows, columns = x.shape[first], x.shape[second]
    if rows == columns and offset == 0:
        return _square_diagonal(x, first, second)
    if not (isinstance(rows, int) and isinstance(columns, int)):
        raise ShapeError(
            "diagonal", f"offset {offset} of unknown sizes of x: {x.type}", source=user_source()
        )
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    start = offset if offset >= 0 else -offset * columns
    return _strided_diagonal(x, first, second, start if count else 0, count)


def _square_diagonal(x: Tensor, first: int, second: int) -> Tensor:
    rows, columns = x.shape[first], x.shape[second]
    if isinstance(rows, int) and isinstance(columns, int):
        return _strided_diagonal(x, first, second, 0, rows)
    # The stride of an unknown size is not known, so every other element is summed as a zero.
    moved = moveaxis(x, (first, second), (-2, -1))
    on_diagonal = equal(iota(moved.shape, moved.ndim - 2), iota(moved.shape, moved.ndim - 1))
    return reduce_sum(where(on_diagonal, moved, 0), (moved.ndim - 1,))


def _strided_diagonal(x: Tensor, first: int, second: int, start: int, count: int) -> Tensor:
    moved = moveaxis(x, (first, second), (-2, -1))
    lead = moved.shape[:-2]
    rows, columns = x.shape[first], x.shape[second]
    flat = reshape(moved, (*lead, rows * columns))
    assert isinstance(columns, int), "the stride along a diagonal is known"
    return slice_axes(
        flat, (*[0] * len(lead), start), (*lead, count), (*[1] * len(lead), columns + 1)
    )


@public()
def trace(x: Any, /, *, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Sum a diagonal of the last two axes; small integers are summed in 64 bits.

    >>> sg.run(sg.trace([[1, 2], [3, 4]]))
    array(5)
    """
    with called("trace"):
        return sum_over(diagonal(x, offset, axis1, axis2), -1)
