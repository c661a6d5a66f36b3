"""First and second derivatives of functions of one number, from 1e-12 to 1e12.

What is right near 1 may be a difference of two nearly equal numbers far out, or a product of 0 and
infinity. float64 has twice the digits and eight times the range, so what float32 loses is seen.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import symgrad as sg
from tests.support.together import together

_NAMES = {
    "nn": """celu elu gelu hard_shrink hard_sigmoid hard_silu hard_tanh leaky_relu log_sigmoid mish
        relu relu6 selu silu soft_shrink softplus softsign sparse_plus sparse_sigmoid squareplus
        tanh_shrink""",
    "special": "entr erfcx expit gammaln i0e i1e log_ndtr logit ndtr ndtri",
}
_FUNCTIONS = [(module, name) for module, names in _NAMES.items() for name in names.split()]
_SIZES = np.outer(10.0 ** np.arange(-12, 13), [1, 2.7, 6.1]).ravel()
_POINTS = np.concatenate([-_SIZES, [0], _SIZES]).astype(np.float32)


def _derivatives(function: tuple[str, str], dtype: str) -> list[sg.Tensor]:
    """Return the placeholder, and the function of it with its first and second derivative."""
    module, name = function
    x = sg.placeholder(_POINTS.shape, dtype)
    found = [x, getattr(getattr(sg, module), name)(x)]
    for _ in range(2):
        (slope,) = sg.gradients(found[-1], [x], unconnected_gradients="zero")
        found.append(slope)
    return found


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@together("function", _FUNCTIONS, ids=lambda function: ".".join(function), at_once=8)
def test_derivatives_in_float32_are_those_in_float64(function):
    of_dtypes = {dtype: _derivatives(function, dtype) for dtype in ("float32", "float64")}
    xs = [found[0] for found in of_dtypes.values()]
    step = sg.compile(xs, [result for found in of_dtypes.values() for result in found[1:]])
    results = step(*[_POINTS.astype(dtype) for dtype in of_dtypes])
    for order in range(3):
        narrow, wide = results[order], results[order + 3]
        seen = np.isfinite(wide) & (np.abs(wide) < 1e30)
        assert seen.any()
        np.testing.assert_allclose(
            narrow[seen], wide[seen], rtol=1e-4, atol=2e-6, err_msg=f"derivative {order}"
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gelu_and_its_derivatives_have_all_digits_far_below_zero(dtype):
    # float32 ends near 1e-38, which the tail passes below -13.
    points = np.linspace(-37.5 if dtype == "float64" else -12.5, -1.75, 60).astype(dtype)
    x = sg.placeholder(points.shape, dtype)
    y = sg.nn.gelu(x)
    (slope,) = sg.gradients(y, [x])
    (curvature,) = sg.gradients(slope, [x])
    found = sg.compile([x], [y, slope, curvature])(points)
    exact = [mpmath.mpf(float(point)) for point in points]
    wanted = [
        [p * mpmath.ncdf(p) for p in exact],
        [mpmath.ncdf(p) + p * mpmath.npdf(p) for p in exact],
        [(2 - p * p) * mpmath.npdf(p) for p in exact],
    ]
    for result, numbers in zip(found, wanted, strict=True):
        wanted_floats = [float(n) for n in numbers]
        np.testing.assert_allclose(result, wanted_floats, rtol=8 * np.finfo(dtype).eps)


def _gelu_by_tanh(x: sg.Tensor) -> sg.Tensor:
    return sg.nn.gelu(x, approximate=True)


_GELUS = [(function, far) for function in (sg.nn.gelu, _gelu_by_tanh) for far in (50.0, 6e4)]


@pytest.mark.parametrize(
    ("function", "far"), [(sg.nn.silu, 6e4), (sg.nn.mish, 6e4), (sg.nn.softplus, 6e4), *_GELUS]
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_derivatives_of_nan_are_nan_and_far_out_numbers(function, dtype, far):
    points = np.array([np.nan, -far, far], dtype)
    x = sg.placeholder(points.shape, dtype)
    found = [function(x)]
    for _ in range(4):
        found += sg.gradients(found[-1], [x])
    _, slope, *further = sg.run(found, {x: points})
    np.testing.assert_array_equal(slope, [np.nan, 0, 1])
    for derivative in further:
        np.testing.assert_array_equal(derivative, [np.nan, 0, 0])
