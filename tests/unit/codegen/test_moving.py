"""Code motion over instructions whose dependences are noted once."""

import itertools

import pytest

import symgrad as sg
from symgrad.codegen.program.language import Instr, buffers_of
from symgrad.codegen.program.moving import PassedOver, can_fail
from symgrad.codegen.program.registers import written_by


def instrs_of_training() -> list[Instr]:
    w, x = sg.variable([[0.5] * 3] * 4), sg.placeholder((5, 4))
    y = sg.cumsum(x @ w)
    loss = (y * sg.cumprod(y)).sum()
    step = sg.compile([x], [loss, sg.sort(x)], updates=sg.optim.SGD(0.1).minimize(loss))
    return list(step.executable.program.instrs)


def conflict(first: Instr, second: Instr) -> bool:
    """Return whether two instructions may not change places, by the definition."""
    one, other = set(written_by([first])), set(written_by([second]))
    return bool(one & set(buffers_of([second])) or other & set(buffers_of([first])))


def test_what_was_added_is_what_an_instruction_is_compared_with():
    instrs = instrs_of_training()
    assert len(instrs) > 3
    found = set()
    for start, stop in itertools.combinations(range(len(instrs)), 2):
        passed = PassedOver(instrs[start:stop])
        assert passed.instrs == instrs[start:stop]
        expected = any(conflict(instrs[stop], other) for other in instrs[start:stop])
        assert passed.conflicts(instrs[stop]) == expected
        assert passed.lets(instrs[stop]) == (not expected)
        found.add(expected)
    assert found == {True, False}


def test_nothing_is_in_the_way_of_what_is_moved_over_nothing():
    for instr in instrs_of_training():
        assert PassedOver().lets(instr)
        assert PassedOver([instr]).conflicts(instr)


@pytest.mark.parametrize("is_checked", [True, False])
def test_a_variable_changes_behind_what_can_fail(is_checked):
    v, x, at = sg.variable([1.0] * 4), sg.placeholder((4,)), sg.placeholder((2,), dtype="int64")
    taken = sg.take(x, at) if is_checked else sg.sort(x)
    step = sg.compile([x, at], sg.cumsum(taken), updates=[(v, v * 2.0)])
    instrs = list(step.executable.program.instrs)
    moves = [i for i in instrs if any(b.place == "variable" for b in written_by([i]))]
    others = [i for i in instrs if i not in moves and not conflict(i, moves[0])]
    passed = PassedOver(others)
    assert passed.can_fail == any(map(can_fail, others)) == is_checked
    assert passed.lets(moves[0]) == (not is_checked)
    assert not passed.conflicts(moves[0])
