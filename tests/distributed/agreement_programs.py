"""Programs of several ranks that do not agree: what is said on each, before they would wait."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.refusals import assert_refused, line_of

D = sg.distributed
COMM = D.world()
RANK, SIZE = COMM.rank, COMM.size
X = sg.placeholder((3,), name="x")
ONES = np.ones(3, "float32")
HINT = """hint: let all ranks decide alike: sg.distributed.broadcast(condition, comm) makes it the \
same, and sg.distributed.same(condition, comm) says that it is"""


def programs_that_differ() -> None:
    """Ranks that build other graphs are told where, on all ranks, before any call is made."""
    total = D.all_reduce(sg.sin(X) if RANK else sg.cos(X), COMM)
    step = sg.compile([X], total, opt_level=0)
    lines = "`%0 = cos %x : f32[3]` on rank 0, and `%0 = sin %x : f32[3]` on rank 1"
    assert_refused(lambda: step(ONES), ValueError, f"""
        step: line 2 of the program is {lines}
          --> {line_of(programs_that_differ, 2)}
          hint: all ranks build the same graph; what differs between them is an input or a variable
    """)  # fmt: skip


def refused(build: Any, op: str, updates: Any = ()) -> None:
    """Raise AssertionError unless a program is refused for what ranks may decide differently."""
    problem = f"{op}: it makes calls of mpi_world, and ranks may decide in different ways"
    with pytest.raises(ValueError, match=problem) as caught:
        sg.compile([X], build(X), updates, opt_level=0)
    assert HINT in str(caught.value)


def summed_if(condition: Any, x: Any) -> Any:
    return sg.cond(condition, lambda: D.all_reduce(x, COMM), lambda: x)


def summed_while(start: Any, x: Any) -> Any:
    return sg.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, D.all_reduce(a, COMM)), (start, x)
    )[1]


def conditions_that_may_differ() -> None:
    own = sg.variable(np.float32(RANK), name="own")
    refused(lambda x: summed_if(x[0] > 0, x), "switch")
    refused(lambda x: summed_if(D.reduce_scatter(sg.stack([x] * SIZE), COMM)[0] > 0, x), "switch")
    refused(lambda x: summed_while(sg.astype(x[0], "int64"), x), "while")
    # What is the same in one group need not be so in a larger one.
    half = COMM.split(0)
    assert half is not None
    refused(lambda x: summed_if(D.all_reduce(x, half)[0] > 0, D.all_reduce(x, half)), "switch")
    # It starts the same, and does not stay so.
    refused(lambda x: summed_if(own > 0, x), "switch", [sg.Update(own, own + X[0])])


def conditions_that_are_the_same() -> None:
    """Results of collectives, what was declared, variables that start equal and stay so."""
    count = sg.variable(np.int64(0), name="count")
    values = [
        summed_if(D.all_reduce(X, COMM, "max")[0] > 0, X),
        summed_if(D.broadcast(X, COMM)[0] > 0, X),
        summed_if(D.same(X, COMM)[0] > 0, X),
        summed_while(sg.constant(2), X),
        summed_if(count % 2 == 0, X),
    ]
    # Gradients are averaged by calls that do not block.
    updates = [sg.Update(count, count + 1)]
    for shard in (False, True):
        w = sg.variable(np.zeros(3, "float32"), name=f"w{shard}")
        sgd = sg.optim.SGD(0.1)
        updates += sgd.minimize(sg.sum(w * X), data_parallel=COMM, shard_state=shard)
        values.append(summed_if(sg.sum(w) < 1, X))
    step = sg.compile([X], values, updates, opt_level=1)
    for number in range(2):
        got = step(ONES)
        np.testing.assert_array_equal(got[:4], np.full((4, 3), SIZE))
        np.testing.assert_array_equal(got[4], ONES if number else ONES * SIZE)
        np.testing.assert_array_equal(got[5:], np.full((2, 3), SIZE))


def variables_that_start_apart() -> None:
    own = sg.variable(np.float32(RANK), name="own")
    step = sg.compile([X], summed_if(own > 0, X), opt_level=0)
    problem = "variable own, which has one value on rank 0 and another on rank 1"
    assert_refused(lambda: step(ONES), ValueError, f"""
        step: a condition of collectives depends on the {problem}
          hint: give it the same value on all ranks
    """)  # fmt: skip
    own.value = np.float32(1)
    np.testing.assert_array_equal(step(ONES), ONES * SIZE)


def sizes_that_differ() -> None:
    """Ranks that are given arrays of other sizes are told, in any run, if collectives have them."""
    rows = sg.placeholder((None, 2), name="rows")
    summed = D.all_reduce(rows, COMM)
    step = sg.compile([rows], [summed, sg.sum(rows)], opt_level=0)
    for length in (3, 4, 3):
        assert step(np.ones((length, 2), "float32"))[0].shape == (length, 2)
    unknown = str(2 * rows.shape[0])
    for here, there in ((3, 4), (4, 3)):
        own = np.ones((there if RANK % 2 else here, 2), "float32")
        sizes = f"which are {2 * here} on rank 0 and {2 * there} on rank 1"
        with pytest.raises(ValueError, match="MPI_Allreduce moves") as caught:
            step(own)
        assert str(caught.value).splitlines() == [
            f"step: MPI_Allreduce moves {unknown} elements, {sizes}",
            f"  --> {line_of(sizes_that_differ, 3)}",
            "  hint: give all ranks inputs of the same sizes",
        ]
    assert step(np.ones((2, 2), "float16"))[1] == 4  # which is converted
    out = [np.zeros((2, 2), "float32"), np.zeros((), "float32")]
    step(out[0], out=out)  # arrays that overlap
    # Where none has them, ranks may have any.
    mean = D.all_reduce(sg.mean(rows), COMM, "mean")
    assert sg.compile([rows], mean, opt_level=0)(np.ones((RANK + 1, 2), "float32")) == 1


def gradients_of_conditions() -> None:
    """Take gradients of a branch and a loop, which decide by what these did."""
    y = summed_while(sg.constant(2), summed_if(D.all_reduce(X, COMM)[0] > 0, X))
    (dx,) = sg.gradients(sg.sum(y), X)
    step = sg.compile([X], dx, opt_level=1)
    np.testing.assert_array_equal(step(ONES), ONES * SIZE**2)


if __name__ == "__main__":
    conditions_that_may_differ()
    conditions_that_are_the_same()
    gradients_of_conditions()
    variables_that_start_apart()
    sizes_that_differ()
    programs_that_differ()
    sys.stdout.write(f"rank {RANK} has been told\n")
