"""Short epilogues of products are written out for each vector of a row of a tile."""

from collections.abc import Callable

import numpy as np
import pytest

import symgrad as sg

Epilogue = Callable[[sg.Tensor, sg.Tensor], sg.Tensor]
EPILOGUES: dict[str, Epilogue] = {
    "reciprocal": lambda y, r: y * (1.0 / sg.where(sg.equal(r, 0.0), 1.0, r)),
    "relu": lambda y, r: sg.maximum(y + r, 0.0),
    "tanh": lambda y, r: sg.tanh(y + r),
}


def emitted(m: int, n: int, k: int, epilogue: Epilogue) -> str:
    x, w, r = (sg.placeholder(shape) for shape in ((m, k), (k, n), (m, 1)))
    y = epilogue(x @ w, r)
    step = sg.compile([x, w, r], y, target="x86-64-v4", threads=1, cache=False)
    return step.ir("llvm")


def stores(text: str) -> int:
    """Count vectors that are stored outside of microkernels, which are assembly."""
    return text.count("store <16 x float>")


@pytest.mark.parametrize(
    ("n", "k", "name", "count"),
    [
        (64, 64, "reciprocal", 4),
        (192, 64, "reciprocal", 3),
        (32, 64, "relu", 2),
        (64, 512, "relu", 4),
        (64, 1024, "relu", 1),  # a loop takes no time beside so many terms
        (64, 64, "tanh", 1),  # more code than a loop is
    ],
)
def test_short_ones_have_no_loop_along_a_row(n: int, k: int, name: str, count: int) -> None:
    assert stores(emitted(96, n, k, EPILOGUES[name])) == count


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (67, 64, 5), (30, 48, 65), (64, 200, 33)])
def test_rows_are_as_numpy_has_them(name: str, m: int, n: int, k: int, target: str) -> None:
    x, w, r = (sg.placeholder(shape) for shape in ((m, k), (k, n), (m, 1)))
    random = np.random.default_rng(0)
    arrays = [random.normal(size=t.shape).astype(np.float32) for t in (x, w, r)]
    arrays[2][::5] = 0.0
    y = EPILOGUES[name](x @ w, r)
    wanted = sg.compile([x, w, r], y, target=target, threads=1)(*arrays)
    a, b, c = (array.astype(np.float64) for array in arrays)
    plain = {
        "reciprocal": a @ b / np.where(c == 0, 1, c),
        "relu": np.maximum(a @ b + c, 0),
        "tanh": np.tanh(a @ b + c),
    }
    np.testing.assert_allclose(wanted, plain[name], rtol=2e-4, atol=2e-4)
    for threads in (2, 4):
        again = sg.compile([x, w, r], y, target=target, threads=threads)(*arrays)
        np.testing.assert_array_equal(again, wanted)
