"""The driver of the rules: order, names, limits, and products that are not computed twice."""

from __future__ import annotations

import pytest

from symgrad.graph import dtypes
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, divide, multiply, negative, negative_op, subtract
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.conversion import identity
from symgrad.graph.ops.elementwise import uniform_value
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reduce_sum, reshape
from symgrad.graph.ops.transcendental import exp, pow, sqrt
from symgrad.passes.rewrites.equations import rule
from symgrad.passes.rewrites.rewrite import Rewrites
from symgrad.passes.rewrites.rules import Holds, RewriteRule, RuleTable, apply_rules
from symgrad.passes.rewrites.simplify import simplify


@pytest.fixture
def x() -> Tensor:
    return placeholder((4,), name="x")


@pytest.fixture
def y() -> Tensor:
    return placeholder((4,), name="y")


def simplified(*outputs: Tensor, fast_math: bool = False) -> Graph:
    return simplify(Graph(outputs), Rewrites(fast_math=fast_math))


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.op != "placeholder"]


def test_operands_of_a_commutative_op_match_in_either_order(x, y):
    for sum_ in (add(negative(x), y), add(y, negative(x))):
        node = simplified(sum_).outputs[0].node
        assert node.op == "subtract"
        assert [t.name for t in node.inputs] == ["y", "x"]


def test_operands_of_other_ops_match_as_they_stand(x):
    assert ops(simplified(divide(1.0, x))) == ["constant", "broadcast_to", "divide"]
    assert ops(simplified(subtract(1.0, x))) == ["constant", "broadcast_to", "subtract"]


def test_one_variable_stands_for_one_tensor(x, y):
    assert simplified(maximum(x, x)).outputs[0] is x
    assert ops(simplified(maximum(x, y))) == ["maximum"]


def test_a_zero_is_told_from_a_negative_zero(x):
    assert ops(simplified(add(x, -0.0))) == []
    assert "add" in ops(simplified(add(x, 0.0)))
    assert ops(simplified(add(x, 0.0), fast_math=True)) == []


def test_rules_for_integers_leave_floats_alone():
    i, f = placeholder((4,), "int32"), placeholder((4,), "float32")
    assert "subtract" not in ops(simplified(subtract(i, i)))
    assert "subtract" in ops(simplified(subtract(f, f)))


def test_a_result_is_simplified_in_turn(x, y):
    # -(-x) * y + -(-0 - y): every step makes the next one possible
    total = add(multiply(negative(negative(x)), y), negative(subtract(-0.0, y)))
    assert ops(simplified(total)) == ["multiply", "add"]


def test_what_is_used_elsewhere_stays(x, y):
    inner = negative(x)
    assert ops(simplified(add(y, inner), inner)) == ["subtract", "negative"]


def test_a_reduction_is_not_computed_twice():
    x = placeholder((3, 4))
    rows = reduce_sum(x, (1,))
    total = reduce_sum(rows, (0,))
    assert ops(simplified(total)) == ["sum"]
    assert ops(simplified(total, exp(rows))) == ["sum", "sum", "exp"]


def test_a_product_that_is_a_result_is_not_computed_twice():
    product = matmul(placeholder((3, 4)), placeholder((4, 5)))
    turned = permute_dims(product, (1, 0))
    assert ops(simplified(turned)) == ["einsum"]
    assert ops(simplified(turned, product)) == ["einsum", "permute_dims"]


def test_the_name_of_a_result_goes_to_what_is_new_in_its_place(x):
    text = "graph @f(%x: f32[4], %y: f32[4]) -> f32[4] {{\n  %0 = negative %y : f32[4]\n{}}}\n"
    body = "  %difference = add %x, %0 : f32[4]\n  return %difference\n"
    named = simplify(Graph.parse(text.format(body)), Rewrites())
    assert named.outputs[0].name == "difference"
    assert simplified(identity(x, name="again")).outputs[0] is x


def test_what_a_rule_builds_points_at_the_line_of_what_it_replaces(x, y):
    total = add(x, negative(y))
    (found,) = simplified(total).outputs
    assert found.node.source == total.node.source
    assert found.node.origin is total.node


def test_no_rewrite_is_made_beyond_the_limit(x):
    tower = negative(negative(negative(negative(x))))
    for limit in range(3):
        rewrites = Rewrites(limit=limit)
        assert ops(simplify(Graph(tower), rewrites)).count("negative") == 4 - 2 * limit
        assert rewrites.count == limit


