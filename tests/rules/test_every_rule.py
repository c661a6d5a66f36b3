"""Every rewrite rule, evaluated on both sides: ordinary numbers, special ones, integers, bools.

What a rule says of itself (`holds`) decides how the sides are compared. A rule that holds less
widely than it says fails here, and so does one that could say more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from symgrad.graph import dtypes
from symgrad.graph.build import rebuild
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.traverse import topological
from symgrad.graph.types import Array
from symgrad.passes.rewrites.rewrite import Rewrites
from symgrad.passes.rewrites.rules import Holds, RewriteRule, RuleTable, apply_rules
from symgrad.passes.rewrites.simplify import RULES
from tests.support.together import together

DTYPES = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint8, dtypes.bool_)
ORDINARY = 8  # numbers beside the special ones, for each operand


def special_values(dtype: DType) -> Array:
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_integer:
        bounds = np.iinfo(dtype.numpy)
        return np.array([0, 1, 2, 3, 100, bounds.min, bounds.max]).astype(dtype.numpy)
    limits = np.finfo(dtype.numpy)
    tiny = float(limits.smallest_subnormal)
    values = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, tiny, -7 * tiny, limits.tiny, limits.max]
    return np.array(values, dtype.numpy)


def ordinary_values(dtype: DType, count: int) -> Array:
    rng = np.random.default_rng(7)
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(np.bool_)
    low = 0 if dtype.kind == "unsigned" else -50
    whole = rng.integers(low, 50, count)
    return (whole / 10 if dtype.is_float else whole).astype(dtype.numpy)


def widened(left: Tensor, size: int) -> Tensor:
    """Return an elementwise `left` over operands of `size` elements in the place of its own."""
    mapping: dict[Tensor, Tensor] = {}
    for node in topological([left]):
        if node.op == "placeholder":
            mapping[node.output] = placeholder((size,), node.output.dtype, node.name)
            continue
        inputs = tuple(mapping[t] for t in node.inputs)
        new = rebuild(node, inputs, lambda attr: (size,) if attr == left.shape else attr)
        mapping[node.output] = new.output
    return mapping[left]


def operands(inputs: list[Tensor]) -> Iterator[list[Array]]:
    """Yield ordinary values, then special ones if the inputs are vectors: every combination."""
    if not inputs or inputs[0].ndim != 1:
        for seed in range(2):
            yield [
                np.roll(ordinary_values(t.dtype, t.type.count), seed + i).reshape(
                    t.type.static_shape
                )
                for i, t in enumerate(inputs)
            ]
        return
    grids = [
        np.concatenate([special_values(t.dtype), ordinary_values(t.dtype, ORDINARY)])
        for t in inputs
    ]
    columns = zip(*itertools.product(*grids), strict=True)
    yield [np.array(c, t.dtype.numpy) for c, t in zip(columns, inputs, strict=True)]


def combinations(inputs: list[Tensor]) -> int:
    sizes = [len(special_values(t.dtype)) + ORDINARY for t in inputs]
    return int(np.prod(sizes))


def both_sides(rule: RewriteRule, left: Tensor) -> tuple[list[Tensor], Tensor, Tensor] | None:
    """Return the inputs and both sides, None if the right side is of another type."""
    nodes = topological([left])
    inputs = [n.output for n in nodes if n.op == "placeholder"]
    if left.ndim == 1 and inputs and all(t.shape == left.shape for t in inputs):
        left = widened(left, combinations(inputs))
        inputs = [n.output for n in topological([left]) if n.op == "placeholder"]
    right = rule.rewrite(left.node)
    assert right is not None, f"{rule} does not apply to its example {left!r}"
    return None if right.type != left.type else (inputs, left, right)


def sides_of(rule: RewriteRule, dtype: DType) -> list[tuple[list[Tensor], Tensor, Tensor]]:
    pairs = (both_sides(rule, left) for left in rule.examples(dtype))
    return [pair for pair in pairs if pair is not None]


def equal_bits(a: Array, b: Array) -> bool:
    """Return whether `a` and `b` are equal bit for bit; one nan is like another."""
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    same_sign = np.signbit(a) == np.signbit(b)
    return bool(np.all((np.isnan(a) & np.isnan(b)) | ((a == b) & same_sign)))


def close(a: Array, b: Array) -> bool:
    """Return whether `a` and `b` differ in the last bits only; special values must be equal."""
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    limits = np.finfo(a.dtype)
    special = ~np.isfinite(a) | ~np.isfinite(b) | (a == 0) | (b == 0)
    bound = 8 * float(limits.eps) * np.abs(a, where=~special, out=np.ones_like(a))
    near = np.abs(np.subtract(a, b, where=~special, out=np.zeros_like(a)))
    ordinary = near <= bound + 4 * float(limits.smallest_subnormal)
    exact = (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))
    return bool(np.all(np.where(special, exact, ordinary)))


def equal_values(a: Array, b: Array) -> bool:
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def close_over_reals(a: Array, b: Array, inputs: list[Array]) -> bool:
    """Compare where both sides are ordinary numbers, and so are the operands."""
    vectors = [x for x in inputs if x.shape == a.shape and x.dtype.kind == "f"]
    moderate = [(np.abs(x) > 1e-3) & (np.abs(x) < 60) for x in vectors]
    chosen = np.logical_and.reduce([np.isfinite(a), np.isfinite(b), *moderate])
    if a.dtype.kind != "f":
        return bool(chosen.any()) and np.array_equal(a[chosen], b[chosen])
    rtol = 1e3 * float(np.finfo(a.dtype).eps)
    return bool(chosen.any()) and np.allclose(a[chosen], b[chosen], rtol=rtol, atol=rtol)


def agrees(holds: Holds, a: Array, b: Array, inputs: list[Array]) -> bool:
    has_floats = any(x.dtype.kind == "f" for x in (a, *inputs))
    if holds is Holds.REAL or (holds is Holds.INTEGERS and has_floats):
        return close_over_reals(a, b, inputs)
    compare = {Holds.CLOSE: close, Holds.EXCEPT_NEG_ZERO: equal_values}.get(holds, equal_bits)
    return compare(a, b)


def evaluated(rule: RewriteRule, dtype: DType) -> Iterator[tuple[list[Array], Array, Array]]:
    for inputs, left, right in sides_of(rule, dtype):
        for arrays in operands(inputs):
            (a,), _ = evaluate(Graph([left], inputs), arrays)
            (b,), _ = evaluate(Graph([right], inputs), arrays)
            yield arrays, a, b


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@together("rule", RULES.rules)
def test_both_sides_are_equal_where_the_rule_holds(rule, dtype):
    for arrays, a, b in evaluated(rule, dtype):
        differ = [(x, y) for x, y in zip(a.flat, b.flat, strict=True) if x != y][:5]
        assert agrees(rule.holds, a, b, arrays), f"{rule}: {differ}"


@together("rule", RULES.rules)
def test_a_rule_has_an_example_and_is_found_by_the_driver(rule):
    sides = [pair for dtype in DTYPES for pair in sides_of(rule, dtype)]
    assert sides, f"{rule} has no example"
    for inputs, left, right in sides:
        rewrites = Rewrites(fast_math=True)
        simplified = apply_rules(Graph([left], inputs), RuleTable([rule]), rewrites)
        assert rewrites.count >= 1, f"{rule} was not applied to {left!r}"
        assert simplified.outputs[0].type == right.type


@together("rule", [r for r in RULES.rules if r.holds is not Holds.CLOSE])
def test_a_rule_that_could_run_by_itself_says_so(rule):
    if rule.holds is Holds.BITWISE:
        assert rule.holds.permits(is_float=True, fast_math=False)
        return
    pairs = [(a, b) for d in (dtypes.float32, dtypes.float64) for _, a, b in evaluated(rule, d)]
    assert any(not equal_bits(a, b) for a, b in pairs), f"{rule} seems to hold bit for bit"


@together("rule", RULES.rules)
def test_without_fast_math_no_rule_for_the_reals_touches_floats(rule):
    for inputs, left, _right in sides_of(rule, dtypes.float32):
        rewrites = Rewrites()
        apply_rules(Graph([left], inputs), RuleTable([rule]), rewrites)
        may_run = rule.holds in (Holds.BITWISE, Holds.CLOSE)
        assert (rewrites.count > 0) == may_run


def test_equations_are_distinct_and_say_what_they_do():
    texts = [str(rule) for rule in RULES.rules]
    assert len(set(texts)) == len(texts)
    assert "multiply(x, 1) -> x  [bit for bit]" in texts


@together("rule", RULES.rules)
def test_a_rule_may_match_wherever_it_applies(rule):
    examples = [t for dtype in DTYPES for t in rule.examples(dtype)]
    assert all(
        rule.may_match(tuple(t.node.definition for t in left.node.inputs)) for left in examples
    )
    assert examples
