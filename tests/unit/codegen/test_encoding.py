"""Kernels as rows are the kernels they were, to the bit."""

from __future__ import annotations

import json
import math
from typing import Any

import symgrad as sg
from symgrad.codegen.loops import blocking, language, sort_rows, strided
from symgrad.codegen.loops.encoding import RECORDS, Encoder, decoded
from symgrad.codegen.loops.language import Const, For, Index, Kernel, Let, Load, Param, Store
from symgrad.codegen.loops.print import print_kernel
from symgrad.graph.dtypes import bool_, float32, int64
from symgrad.records import replace


def again(value: Any, encoder: Encoder | None = None) -> Any:
    """Return what is read of what is written of a value."""
    encoder = encoder or Encoder([])
    number = encoder.encode(value)
    return decoded(json.loads(json.dumps(encoder.rows)))[number]


def test_every_record_of_the_loop_language_has_a_number():
    made = {
        value
        for module in (language, strided, blocking, sort_rows)
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and hasattr(value, "__dataclass_fields__")
    }
    assert made - {language.Combining} == set(RECORDS)


def test_numbers_keep_their_types_and_bits():
    values = (0, False, 0.0, -0.0, 1, True, 1.0, math.inf, None, "1", (), (1,), 2**62, 5e-324)
    found = again(values)
    assert [*map(repr, found)] == [*map(repr, values)]
    assert math.isnan(again(math.nan))
    assert again(Const(True, bool_)).dtype is bool_


def test_kernels_of_programs_are_what_they_were():
    x, i = sg.placeholder((40, 24)), sg.placeholder((40,), "int64")
    outputs = [
        sg.tanh(x @ sg.permute_dims(x, (1, 0))) * 2.0,
        sg.cumsum(x, axis=1),
        sg.sort(x, axis=1),
        sg.searchsorted(x[0], x[1]),
        sg.take(x, sg.clip(i, 0, 39), axis=0),
        sg.roll(x, 3, axis=1),
        x.sum(axis=0),
        sg.where(x > 0, x, -0.0),
    ]
    kernels = sg.compile([x, i], outputs, opt_level=0).executable.program.kernels
    encoder = Encoder([])
    for kernel in kernels:
        found = again(kernel, encoder)
        assert found == kernel
        assert print_kernel(found) == print_kernel(kernel)


def test_kernels_share_what_is_no_statement():
    """Two kernels that were not made of one another are not taken for such."""
    place = Index(0, (("i0", 1),))
    body = (Let("t0", Load("b0", place, float32)), Store("b1", place, Const(1.0, float32)))
    params = (Param("b0", float32, 8, "in"), Param("b1", float32, 8, "out"))
    one = Kernel("k", params, (For("i0", 8, body),))
    encoder = Encoder([])
    first = encoder.encode(one)
    count = len(encoder.rows)
    second = encoder.encode(replace(one, name="other"))
    assert len(encoder.rows) - count < count / 2
    # So it is for whoever goes on with the rows that were read.
    third = Encoder(json.loads(json.dumps(encoder.rows))).encode(one)
    assert third == len(encoder.rows) + len(encoder.rows) - count - 2
    values = decoded(encoder.rows)
    loops = [values[number].body[0] for number in (first, second)]
    assert loops[0] == loops[1]
    assert loops[0].body[0] is not loops[1].body[0]
    assert loops[0].body[0].value is loops[1].body[0].value


def test_dtypes_are_the_objects_that_there_are():
    assert again((int64, float32)) == (int64, float32)
    assert all(a is b for a, b in zip(again((int64, float32)), (int64, float32), strict=True))
