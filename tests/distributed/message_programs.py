"""The full text of the errors of `sg.distributed`, on two ranks."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import symgrad as sg
from tests.support.refusals import assert_refused

D = sg.distributed
COMM = D.world()
X = sg.placeholder((3,), name="x")
B = sg.placeholder((2,), "bool", name="b")
C = sg.placeholder((2,), "complex64", name="c")
NONE: Any = None
WORD: Any = "red"
PAIRS: Any = [(0, 1, 1)]


def reductions() -> None:
    assert_refused(lambda: D.all_reduce(X, NONE), TypeError, """
        all_reduce: comm is None, no communicator
          --> <here>
          hint: sg.distributed.world() is that of all ranks
    """)  # fmt: skip
    assert_refused(lambda: D.all_reduce(X, COMM, "prod"), ValueError, """
        all_reduce: op is 'prod', not sum, mean, max or min
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: D.all_reduce(B, COMM), TypeError, """
        all_reduce: sum of bool[2]
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: D.all_reduce(C, COMM, "max"), TypeError, """
        all_reduce: max of c64[2]
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: D.reduce_scatter(X, COMM), ValueError, """
        reduce_scatter: the first axis of f32[3] has not 2 elements, one for each rank
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: D.reduce_scatter(B, COMM), TypeError, """
        reduce_scatter: the sum of bool[2]
          --> <here>
    """)  # fmt: skip


def movements() -> None:
    assert_refused(lambda: D.all_to_all(1.0, COMM), ValueError, """
        all_to_all: the first axis of f32[] has not 2 elements, one for each rank
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: D.broadcast(X, COMM, 2), ValueError, """
        broadcast: root is 2, no rank of 2
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: D.send_recv(X, COMM, [(0, 1), (1, 2)]), ValueError, """
        send_recv: dest is 2, no rank of 2
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: D.send_recv(X, COMM, [(0, 1), (1, 1)]), ValueError, """
        send_recv: a rank is dest of two pairs in [(0, 1), (1, 1)]
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: D.send_recv(X, COMM, PAIRS), ValueError, """
        send_recv: (0, 1, 1) is no pair of a source and a destination
          --> <here>
    """)  # fmt: skip
    assert_refused(lambda: COMM.split(WORD), TypeError, """
        split: color is 'red', no int of 0 or more
          --> <here>
    """)  # fmt: skip
    large = sg.placeholder((2**31,), "int8", name="large")
    assert_refused(lambda: D.all_gather(large, COMM), ValueError, """
        all_gather: i8[2147483648] has 2147483648 elements, and a call moves up to 2147483647
          --> <here>
    """)  # fmt: skip
    step = sg.compile([X], D.all_reduce(X, COMM), opt_level=0)
    assert step(np.ones(3, "float32"))[0] == COMM.size


if __name__ == "__main__":
    reductions()
    movements()
    sys.stdout.write("all messages are as they should be\n")
