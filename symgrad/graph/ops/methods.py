"""Methods of factorisations: by an algorithm of our own, or by LAPACK where that is asked for."""

from __future__ import annotations

from symgrad.errors import GraphError

JACOBI, LAPACK = "jacobi", "lapack"


def check_method(op: str, method: str) -> None:
    """Raise `GraphError` for a method that there is not."""
    if method not in (JACOBI, LAPACK):
        raise GraphError(op, f"method {method!r} is neither {JACOBI!r} nor {LAPACK!r}")
