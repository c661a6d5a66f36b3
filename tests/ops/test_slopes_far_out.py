"""First and second derivatives of functions of one number, from 1e-12 to 1e12.

What is right near 1 may be a difference of two nearly equal numbers far out, or a product of 0 and
infinity. float64 has twice the digits and eight times the range, so what float32 loses is seen.
"""

from __future__ import annotations

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
