"""Generators: the bits of a draw, that no two share any, and that their state is all they are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.run import run_program
from symgrad.graph.compare import structurally_equal
from symgrad.graph.graph import Graph
from tests.support.case import Array
from tests.support.floors import TARGETS, compile_for, run_native, run_reference
from tests.support.philox import philox_pair

# Of these every floor and every machine gives the same bits.
_EXACT: dict[str, Callable[[sg.random.Generator], sg.Tensor]] = {
    "bits": lambda rng: rng.bits((5, 7)),
    "wide bits": lambda rng: rng.bits((33,), "uint64"),
    "narrow bits": lambda rng: rng.bits((33,), "uint8"),
    "uniform": lambda rng: rng.uniform((5, 7)),
    "uniform of float64": lambda rng: rng.uniform((5, 7), -3.0, 0.7, "float64"),
    "integers": lambda rng: rng.integers(-5, 1000, (67,)),
    "all of 32 bits": lambda rng: rng.integers(0, 2**32, (67,), "uint32"),
    "int8": lambda rng: rng.integers(-128, 128, (67,), "int8"),
    "bernoulli": lambda rng: rng.bernoulli(0.3, (5, 7)),
    "folded": lambda rng: rng.fold(7).bits((9,)),
    "a scalar": lambda rng: rng.bits(()),
    "nothing": lambda rng: rng.uniform((0, 3)),
}


def run(outputs: Any, *updates: Any, **options: Any) -> Any:
    return sg.compile([], outputs, list(updates), **options)()


# ----------------------------------------------------------------------------- known answers


def test_the_first_bits_of_seed_0_are_those_of_the_paper() -> None:
    # Counter 0 and key 0 in the known answers of Random123.
    assert f"{int(run(sg.random.Generator(0).bits((1,)))[0]):08x}" == "6627e8d5"


def test_a_counter_is_the_position_the_draw_and_the_step() -> None:
    rng = sg.random.Generator(2**63 + 5, name="known")
    rng.bits((100,))
    second = rng.bits((2, 3), "uint64")
    step = sg.compile([], second, [rng.advance()])
    for number in range(3):
        counters = [(1 << 40) + position for position in range(6)]
        wanted = [philox_pair(low, number, 2**63 + 5, 0) for low in counters]
        assert step().reshape(-1).tolist() == wanted


def test_a_folded_key_is_made_of_the_key_and_the_number() -> None:
    key = philox_pair(2**64 - 3, 2**64 - 1, 12, 0)
    found = run(sg.random.Generator(12).fold(-3).bits((2,), "uint64"))
    assert found.tolist() == [philox_pair(position, 0, key, 0) for position in range(2)]


def test_the_text_of_a_draw_is_the_draw() -> None:
    graph = Graph(sg.random.Generator(2**64 - 1, name="text").fold(-1).normal((3,)))
    again = Graph.parse(str(graph))
    assert structurally_equal(graph, again)


# ------------------------------------------------------------------- the same bits everywhere


@pytest.mark.parametrize(
    ("draw", "targets"),
    [
        # This machine and the levels below it in turns.
        pytest.param(draw, (TARGETS[turn % len(TARGETS)],), id=name)
        for turn, (name, draw) in enumerate(_EXACT.items())
    ],
)
def test_every_floor_gives_the_same_bits(
    draw: Callable[[sg.random.Generator], sg.Tensor], targets: Sequence[str]
) -> None:
    rng = sg.random.Generator(2**40 + 3)
    rng.bits((3,))
    graph = Graph(draw(rng), [])
    (wanted,) = run_reference(graph, []).outputs
    for target in targets:
        executable = compile_for(graph, target)
        found = [*run_program(executable.program, []).outputs, *run_native(executable, []).outputs]
        for array in found:
            np.testing.assert_array_equal(array, wanted, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("draw", _EXACT.values(), ids=_EXACT.keys())
def test_every_target_gives_the_same_bits(
    draw: Callable[[sg.random.Generator], sg.Tensor],
) -> None:
    test_every_floor_gives_the_same_bits(draw, TARGETS)


def test_threads_do_not_change_a_bit() -> None:
    rng = sg.random.Generator(4)
    outputs = [rng.normal((300, 1001)), rng.bits((300, 1001))]
    found = [run(outputs, threads=threads, opt_level=1) for threads in (1, 2)]
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_draw_does_not_depend_on_the_sizes_of_others() -> None:
    x = sg.placeholder((None, 4))
    first, second = sg.random.Generator(3), sg.random.Generator(3)
    first.uniform((10,))
    second.uniform(x.shape)
    np.testing.assert_array_equal(run(first.bits((8,))), run(second.bits((8,))))


def test_the_size_of_a_draw_may_be_unknown() -> None:
    x = sg.placeholder((None, 4))
    rng = sg.random.Generator(3)
    step = sg.compile([x], rng.uniform(x.shape))
    small, large = (step(np.zeros((rows, 4), np.float32)) for rows in (3, 8))
    np.testing.assert_array_equal(small, large[:3])
    assert len(np.unique(large)) == 32


# ---------------------------------------------------------------------- nothing comes twice


def test_no_value_is_drawn_twice_in_a_program_or_a_step() -> None:
    rng = sg.random.Generator(1)
    folded = rng.fold(0)
    draws = [r.bits((1000,), "uint64") for r in (rng, rng, folded, rng.fold(1), folded)]
    step = sg.compile([], draws, [rng.advance()])
    seen = np.concatenate([values for _ in range(3) for values in step()])
    assert len(np.unique(seen)) == len(seen) == 15_000


def test_a_draw_built_after_the_update_is_disjoint_too() -> None:
    rng = sg.random.Generator(1)
    first, update = rng.bits((100,), "uint64"), rng.advance()
    later = rng.bits((100,), "uint64")
    train, evaluate = sg.compile([], first, [update]), sg.compile([], later)
    seen = np.concatenate([train(), evaluate(), train(), evaluate()])
    assert len(np.unique(seen)) == 400


def test_without_an_update_a_step_repeats_itself() -> None:
    step = sg.compile([], sg.random.Generator(1).bits((10,)))
    np.testing.assert_array_equal(step(), step())


def test_equal_seeds_give_equal_draws_and_others_do_not() -> None:
    values = [run(sg.random.Generator(seed).bits((100,))) for seed in (1, 1, 2, 2**32 + 1)]
    np.testing.assert_array_equal(values[0], values[1])
    for a, b in itertools.combinations(values[1:], 2):
        assert np.sum(a == b) == 0


# -------------------------------------------------------------------------------- in loops


def test_in_a_loop_a_draw_is_the_same_unless_it_is_folded() -> None:
    rng = sg.random.Generator(5)

    def body(i: sg.Tensor) -> Any:
        return rng.bits((3,)), rng.fold(i).bits((3,))

    same, folded = run(sg.map(body, sg.arange(4)), opt_level=1)
    assert (same == same[0]).all()
    assert len(np.unique(folded)) == 12
    # That of an iteration is that of the number alone.
    np.testing.assert_array_equal(folded[2], _second_draw_of_fold(5, 2))


def _second_draw_of_fold(seed: int, number: int) -> Array:
    rng = sg.random.Generator(seed)
    rng.bits((3,))
    result: Array = run(rng.fold(number).bits((3,)))
    return result


def test_folds_nest() -> None:
    rng = sg.random.Generator(5)
    keys = [(i, j) for i in range(2) for j in range(3)]
    draws = [rng.fold(i).fold(j).bits((1,), "uint64") for i, j in keys]
    assert len(np.unique(np.concatenate(run(draws, opt_level=0)))) == 6


# ------------------------------------------------------------------------------------ state


def test_the_state_is_two_variables_that_no_optimizer_moves() -> None:
    rng = sg.random.Generator(9, name="rng")
    assert {name: v.value.tolist() for name, v in rng.state.items()} == {
        "rng/key": 9,
        "rng/counter": 0,
    }
    assert not any(v.trainable for v in rng.state.values())
    assert rng.fold(3).state == rng.state
    run(rng.bits((2,)), rng.advance())
    assert rng.state["rng/counter"].value == 1


def test_generators_without_a_name_have_one_of_their_own() -> None:
    names = {name for _ in range(3) for name in sg.random.Generator(0).state}
    assert len(names) == 6


class Training:
    """A network with dropout, Adam and noise on its input: three kinds of state."""

    def __init__(self, seed: int) -> None:
        self.w = sg.variable(np.full((6, 4), 0.1, np.float32), name="w")
        self.optimizer = sg.optim.Adam(0.05)
        self.rng = sg.random.Generator(seed, name="rng")
        x = self.rng.normal((8, 6))
        hidden = sg.nn.dropout(sg.tanh(x @ self.w), 0.5, self.rng)
        loss = sg.nn.mse(hidden, 1.0)
        updates = [*self.optimizer.minimize(loss), self.rng.advance()]
        self.step = sg.compile([], [loss, hidden], updates, opt_level=1)

    @property
    def state(self) -> Any:
        return [self.w, self.optimizer.state, self.rng.state]


def test_a_restored_checkpoint_continues_the_same_stream(tmp_path: Path) -> None:
    training = Training(seed=1)
    for _ in range(3):
        training.step()
    sg.save(tmp_path / "checkpoint", training.state)
    wanted = [training.step() for _ in range(3)]
    restored = Training(seed=2)  # the seed is in the file as well
    restored.step()
    sg.restore(tmp_path / "checkpoint", restored.state)
    for a, b in zip(wanted, [restored.step() for _ in range(3)], strict=True):
        for value, again in zip(a, b, strict=True):
            np.testing.assert_array_equal(value, again)
    assert not np.array_equal(wanted[0][1], wanted[1][1])
