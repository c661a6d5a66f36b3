"""What runs a single kernel in tests compiles each that has another text."""

import numpy as np
import pytest

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.target import target_named
from tests.support.machine_code import run_machine_code


def adding(value: str) -> Kernel:
    return parse_kernel(f"""
        kernel @k(in x: f32[4], out y: f32[4]) {{
          for i in 0..4 {{
            t0: f32 = x[i]
            t1: f32 = add(t0, {value})
            y[i] = t1
          }}
        }}
    """)


@pytest.mark.parametrize("values", [("0.0", "-0.0"), ("-0.0", "0.0")])
def test_zeros_of_two_signs_are_two_kernels(values: tuple[str, str]) -> None:
    x = np.full(4, -0.0, np.float32)
    for value in values:
        (found,) = run_machine_code(adding(value), target_named("native"), {"x": x, "y": x})
        assert np.signbit(found).all() == (value == "-0.0")
