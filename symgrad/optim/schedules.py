"""Learning rate schedules as graph: rates that change as training goes on.

A schedule is a function of the number of updates made before: an int64 scalar in, the rate as a
float64 scalar out. Any function of that kind will do as the `lr` of an optimizer; these are the
usual ones. The count is a slot of the optimizer, `step`, so a schedule goes on where a restored
state left off, and costs the compiled step a few scalar operations.

    lr = sg.optim.schedules.warmup(100, sg.optim.schedules.cosine(0.1, 900))
    updates = sg.optim.Adam(lr).minimize(loss)

Wherever a rate is asked for it may be a scalar tensor, such as a placeholder. All raise
`GraphError` for a number that is negative or, where it is a count, less than 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.frontend.publication import publish as _publish
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.graph.ops.comparison import greater_equal, less, where
from symgrad.graph.ops.extrema import maximum, minimum
from symgrad.graph.ops.transcendental import cos, log
from symgrad.graph.ops.whole_numbers import floor
from symgrad.graph.ops.whole_numbers import round as round_to_even
from symgrad.optim.hyperparameters import (
    Rate,
    Schedule,
    check_count,
    check_positive,
    check_rate,
    rate_at,
)

__all__ = [
    "constant",
    "cosine",
    "cosine_restarts",
    "exponential",
    "linear",
    "piecewise",
    "polynomial",
    "sequence",
    "warmup",
]


def constant(rate: Rate) -> Schedule:
    """Return the schedule that is `rate` at all steps.

    >>> sg.run(sg.optim.schedules.constant(0.1)(sg.constant(7)))
    array(0.1)
    """
    rate = check_rate("schedules.constant", "rate", rate)
    return lambda _step: _exact(rate)


def piecewise(boundaries: Sequence[int], rates: Sequence[Rate]) -> Schedule:
    """Return the schedule that is `rates[0]` until step `boundaries[0]`, from there `rates[1]`, ...

    There is one rate more than boundaries, and the boundaries grow.

    >>> sg.run(sg.optim.schedules.piecewise([10, 20], [1.0, 0.5, 0.1])(sg.constant([0, 10, 25])))
    array([1. , 0.5, 0.1])
    """
    subject = "schedules.piecewise"
    return _joined(
        subject,
        [constant(check_rate(subject, f"rates[{i}]", rate)) for i, rate in enumerate(rates)],
        boundaries,
    )


def exponential(rate: Rate, steps: int, factor: float, staircase: bool = False) -> Schedule:
    """Return the schedule `rate * factor ** (step / steps)`.

    With `staircase` the exponent is rounded down: the rate falls once every `steps` steps.

    >>> sg.run(sg.optim.schedules.exponential(1.0, steps=10, factor=0.5)(sg.constant([0, 10, 20])))
    array([1.  , 0.5 , 0.25])
    """
    subject = "schedules.exponential"
    rate = check_rate(subject, "rate", rate)
    steps = check_count(subject, "steps", steps)
    factor = check_positive(subject, "factor", factor)

    def schedule(step: Tensor) -> Tensor:
        exponent = _exact(step) / steps
        return _exact(rate) * factor ** (floor(exponent) if staircase else exponent)

    return schedule


def polynomial(start: Rate, end: Rate, steps: int, power: float = 1) -> Schedule:
    """Return the schedule that goes from `start` to `end` in `steps` steps and stays there.

    It is `end + (start - end) * (1 - step / steps) ** power`.

    >>> sg.run(sg.optim.schedules.polynomial(1.0, 0.0, steps=4, power=2)(sg.constant([0, 2, 4])))
    array([1.  , 0.25, 0.  ])
    """
    return _polynomial("schedules.polynomial", start, end, steps, power)


def linear(start: Rate, end: Rate, steps: int) -> Schedule:
    """Return the schedule that goes from `start` to `end` in `steps` equal steps and stays.

    >>> sg.run(sg.optim.schedules.linear(1.0, 0.0, steps=4)(sg.constant([0, 1, 4, 9])))
    array([1.  , 0.75, 0.  , 0.  ])
    """
    return _polynomial("schedules.linear", start, end, steps, 1)


def _polynomial(subject: str, start: Rate, end: Rate, steps: int, power: float) -> Schedule:
    start, end = check_rate(subject, "start", start), check_rate(subject, "end", end)
    steps = check_count(subject, "steps", steps)
    power = check_positive(subject, "power", power)

    def schedule(step: Tensor) -> Tensor:
        left = 1 - minimum(_exact(step) / steps, 1)
        share = left if power == 1 else left**power
        return _exact(end) + (_exact(start) - _exact(end)) * share

    return schedule


def cosine(rate: Rate, steps: int, end: Rate = 0.0) -> Schedule:
    """Return the schedule that falls from `rate` to `end` in `steps` steps and stays there.

    It is half a wave, `end + (rate - end) * (1 + cos(pi * step / steps)) / 2`: Loshchilov and
    Hutter, "SGDR" (2017), equation 5.

    >>> sg.run(sg.optim.schedules.cosine(1.0, steps=100)(sg.constant([0, 50, 100, 150])))
    array([1. , 0.5, 0. , 0. ])
    """
    subject = "schedules.cosine"
    rate, end = check_rate(subject, "rate", rate), check_rate(subject, "end", end)
    steps = check_count(subject, "steps", steps)
    return lambda step: _half_wave(rate, end, minimum(_exact(step) / steps, 1))


def cosine_restarts(rate: Rate, steps: int, end: Rate = 0.0, growth: int = 1) -> Schedule:
    """Return the schedule that falls as `cosine` does and begins again, for ever.

    The first fall takes `steps` steps, each later one `growth` times as many as that before: warm
    restarts as in "SGDR", where `growth` is called T_mult.

    >>> sg.run(sg.optim.schedules.cosine_restarts(1.0, steps=10)(sg.constant([0, 5, 10, 15])))
    array([1. , 0.5, 1. , 0.5])
    """
    subject = "schedules.cosine_restarts"
    rate, end = check_rate(subject, "rate", rate), check_rate(subject, "end", end)
    steps = check_count(subject, "steps", steps)
    growth = check_count(subject, "growth", growth)

    def schedule(step: Tensor) -> Tensor:
        time = _exact(step) / steps
        if growth == 1:
            return _half_wave(rate, end, time - floor(time))
        # Fall n begins at time (growth**n - 1) / (growth - 1). The logarithm may be off by a
        # rounding where one begins, the powers of an int are not.
        n = floor(log(1 + time * (growth - 1)) / math.log(growth) + 0.5)
        n = where(less(time, _begin(n, growth)), n - 1, n)
        length = round_to_even(growth**n)
        return _half_wave(rate, end, (time - _begin(n, growth)) / length)

    return schedule


def _begin(n: Tensor, growth: int) -> Tensor:
    return (round_to_even(growth**n) - 1) / (growth - 1)


def _half_wave(rate: Rate, end: Rate, share: Tensor) -> Tensor:
    return _exact(end) + (_exact(rate) - _exact(end)) * (0.5 + 0.5 * cos(math.pi * share))


def warmup(steps: int, then: Rate | Schedule, start: Rate = 0.0) -> Schedule:
    """Return the schedule that rises from `start` in `steps` equal steps to where `then` begins.

    `then` is a rate, or a schedule that counts from the end of the rise.

    >>> schedule = sg.optim.schedules.warmup(10, then=sg.optim.schedules.cosine(1.0, steps=100))
    >>> sg.run([schedule(sg.constant(n)) for n in (0, 5, 10, 110)])
    [array(0.), array(0.5), array(1.), array(0.)]
    """
    subject = "schedules.warmup"
    steps = check_count(subject, "steps", steps)
    start = check_rate(subject, "start", start)
    after = then if callable(then) else constant(check_rate(subject, "then", then))

    def rise(step: Tensor) -> Tensor:
        top = rate_at(subject, after, as_tensor(0, dtypes.int64))
        return _exact(start) + (top - _exact(start)) * (_exact(step) / steps)

    return _joined(subject, [rise, after], [steps])


def sequence(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Return the schedule that is `schedules[0]` until step `boundaries[0]`, then the next, ...

    Each counts from its own boundary. There is one schedule more than boundaries, and the
    boundaries grow.

    >>> parts = [sg.optim.schedules.constant(1.0), sg.optim.schedules.linear(0.5, 0.0, steps=10)]
    >>> sg.run(sg.optim.schedules.sequence(parts, [100])(sg.constant(105)))
    array(0.25)
    """
    for i, schedule in enumerate(schedules):
        if not callable(schedule):
            raise DTypeError(
                "schedules.sequence",
                f"schedules[{i}] is {schedule!r}, not a schedule",
                hint="sg.optim.schedules.constant makes one of a rate",
                source=user_source(),
            )
    return _joined("schedules.sequence", schedules, boundaries)


def _joined(subject: str, schedules: Sequence[Schedule], boundaries: Sequence[Any]) -> Schedule:
    starts = [0, *(check_count(subject, f"boundaries[{i}]", b) for i, b in enumerate(boundaries))]
    if len(schedules) != len(starts):
        raise GraphError(
            subject,
            f"{len(schedules)} pieces were given and {len(boundaries)} boundaries, not one less",
            source=user_source(),
        )
    if any(later <= earlier for earlier, later in pairwise(starts)):
        raise GraphError(subject, f"boundaries {starts[1:]} do not grow", source=user_source())
    pieces = list(zip(schedules, starts, strict=True))

    def schedule(step: Tensor) -> Tensor:
        step = as_tensor(step)
        rate = rate_at(subject, pieces[0][0], step)
        for piece, begin in pieces[1:]:
            # Before its time a piece is computed, at 0, and not taken.
            later = rate_at(subject, piece, maximum(step - begin, 0))
            rate = where(greater_equal(step, begin), later, rate)
        return rate

    return schedule


def _exact(value: Rate) -> Tensor:
    """Return a count or a rate in float64."""
    return cast(as_tensor(value, dtypes.float64), dtypes.float64)


_publish(globals(), prefix="schedules.")
