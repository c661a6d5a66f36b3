"""The order of groups that frees memory: who takes no more than it frees runs as soon as it can."""

from __future__ import annotations

import symgrad as sg
from symgrad.passes.fusion.freeing_order import freeing_order

A, B, C = (sg.placeholder((4096,), name=name) for name in "abc")


def test_a_group_that_frees_what_it_reads_runs_before_one_that_takes_memory():
    # 0 makes A; 1 makes B; 2 reads A alone and leaves nothing.
    order = freeing_order([0, 1, 2], [{2}, set(), set()], [[], [], [A]], [[A], [B], []])
    assert order == [0, 2, 1]


def test_a_group_that_frees_nothing_since_others_read_it_keeps_its_place():
    # 2 makes C of A, which 3 reads too.
    reads, made = [[], [], [A], [A]], [[A], [B], [C], []]
    assert freeing_order([0, 1, 2, 3], [{2, 3}, set(), set(), set()], reads, made) == [0, 1, 2, 3]


def test_an_update_that_frees_nothing_comes_no_earlier():
    order = freeing_order([0, 1], [set(), set()], [[], []], [[A], []])
    assert order == [0, 1]


def test_groups_run_behind_those_that_they_wait_for():
    # 1 frees A, but waits for 2.
    order = freeing_order([0, 2, 1], [{1}, set(), {1}], [[], [A], []], [[A], [], [B]])
    assert order == [0, 2, 1]
