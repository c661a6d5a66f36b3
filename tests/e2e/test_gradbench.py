"""The problems of GradBench compute what they are defined to, and so do the programs in C++."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from benchmarks.gradbench.ba import BA
from benchmarks.gradbench.comparison import PROBLEMS, times_of
from benchmarks.gradbench.det import DET
from benchmarks.gradbench.gmm import GMM, PARAMETERS
from benchmarks.gradbench.ht import HT
from benchmarks.gradbench.kmeans import KMEANS
from benchmarks.gradbench.llsq import LLSQ
from benchmarks.gradbench.lse import LSE
from benchmarks.gradbench.lstm import LSTM
from benchmarks.gradbench.native import load
from benchmarks.gradbench.ode import ODE
from benchmarks.gradbench.particle import PARTICLE
from benchmarks.gradbench.problem import Problem, symgrad_call
from benchmarks.gradbench.saddle import SADDLE
from symgrad.graph.types import Array
from tests.support import gradbench_references as references
from tests.support.c_programs import needs
from tests.support.gradbench_references import derivatives, gradient


def results_of(problem: Problem, name: str, sizes: tuple[int, ...] | None = None) -> list[Array]:
    sizes = problem.quick if sizes is None else sizes
    return symgrad_call(problem.functions[name], problem.given(*sizes)).results


def check(found: Sequence[Array], *wanted: Any) -> None:
    for array, reference in zip(found, wanted, strict=True):
        np.testing.assert_allclose(array, np.real(reference), rtol=1e-9, atol=1e-12)


def test_least_squares_are_those_of_each_place():
    given = LLSQ.given(*LLSQ.quick)
    function = partial(references.llsq, n=given["n"])
    check(results_of(LLSQ, "primal"), function(given["x"]))
    check(results_of(LLSQ, "gradient"), gradient(function, given["x"]))


def test_log_sum_exp_is_the_logarithm_of_the_sum():
    x = LSE.given(*LSE.quick)["x"]
    check(results_of(LSE, "primal"), references.lse(x))
    check(results_of(LSE, "gradient"), gradient(references.lse, x))


def test_a_step_of_k_means_leads_to_the_means():
    cost, step = references.kmeans(**KMEANS.given(*KMEANS.quick))
    check(results_of(KMEANS, "cost"), cost)
    check(results_of(KMEANS, "dir"), step)


def test_the_equation_is_solved_and_its_last_component_differentiated():
    given = ODE.given(*ODE.quick)
    function = partial(references.ode, s=given["s"])
    check(results_of(ODE, "primal"), function(given["x"]))
    wanted = gradient(lambda x: function(x)[-1], given["x"])
    assert np.all(wanted != 0)
    check(results_of(ODE, "gradient"), wanted)


def test_the_determinant_is_the_sum_over_permutations():
    a = DET.given(4)["a"]
    check(results_of(DET, "primal", (4,)), references.det(a))
    check(results_of(DET, "gradient", (4,)), gradient(references.det, a))


def test_the_mixture_is_that_of_the_textbook():
    given = GMM.given(*GMM.quick)
    x, *parameters = (given[name] for name in ("x", *PARAMETERS))
    check(results_of(GMM, "objective"), references.gmm(x, *parameters))
    wanted = []
    for place, parameter in enumerate(parameters):

        def function(moved: Array, place: int = place) -> Any:
            return references.gmm(x, *[*parameters[:place], moved, *parameters[place + 1 :]])

        wanted.append(gradient(function, parameter))
    check(results_of(GMM, "jacobian"), *wanted)


def test_bundle_adjustment_has_the_residuals_of_each_observation():
    given = BA.given(*BA.quick)
    rows = references.ba_rows(given["cams"], given["x"], given["w"])
    wanted = [references.ba_error(*pair) for pair in zip(rows, given["feat"], strict=True)]
    check(results_of(BA, "objective"), np.array(wanted), 1 - given["w"] ** 2)


def test_bundle_adjustment_has_its_jacobian_in_compressed_rows():
    wanted = references.ba_matrix(**BA.given(*BA.quick))
    starts, columns, values = results_of(BA, "jacobian")
    found = np.zeros_like(wanted)
    for row, (start, end) in enumerate(pairwise(starts)):
        assert np.all(np.diff(columns[start:end]) > 0)
        found[row, columns[start:end]] = values[start:end]
    assert (len(starts), starts[-1]) == (len(wanted) + 1, len(values))
    check([found], wanted)


def test_the_hand_is_posed_by_a_table_of_angles():
    given = HT.given(*HT.quick)
    check(results_of(HT, "objective"), references.ht(given["theta"], given["us"], given))


@pytest.mark.slow
def test_the_jacobian_of_the_hand_is_that_by_own_places_and_by_the_pose():
    given = HT.given(*HT.quick)
    theta, us = given["theta"], given["us"]
    by_places = derivatives(lambda us: references.ht(theta, us, given), us)
    own = [by_places[row, 2 * (row // 3) : 2 * (row // 3) + 2] for row in range(len(by_places))]
    by_pose = derivatives(lambda theta: references.ht(theta, us, given), theta)
    check(results_of(HT, "jacobian"), np.hstack([own, by_pose]))


def test_the_lstm_is_that_of_a_table_of_gates():
    given = LSTM.given(*LSTM.quick)
    main, extra, state, sequence = given.values()
    check(results_of(LSTM, "objective"), references.lstm(main, extra, state, sequence))
    by_main = gradient(lambda main: references.lstm(main, extra, state, sequence), main)
    by_extra = gradient(lambda extra: references.lstm(main, extra, state, sequence), extra)
    check(results_of(LSTM, "jacobian"), np.hstack([by_main.ravel(), by_extra.ravel()]))


@pytest.mark.parametrize(
    "modes", ["rr", *(pytest.param(m, marks=pytest.mark.slow) for m in ("rf", "fr", "ff"))]
)
def test_descents_end_where_those_of_gradbench_do(modes):
    """The numbers are those that its golden tool gives."""
    check(results_of(SADDLE, modes), np.full(4, 8.246324826140356e-06))
    check(results_of(PARTICLE, modes), np.array([0.2071918746486116]))


@pytest.mark.slow
@needs("g++")
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_programs_in_cpp_have_the_same_results(problem, tmp_path):
    table = times_of(problem, problem.quick, load(problem, tmp_path), quick=True)
    assert all({"symgrad", "C++"} <= set(times) for times in table.values())
