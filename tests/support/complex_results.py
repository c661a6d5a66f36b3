"""Complex arrays as programs behind the pass that makes pairs of them have them: as reals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.codegen.program.run import Results
from symgrad.graph.graph import Graph
from symgrad.graph.types import as_reals

Array = np.ndarray[Any, Any]


def parts_of(array: Array) -> Array:
    """Return a complex array as the reals in its memory; another as it is."""
    return as_reals(np.array(array, order="C")) if np.iscomplexobj(array) else array


def in_parts(results: Results) -> Results:
    """Return results of any floor as those behind the pass that makes complex numbers pairs."""
    state = {s.whole: parts_of(value) for s, value in results.state.items()}
    return Results([parts_of(a) for a in results.outputs], state)


def as_stated(outputs: Sequence[Array], graph: Graph) -> list[Array]:
    """Return what a program gives as arrays of the dtypes that the outputs of `graph` have."""
    pairs = zip(outputs, graph.outputs, strict=True)
    return [
        a.reshape(-1).view(t.dtype.numpy).reshape(a.shape[:-1]) if t.dtype.is_complex else a
        for a, t in pairs
    ]
