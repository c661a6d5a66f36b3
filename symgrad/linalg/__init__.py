"""Linear algebra, under the Array API's and SciPy's names: factorisations, solving, norms."""

import sys as _sys
from typing import Any as _Any

from symgrad.frontend.publication import publish as _publish
from symgrad.graph.late_binding import provide as _provide
from symgrad.graph.ops.contraction import matmul as matmul
from symgrad.graph.ops.contraction import outer as outer
from symgrad.graph.ops.contraction import tensordot as tensordot
from symgrad.graph.ops.contraction import vecdot as vecdot
from symgrad.graph.ops.summation import diagonal as diagonal
from symgrad.graph.ops.vector_products import kron as kron
from symgrad.graph.ops.views import matrix_transpose as matrix_transpose
from symgrad.linalg.factorisations import EighResult as EighResult
from symgrad.linalg.factorisations import EigResult as EigResult
from symgrad.linalg.factorisations import LUResult as LUResult
from symgrad.linalg.factorisations import QRResult as QRResult
from symgrad.linalg.factorisations import SVDResult as SVDResult
from symgrad.linalg.factorisations import cholesky as cholesky
from symgrad.linalg.factorisations import eig as eig
from symgrad.linalg.factorisations import eigh as eigh
from symgrad.linalg.factorisations import eigvals as eigvals
from symgrad.linalg.factorisations import eigvalsh as eigvalsh
from symgrad.linalg.factorisations import lu as lu
from symgrad.linalg.factorisations import qr as qr
from symgrad.linalg.factorisations import svd as svd
from symgrad.linalg.factorisations import svdvals as svdvals
from symgrad.linalg.norms import matrix_norm as matrix_norm
from symgrad.linalg.norms import matrix_rank as matrix_rank
from symgrad.linalg.norms import norm as norm
from symgrad.linalg.norms import vector_norm as vector_norm
from symgrad.linalg.products import cross as cross
from symgrad.linalg.products import expm as expm
from symgrad.linalg.products import matrix_power as matrix_power
from symgrad.linalg.products import sqrtm as sqrtm
from symgrad.linalg.products import trace as trace
from symgrad.linalg.solving import SlogdetResult as SlogdetResult
from symgrad.linalg.solving import cho_solve as cho_solve
from symgrad.linalg.solving import det as det
from symgrad.linalg.solving import inv as inv
from symgrad.linalg.solving import lstsq as lstsq
from symgrad.linalg.solving import pinv as pinv
from symgrad.linalg.solving import slogdet as slogdet
from symgrad.linalg.solving import solve as solve
from symgrad.linalg.solving import triangular_solve as triangular_solve
from symgrad.linalg.structured import solve_banded as solve_banded
from symgrad.linalg.structured import toeplitz as toeplitz

__all__ = _publish(globals())


@_provide
def linalg_extension() -> _Any:
    """Return this module, as which the Array API's namespace has it."""
    return _sys.modules[__name__]
