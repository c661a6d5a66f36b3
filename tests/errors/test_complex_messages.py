"""What a user reads who asks of complex numbers what only real ones have."""

from __future__ import annotations

import symgrad as sg
from tests.support.refusals import assert_refused


def test_complex_numbers_have_no_order():
    z = sg.placeholder((2,), "complex64")
    assert_refused(lambda: z < 1, TypeError, """
        less: operand 0: c64[2] is complex, real numbers are needed
          --> <here>
          hint: take sg.real, sg.imag or sg.abs of it
    """)  # fmt: skip


def test_a_complex_number_does_not_become_real_by_a_conversion():
    z = sg.placeholder((2,), "complex64")
    assert_refused(lambda: sg.astype(z, "float32"), TypeError, """
        astype: x: c64[2] is complex, float32 is real
          --> <here>
          hint: take sg.real, sg.imag or sg.abs of it
    """)  # fmt: skip


def test_a_complex_constant_of_a_real_dtype():
    assert_refused(lambda: sg.constant(1j, "float32"), TypeError, """
        constant: 1j is complex, float32 is real
          --> <here>
    """)  # fmt: skip


def test_the_gradient_of_a_complex_number():
    z = sg.placeholder((2,), "complex64")
    assert_refused(lambda: sg.gradients([z * z], [z]), TypeError, """
        gradients: ys[0]: c64[2] is complex, and a gradient is that of a real number
          --> <here>
          hint: take sg.real, sg.imag or sg.abs of it, or give grad_ys
    """)  # fmt: skip


def test_parts_that_are_complex():
    z, x = sg.placeholder((2,), "complex64"), sg.placeholder((2,))
    assert_refused(lambda: sg.complex(z, x), TypeError, """
        complex: complex64 is no dtype of a part
          --> <here>
    """)  # fmt: skip


def test_an_optimizer_of_a_complex_variable():
    w = sg.variable([1j], name="w")
    assert_refused(lambda: sg.optim.SGD(0.1).minimize(sg.sum(sg.abs(w)), [w]), TypeError, """
        SGD.minimize: <Tensor w: c64[1]> is complex
          --> <here>
          hint: train its two parts, and make it of them by sg.complex
    """)  # fmt: skip
