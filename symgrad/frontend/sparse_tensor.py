"""Compressed sparse rows (CSR): a matrix whose pattern is known and whose values are a tensor.

It is what derivatives with a pattern are given as. The pattern is part of the nest that it is, so
that among the outputs of a program the values are computed and SciPy's matrix comes back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from symgrad.errors import CompileError, user_source
from symgrad.frontend.nests import Nest, flatten_whole, register, unflatten
from symgrad.graph.node import Tensor
from symgrad.records import dataclass

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class SparsityPattern:
    """Where a matrix of `shape` may have non-zeros: the columns of each row, ascending.

    Those of row i are `indices[indptr[i] : indptr[i + 1]]`. The arrays are not to be written to.
    """

    shape: tuple[int, int]
    indptr: NDArray[Any]
    indices: NDArray[Any]

    @staticmethod
    def of(
        shape: tuple[int, int], indptr: NDArray[np.int64], indices: NDArray[np.int64]
    ) -> SparsityPattern:
        """Return a pattern with arrays of the width that SciPy would choose."""
        is_narrow = max(*shape, len(indices)) <= _INT32_MAX
        dtype = np.int32 if is_narrow else np.int64
        arrays = indptr.astype(dtype), indices.astype(dtype)
        for array in arrays:
            array.setflags(write=False)
        return SparsityPattern(shape, *arrays)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"pattern({rows} x {columns}, {len(self.indices)} non-zeros)"


@dataclass(frozen=True, slots=True, eq=False)
class SparseTensor:
    """A matrix in compressed sparse rows (CSR): a static pattern, and a tensor of its values.

    Row i has its values at `values[indptr[i] : indptr[i + 1]]`, in the columns `indices[...]`,
    which ascend. An element that the pattern has may be zero; one that it lacks is zero. The arrays
    of the pattern are read-only. It is a nest with the one leaf `values`: among the outputs of
    `compile` it comes back as a `scipy.sparse.csr_array`, and as that of `run`. To compute with it
    in a graph, use `values`.

    >>> x = sg.placeholder((3,), name="x")
    >>> found = sg.jacobian(x[1:] * x[:-1], x, sparsity="auto")
    >>> found.shape, found.indptr, found.indices
    ((2, 3), array([0, 2, 4], dtype=int32), array([0, 1, 1, 2], dtype=int32))
    >>> sg.run(found.values, {x: np.float32([2, 3, 5])})
    array([3., 2., 5., 3.], dtype=float32)
    """

    pattern: SparsityPattern
    values: Any

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return self.pattern.shape

    @property
    def indptr(self) -> NDArray[Any]:
        """Where the rows begin in `indices` and `values`, and at last how many these are."""
        return self.pattern.indptr

    @property
    def indices(self) -> NDArray[Any]:
        """The column of each value."""
        return self.pattern.indices

    @property
    def nnz(self) -> int:
        """How many values there are."""
        return len(self.pattern.indices)

    def __repr__(self) -> str:
        rows, columns = self.shape
        kind = self.values.dtype if isinstance(self.values, Tensor) else self.values
        return f"<SparseTensor {rows} x {columns}, {self.nnz} values: {kind}>"


def patterns_of(nest: Nest) -> dict[int, SparsityPattern]:
    """Return the patterns of the sparse matrices in a nest, by the leaves that are their values."""
    numbered = flatten_whole(unflatten(nest, range(nest.num_leaves)), SparseTensor)
    return {m.values: m.pattern for m in numbered if isinstance(m, SparseTensor)}


def _take_apart(matrix: SparseTensor) -> tuple[Any, ...]:
    return (matrix.values,), matrix.pattern, ("values",)


def _put_together(pattern: SparsityPattern, children: Any) -> Any:
    (values,) = children
    if not isinstance(values, np.ndarray):
        return SparseTensor(pattern, values)
    # Imported where it is needed: no other part of a program wants SciPy.
    try:
        from scipy.sparse import csr_array
    except ImportError as error:
        raise CompileError(
            "compile",
            "an output is a sparse matrix, and SciPy, which would hold it, is not installed",
            hint="pip install symgrad[sparse], or make its .values the output",
            source=user_source(),
        ) from error
    parts = values, pattern.indices, pattern.indptr
    return csr_array(parts, shape=pattern.shape)


register(SparseTensor, _take_apart, _put_together)
