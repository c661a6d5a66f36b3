"""Keys: what they make, that nothing comes twice, and that they are tensors like any other."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from tests.support.floors import run_reference
from tests.support.philox import philox_pair
from tests.support.samples import sample

KEY = sg.random.key(12)


def test_a_draw_of_a_key_has_counters_of_its_own() -> None:
    found = sample(sg.random.bits(KEY, (2, 3), "uint64")).reshape(-1).tolist()
    assert found == [philox_pair(position, 2**64 - 2, 12, 0) for position in range(6)]


def test_keys_made_of_a_key_are_as_documented() -> None:
    pair, folded = sample([sg.random.split(KEY), sg.random.fold_in(KEY, 3)])
    assert pair.dtype == np.uint64
    assert pair.tolist() == [philox_pair(i, 2**64 - 3, 12, 0) for i in range(2)]
    assert int(folded) == philox_pair(3, 2**64 - 1, 12, 0)


def test_the_first_keys_of_many_are_those_of_few_and_have_any_shape() -> None:
    few, many, table = sample([sg.random.split(KEY, n) for n in (3, 100, (2, 50))])
    np.testing.assert_array_equal(few, many[:3])
    np.testing.assert_array_equal(table.reshape(-1), many)
    assert len(np.unique(many)) == 100


def test_a_seed_may_be_a_tensor() -> None:
    seed = sg.placeholder((), "int32")
    step = sg.compile([seed], sg.random.bits(sg.random.key(seed), (4,)))
    np.testing.assert_array_equal(step(np.int32(12)), sample(sg.random.bits(KEY, (4,))))


def test_the_same_key_gives_the_same_draw_and_others_give_others() -> None:
    children = [KEY, *(sg.random.split(KEY)[i] for i in range(2)), sg.random.fold_in(KEY, 0)]
    again, *draws = sample([sg.random.bits(k, (1000,), "uint64") for k in (KEY, *children)])
    np.testing.assert_array_equal(again, draws[0])
    assert len(np.unique(np.concatenate(draws))) == 4000
    generated = sample(sg.random.Generator(12).bits((1000,), "uint64"))
    assert not np.intersect1d(generated, np.concatenate(draws)).size


@pytest.mark.parametrize(
    ("dtype", "normal", "gamma"),
    [
        (
            "float32",
            [1.5733391046524048, -1.4205416440963745, -0.5170777440071106],
            [0.42300140857696533, 2.9694855213165283, 1.2109770774841309],
        ),
        (
            "float64",
            [-1.7512567753689425, 0.04036126969383222, 0.025639583862680754],
            [1.0565919734532496, 3.201711807393662, 1.211081131311564],
        ),
    ],
)
def test_the_draws_of_a_key_are_the_same_in_all_versions(
    dtype: str, normal: list[float], gamma: list[float]
) -> None:
    key = sg.random.key(7)
    draws = (
        sg.random.normal(key, (3,), dtype=dtype),
        sg.random.gamma(key, (3,), 2.5, dtype=dtype),
    )
    assert [x.tolist() for x in sample(list(draws))] == [normal, gamma]


def test_samples_of_different_keys_are_not_correlated() -> None:
    first, second = sg.random.split(KEY)[0], sg.random.split(KEY)[1]
    keys = (KEY, first, second, sg.random.key(13), sg.random.fold_in(KEY, 1))
    draws = sample([sg.random.normal(k, (20_000,)) for k in keys])
    for x, y in itertools.combinations(draws, 2):
        assert abs(np.mean(x * y)) < 3.3 / np.sqrt(20_000)


# ----------------------------------------------------------------------- where a key may be


def _separately(draw: Any, keys: Any) -> Any:
    return np.stack(run_reference(Graph([draw(keys[i]) for i in range(3)], []), []).outputs)


@pytest.mark.parametrize(
    "name", ["normal", "gamma", pytest.param("poisson", marks=pytest.mark.slow)]
)
def test_keys_are_slices_of_scans_and_cases_of_vmap(name: str) -> None:
    draws = {
        "normal": lambda key: sg.random.normal(key, (5,)),
        "gamma": lambda key: sg.random.gamma(key, (5,), 0.5),
        "poisson": lambda key: sg.random.poisson(key, (5,), 20.0),
    }
    keys = sg.random.split(KEY, 3)
    mapped, batched = sample([sg.map(draws[name], keys), sg.vmap(draws[name])(keys)])
    wanted = _separately(draws[name], keys)
    np.testing.assert_array_equal(mapped, wanted)
    np.testing.assert_array_equal(batched, wanted)


def test_a_key_is_a_loop_variable() -> None:
    def step(carry: Any, _: Any) -> Any:
        parts = sg.random.split(carry)
        return parts[0], sg.random.uniform(parts[1], (2,))

    found = sample(sg.scan(step, KEY, length=3)[1])
    key, wanted = KEY, []
    for _ in range(3):
        parts = sg.random.split(key)
        key, own = parts[0], parts[1]
        wanted.append(sg.random.uniform(own, (2,)))
    np.testing.assert_array_equal(found, np.stack(sample(wanted)))


def test_a_key_goes_into_branches_and_functions() -> None:
    chooses = sg.placeholder((), "bool")

    @sg.function
    def noise(key: Any) -> Any:
        return sg.random.gamma(key, (4,), 2.0)

    other = sg.random.fold_in(KEY, 1)
    branch = sg.cond(chooses, lambda: noise(KEY), lambda: noise(other))
    step = sg.compile([chooses], branch, opt_level=1)
    plain = sample([sg.random.gamma(k, (4,), 2.0) for k in (KEY, other)])
    np.testing.assert_array_equal(step(np.bool_(True)), plain[0])
    np.testing.assert_array_equal(step(np.bool_(False)), plain[1])


def test_a_draw_of_a_generator_takes_one_number_whatever_it_needs() -> None:
    first, second = sg.random.Generator(3), sg.random.Generator(3)
    first.gamma((4,), 2.0)
    second.uniform((4,))
    np.testing.assert_array_equal(*sample([first.bits((8,)), second.bits((8,))]))


def test_draws_of_a_generator_with_rounds_differ_from_step_to_step_and_fold_to_fold() -> None:
    rng = sg.random.Generator(3)
    draws = [r.gamma((500,), 2.0, "float64") for r in (rng, rng, rng.fold(1))]
    step = sg.compile([], draws, [rng.advance()], opt_level=1)
    seen = np.concatenate([values for _ in range(2) for values in step()])
    assert len(np.unique(seen)) == 3000


def test_sizes_may_be_unknown() -> None:
    x = sg.placeholder((None, 3))
    draws = [sg.random.gamma(KEY, x.shape, 2.0), sg.random.normal(KEY, x.shape)]
    step = sg.compile([x], draws, opt_level=0)
    small, large = (step(np.zeros((rows, 3), np.float32)) for rows in (2, 7))
    for few, many in zip(small, large, strict=True):
        np.testing.assert_array_equal(few, many[:2])
