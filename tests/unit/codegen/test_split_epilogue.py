"""Fission of a product from its epilogue: kernels that have none."""

from __future__ import annotations

from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.schedule.split_epilogue import split_epilogue


def test_a_kernel_of_no_elements_is_no_product_with_an_epilogue():
    kernel = parse_kernel("kernel @k(in a: f32[4], out b: f32[0]) {\n}\n")
    assert kernel.body == ()
    assert split_epilogue(kernel) is None
