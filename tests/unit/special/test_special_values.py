"""Special functions at poles, infinities, zeros and nan, as SciPy has them, on every floor."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.ops import incomplete_gamma
from tests.support.evaluators import EVALUATORS, evaluate_loops, evaluate_reference

INF, NAN = np.inf, np.nan
EULER = 0.5772156649015329

_OF_ONE = [
    (sg.special.gammaln, {0.0: INF, -1.0: INF, -1e30: INF, INF: INF, -INF: INF, 1.0: 0,
                          2.0: 0, 1e306: INF}),
    (sg.special.digamma, {0.0: -INF, -1.0: NAN, -1e30: NAN, INF: INF, -INF: NAN, 1.0: -EULER}),
    (lambda x: sg.special.polygamma(1, x), {0.0: INF, -3.0: INF, INF: 0, -INF: INF,
                                            1.0: np.pi**2 / 6}),
    (lambda x: sg.special.polygamma(2, x), {0.0: -INF, -3.0: -INF, INF: 0, -INF: -INF}),
    (lambda x: sg.special.polygamma(0, x), {1.0: -EULER, INF: INF}),
    (sg.special.zeta, {1.0: INF, 0.5: NAN, INF: 1, -INF: NAN, 2.0: np.pi**2 / 6}),
    (sg.special.erfc, {0.0: 1, INF: 0, -INF: 2, 1e30: 0, -1e30: 2}),
    (sg.special.erfcx, {0.0: 1, INF: 0, -INF: INF, -1e30: INF}),
    (sg.special.erfinv, {0.0: 0, 1.0: INF, -1.0: -INF, 1.5: NAN, INF: NAN, -INF: NAN}),
    (sg.special.ndtr, {0.0: 0.5, INF: 1, -INF: 0, 1e30: 1, -1e30: 0}),
    (sg.special.ndtri, {0.5: 0, 0.0: -INF, 1.0: INF, -0.1: NAN, 1.1: NAN, INF: NAN}),
    (sg.special.log_ndtr, {0.0: -np.log(2), INF: 0, -INF: -INF, 1e30: 0}),
    (sg.special.i0e, {0.0: 1, INF: 0, -INF: 0}),
    (sg.special.i1e, {0.0: 0, INF: 0, -INF: 0}),
    (sg.special.logit, {0.5: 0, 0.0: -INF, 1.0: INF, -0.1: NAN, 1.1: NAN}),
    (sg.special.expit, {0.0: 0.5, INF: 1, -INF: 0}),
    (sg.special.entr, {0.0: 0, 1.0: 0, -1.0: -INF, INF: -INF, -INF: -INF}),
]  # fmt: skip

_OF_TWO = [
    (sg.special.gammainc, {(0, 1): 1, (0, 0): NAN, (1, 0): 0, (2, INF): 1, (INF, 2): 0,
                           (INF, INF): NAN, (-1, 1): NAN, (1, -1): NAN, (NAN, 1): NAN,
                           (1, NAN): NAN, (1e4, 1): 0, (1, 1e4): 1}),
    (sg.special.gammaincc, {(0, 1): 0, (0, 0): NAN, (1, 0): 1, (2, INF): 0, (INF, 2): 1,
                            (INF, INF): NAN, (-1, 1): NAN, (1, -1): NAN, (NAN, 1): NAN,
                            (1, NAN): NAN, (1e4, 1): 1, (1, 1e4): 0}),
    (sg.special.betaln, {(0, 1): INF, (1, 0): INF, (1, 1): 0, (INF, 1): -INF, (-1, 2): NAN,
                         (NAN, 1): NAN, (0, INF): NAN}),
    (sg.special.beta, {(0, 1): INF, (1, 1): 1, (INF, 1): 0, (-1, 2): NAN}),
    (sg.special.zeta, {(2, 0): INF, (1, 3): INF, (2, INF): 0, (INF, 2): 0, (INF, 1): 1,
                       (2, -1.5): NAN, (0.5, 1): NAN, (2, NAN): NAN}),
    (sg.special.xlogy, {(0, 0): 0, (0, INF): 0, (0, -1): 0, (0, NAN): NAN, (1, 0): -INF,
                        (NAN, 1): NAN, (2, -1): NAN}),
    (sg.special.xlog1py, {(0, -1): 0, (0, INF): 0, (0, NAN): NAN, (1, -1): -INF}),
]  # fmt: skip

_OF_THREE = [
    (sg.special.betainc, {(1, 1, 0.25): 0.25, (1, 2, 0.5): 0.75, (2, 1, 0.5): 0.25,
                          (2, 3, 0): 0, (2, 3, 1): 1, (2, 3, 1.5): NAN, (2, 3, -0.5): NAN,
                          (0, 3, 0.5): 1, (2, 0, 0.5): 0, (0, 0, 0.5): NAN, (-1, 2, 0.5): NAN,
                          (NAN, 2, 0.5): NAN, (2, NAN, 0.5): NAN, (2, 3, NAN): NAN}),
]  # fmt: skip


by_each_parameter = pytest.mark.parametrize(
    "parameter", [0, pytest.param(1, marks=pytest.mark.slow)], ids=["a", "b"]
)


def _rows() -> list[Any]:
    rows = []
    for number, (build, values) in enumerate([*_OF_ONE, *_OF_TWO, *_OF_THREE]):
        name = getattr(build, "__name__", "")
        rows.append(pytest.param(build, values, id=f"{number}-{name}".replace("<lambda>", "order")))
    return rows


@pytest.mark.parametrize("evaluator", ["reference", "native"])
@pytest.mark.parametrize(("build", "values"), _rows())
def test_the_value_is(build: Any, values: dict[Any, float], evaluator: str) -> None:
    arguments = [key if isinstance(key, tuple) else (key,) for key in values]
    expected = [*values.values()]
    if len(arguments[0]) == 1:
        arguments, expected = [*arguments, (NAN,)], [*expected, NAN]
    columns = [np.array(column, np.float64) for column in zip(*arguments, strict=True)]
    xs = [sg.placeholder(c.shape, "float64") for c in columns]
    (found,) = EVALUATORS[evaluator](Graph(build(*xs), xs), columns)
    np.testing.assert_allclose(found, expected, rtol=2e-14, atol=1e-300)


def _gradients(*rows: tuple[Any, ...]) -> list[list[float]]:
    """Return the gradients of some functions at some arguments, in one program."""
    given: dict[sg.Tensor, np.float64] = {}
    wanted = []
    for build, *values in rows:
        xs = [sg.placeholder((), "float64") for _ in values]
        given.update(zip(xs, map(np.float64, values), strict=True))
        wanted.append(sg.gradients(build(*xs), xs))
    step = sg.compile([*given], [g for row in wanted for g in row], opt_level=0)
    found = iter(step(*given.values()))
    return [[float(next(found)) for _ in row] for row in wanted]


def test_gradients_at_zero_are_those_that_are_stated() -> None:
    assert _gradients(
        (sg.special.xlogy, 0.0, 0.0),
        (sg.special.xlog1py, 0.0, -1.0),
        (sg.special.xlogy, 2.0, 4.0),
        (sg.special.entr, 0.0),
        (sg.special.i1e, 0.0),
        (sg.special.gammainc, 2.0, 0.0),
    ) == [[0, 0], [0, 0], [np.log(4.0), 0.5], [0], [0.5], [0, 0]]


def test_the_gradient_of_log_ndtr_is_exact_in_the_tail() -> None:
    # the density over ndtr, by its asymptotic series
    x = -1e5
    step = sg.special.log_ndtr
    ((found,), _) = _gradients((step, x), (step, 0.0))
    np.testing.assert_allclose(found, -x * (1 + 1 / x**2), rtol=1e-15)


def test_what_has_no_gradient_says_so() -> None:
    x, y = sg.placeholder((), "float64"), sg.placeholder((), "float64")
    with pytest.raises(sg.NoGradientError, match="zeta has no derivative by its exponent"):
        sg.gradients(sg.special.zeta(x, y), x)
    slope = sg.gradients(sg.special.gammainc(x, y), x)[0]
    with pytest.raises(sg.NoGradientError, match="second derivative"):
        sg.gradients(slope, x)
    assert sg.gradients(slope, y)[0] is not None
    with pytest.raises(sg.NoGradientError, match="second derivative"):
        sg.gradients(sg.gradients(sg.special.betainc(x, x, 0.5), x)[0], x)
    with pytest.raises(sg.NoGradientError, match="second derivative"):
        sg.gradients(incomplete_gamma.gammainc_derivative(x, y), x)


def test_an_order_that_is_no_int_is_refused_at_the_users_line() -> None:
    x = sg.placeholder((3,))
    wrong: Any = 1.5
    for order, error, text in (
        (wrong, sg.DTypeError, "polygamma: n must be an int, it is 1.5"),
        (-1, sg.GraphError, "polygamma: n is -1, it must not be negative"),
    ):
        with pytest.raises(error, match=text) as caught:
            sg.special.polygamma(order, x)
        assert caught.value.source is not None
        assert caught.value.source.file == __file__


def test_operands_that_do_not_broadcast_are_named() -> None:
    x, y = sg.placeholder((3,)), sg.placeholder((4,))
    with pytest.raises(sg.ShapeError, match=r"betainc: .* 3 in axis -1 of a"):
        sg.special.betainc(x, y, 0.5)


def test_integers_become_float32_and_names_are_one() -> None:
    assert sg.special.gammaln(sg.constant([1, 2])).dtype == sg.float32
    assert sg.special.gammainc(2, 3).dtype == sg.float32
    assert sg.digamma is sg.special.digamma
    assert sg.erfc is sg.special.erfc
    assert sg.erfinv is sg.special.erfinv
    assert sg.erf is sg.special.erf
    assert sg.run(sg.lgamma(4.0)) == sg.run(sg.special.gammaln(4.0))


def test_ops_map_over_containers() -> None:
    found: Any = sg.special.gammaln(sg.Container(a=sg.constant(3.0), b=sg.constant(4.0)))
    assert isinstance(found, sg.Container)
    assert sg.run(found.b) == sg.run(sg.special.gammaln(4.0))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_logsumexp_weighs_what_it_adds(axis: int | None) -> None:
    x, b = np.array([[1.0, 2.0], [3.0, 800.0]]), np.array([[1.0, 2.0], [3.0, 0.0]])
    found = sg.run(sg.special.logsumexp(sg.constant(x), axis, b))
    with np.errstate(all="ignore"):
        expected = np.log(np.sum(b * np.exp(np.minimum(x, 700)), axis))
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    (slope,) = sg.gradients(sg.special.logsumexp(sg.constant(x), axis, v := sg.constant(b)), v)
    assert np.isfinite(sg.run(slope)).all()


def test_softmax_is_over_all_axes_unless_one_is_named() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(np.sum(sg.run(sg.special.softmax(sg.constant(x)))), 1, rtol=1e-14)
    rows = sg.run(sg.special.softmax(sg.constant(x), axis=1))
    np.testing.assert_allclose(np.sum(rows, 1), [1, 1], rtol=1e-14)


@pytest.mark.parametrize("evaluate", EVALUATORS.values(), ids=EVALUATORS)
def test_erfinv_of_the_least_numbers_is_linear(evaluate):
    x = sg.placeholder((2,), "float64")
    given = np.array([1e-12, -3e-300])
    (found,) = evaluate(Graph(sg.special.erfinv(x), [x]), [given])
    np.testing.assert_allclose(found, given * np.sqrt(np.pi) / 2, rtol=1e-14)


@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-6), ("float64", 2e-15)])
def test_bessel_functions_beyond_the_end_of_their_first_table(dtype, close):
    x = sg.placeholder((4,), dtype)
    points = np.array([8.5, -20.0, 300.0, 2000.0])
    with mpmath.workdps(40):
        order = [
            [float(mpmath.besseli(n, v) * mpmath.exp(-abs(v))) for v in points] for n in (0, 1)
        ]
    graph = Graph([sg.special.i0e(x), sg.special.i1e(x)], [x])
    for evaluate in (evaluate_reference, evaluate_loops):
        found = evaluate(graph, [points.astype(dtype)])
        np.testing.assert_allclose(found, order, rtol=close)


@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-6), ("float64", 3e-15)])
def test_gammaln_and_digamma_where_their_series_begins(dtype, close):
    x = sg.placeholder((7,), dtype)
    points = np.array([0.75, 2.625, 3.0, 3.25, 5.5, 7.0, 40.0])
    wanted = [[float(f(v)) for v in points] for f in (mpmath.loggamma, mpmath.digamma)]
    graph = Graph([sg.special.gammaln(x), sg.special.digamma(x)], [x])
    np.testing.assert_allclose(evaluate_loops(graph, [points.astype(dtype)]), wanted, rtol=close)


@pytest.mark.parametrize(("dtype", "close"), [("float32", 2e-6), ("float64", 1e-13)])
def test_incomplete_functions_by_quadrature(dtype, close):
    a, b, x, y = (sg.placeholder((3,), dtype) for _ in range(4))
    points = np.array([[12.0, 20.0, 90.0], [15.0, 30.0, 41.0], [0.5, 0.375, 0.75], [9.0, 21.0, 95]])
    with mpmath.workdps(40):
        wanted = [
            [float(mpmath.betainc(p, q, 0, v, regularized=True)) for p, q, v, _ in points.T],
            [float(mpmath.gammainc(p, 0, v, regularized=True)) for p, _, _, v in points.T],
        ]
    graph = Graph([sg.special.betainc(a, b, x), sg.special.gammainc(a, y)], [a, b, x, y])
    found = evaluate_loops(graph, list(points.astype(dtype)))
    np.testing.assert_allclose(found, wanted, rtol=close)


@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-6), ("float64", 2e-15)])
def test_quantiles_near_and_far_from_the_middle(dtype, close):
    x = sg.placeholder((6,), dtype)
    points = np.array([0.3125, 0.625, 0.875, 0.984375, 2.0**-10, 2.0**-40])
    with mpmath.workdps(40):
        wanted = [float(mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p) - 1)) for p in points]
    (found,) = evaluate_loops(Graph(sg.special.ndtri(x), [x]), [points.astype(dtype)])
    np.testing.assert_allclose(found, wanted, rtol=close)


@by_each_parameter
def test_slopes_of_betainc_by_its_parameters_are_its_derivatives(parameter):
    given = [sg.placeholder((3,), "float64") for _ in range(3)]
    graph = Graph(sg.gradients(sg.sum(sg.special.betainc(*given)), [given[parameter]]), given)
    points = np.array([[0.7, 2.0, 5.5], [1.5, 0.6, 3.0], [0.2, 0.5, 0.9]])

    def slope(*point: float) -> float:
        def along(value: Any) -> Any:
            a, b = [value if i == parameter else p for i, p in enumerate(point[:2])]
            return mpmath.betainc(a, b, 0, point[2], regularized=True)

        return float(mpmath.diff(along, point[parameter]))

    with mpmath.workdps(40):
        wanted = [slope(*point) for point in points.T.tolist()]
    for evaluate in (evaluate_reference, evaluate_loops):
        (found,) = evaluate(graph, list(points))
        np.testing.assert_allclose(found, wanted, rtol=2e-12)


@by_each_parameter
def test_second_derivatives_of_betainc_by_a_parameter_and_x_do_not_depend_on_their_order(parameter):
    given = [sg.placeholder((3,), "float64") for _ in range(3)]
    total = sg.sum(sg.special.betainc(*given))
    by_parameter, by_x = sg.gradients(total, [given[parameter], given[2]])
    (one,) = sg.gradients(sg.sum(by_parameter), given[2:])
    (other,) = sg.gradients(sg.sum(by_x), [given[parameter]])
    points = np.array([0.7, 2.0, 5.5]), np.array([1.5, 0.6, 3.0]), np.array([0.2, 0.5, 0.9])
    found, wanted = sg.compile(given, [one, other], opt_level=1)(*points)
    assert np.abs(found).min() > 1e-3
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_product_with_a_finite_logarithm_has_its_gradient_at_0_too() -> None:
    found = _gradients(
        (sg.special.xlogy, 0.0, 2.0),
        (sg.special.xlog1py, 0.0, 2.0),
        (sg.special.xlogy, 0.0, -1.0),
        (sg.special.xlogy, 0.0, math.inf),
        (sg.special.xlog1py, 0.0, -3.0),
    )
    wanted = [[np.log(2.0), 0], [np.log(3.0), 0], [0, 0], [0, 0], [0, 0]]
    np.testing.assert_allclose(found, wanted, rtol=1e-15)
    x = sg.placeholder((), "float64")
    (slope,) = sg.gradients(sg.special.xlog1py(x, x), x)
    assert sg.run(sg.gradients(slope, x), {x: np.float64(0.0)}) == [2.0]


def test_second_derivatives_where_there_is_a_limit() -> None:
    points: list[tuple[Any, float, float]] = [
        (sg.special.i1e, math.inf, 0),
        (sg.special.i1e, -1e308, 0),
        (sg.cbrt, math.inf, 0),
        (sg.cbrt, 0.0, -math.inf),
        (sg.cbrt, -0.0, math.inf),
        (sg.acosh, 1.0, -math.inf),
        (sg.acosh, math.inf, 0),
        (sg.asin, 1.0, math.inf),
    ]
    x = sg.placeholder((), "float64")
    for build, point, wanted in points:
        (second,) = sg.gradients(sg.gradients(build(x), x), x)
        assert float(sg.run(second, {x: np.float64(point)})) == wanted, (build, point)