def test_rules_that_undo_each_other_are_found_out(x, y):
    table = RuleTable(
        [
            rule(lambda x, y: (add(x, y), subtract(x, negative(y))), Holds.BITWISE),
            rule(lambda x, y: (subtract(x, negative(y)), add(x, y)), Holds.BITWISE),
        ]
    )
    with pytest.raises(AssertionError, match="rules go in circles: "):
        apply_rules(Graph(add(x, y)), table, Rewrites())


def test_a_node_to_which_no_rule_applies_is_not_asked_about_again(x, y):
    asked: list[Node] = []
    never = RewriteRule("never", None, Holds.BITWISE, asked.append, lambda _: [])
    table, rewrites, graph = RuleTable([never]), Rewrites(), Graph(add(negative(x), y))
    for _ in range(2):
        assert apply_rules(graph, table, rewrites) is graph
    assert len(asked) == len(graph.nodes)
    other = Graph(multiply(graph.outputs[0], x))
    assert apply_rules(other, table, rewrites) is other
    assert [node.op for node in asked[len(graph.nodes) :]] == ["multiply"]


def test_a_rule_that_another_use_was_in_the_way_of_is_asked_again(x):
    def dropped(node: Node) -> Tensor | None:
        below = node.inputs[0].node
        return below.inputs[0] if below.op == "negative" else None

    drop = RewriteRule(
        "drop", (negative_op,), Holds.BITWISE, dropped, lambda _: [], needs_sole_use=True
    )
    table, rewrites, inner = RuleTable([drop]), Rewrites(), negative(x)
    both = Graph([negative(inner), inner])
    assert apply_rules(both, table, rewrites) is both
    assert apply_rules(Graph(both.outputs[0]), table, rewrites).outputs[0] is x


def test_a_rule_that_would_change_the_type_does_not_run(x):
    wide = rule(lambda x: (negative(x), broadcast_to(x, (2, *x.shape))), Holds.BITWISE)
    assert ops(apply_rules(Graph(negative(x)), RuleTable([wide]), Rewrites())) == ["negative"]


def test_a_tower_of_ops_is_no_recursion(x):
    tower = x
    for _ in range(2_000):
        tower = negative(tower)
    assert simplified(tower).outputs[0] is x
    for _ in range(1_200):
        tower = sqrt(tower)
    assert ops(simplified(tower)).count("sqrt") == 1_200


def test_the_value_of_a_constant_is_seen_through_views():
    assert uniform_value(broadcast_to(constant(2.5), (3, 4))) == 2.5
    assert uniform_value(reshape(constant([[7]]), (1,))) == 7
    assert uniform_value(constant([2.5, 2.5])) is None
    assert uniform_value(placeholder(())) is None


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float64, dtypes.uint8])
def test_constants_match_in_every_dtype(dtype):
    x = placeholder((4,), dtype)
    assert simplified(multiply(x, 1)).outputs[0] is x


def test_equal_constants_and_their_views_become_one(x, y):
    one, other = (broadcast_to(constant(2.5), (4,)) for _ in range(2))
    graph = simplified(add(multiply(x, one), multiply(y, other)))
    assert ops(graph).count("constant") == ops(graph).count("broadcast_to") == 1


def test_constants_of_other_bits_or_types_stay_apart(x):
    values = [constant(0.0), constant(-0.0), constant(0), constant([0.0])]
    graph = simplified(*values, *(broadcast_to(constant(2.5), (n,)) for n in (3, 4)))
    assert len(set(graph.outputs)) == 6
    assert ops(graph).count("constant") == 5


def test_what_is_not_made_of_a_constant_alone_is_not_merged(x):
    assert ops(simplified(exp(x), exp(x))) == ["exp", "exp"]
    assert ops(simplified(add(x, 2.5), add(x, 2.5))).count("add") == 2


def test_no_constants_become_one_beyond_the_limit():
    graph = simplify(Graph([constant(2.5), constant(2.5), constant(2.5)]), Rewrites(limit=1))
    assert ops(graph) == ["constant", "constant"]


def test_a_program_to_which_no_rule_applies_stays_the_same(x, y):
    graph = Graph(exp(add(x, y)))
    assert simplify(graph, Rewrites()) is graph


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.float32])
def test_three_constants_one_of_which_a_rule_makes_do_not_change_places_for_ever(dtype):
    one = pow(placeholder((4,), dtype), 0)
    graph = Graph([add(add(one, 2), 3), multiply(multiply(one, 2), 3)])
    found = simplify(graph, Rewrites(fast_math=True))
    assert ops(found).count("pow") == 0
