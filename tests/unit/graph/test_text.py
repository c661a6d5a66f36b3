"""Graphs as text: what is printed, that it reads back as the same graph, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.errors import GraphError
from symgrad.graph import dtypes
from symgrad.graph.build import gradient_keys, name_scope
from symgrad.graph.compare import structurally_equal
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import Variable, constant_node, placeholder, variable_node
from symgrad.graph.operands import constant
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import reduce_sum, reshape
from symgrad.graph.ops.transcendental import tanh
from symgrad.graph.sizes import at_least, at_most, divide, unknown
from symgrad.graph.text.print import print_graph
from symgrad.graph.types import ArrayLiteral, State, TensorType
from tests.support.test_ops import sink, source


def _round_trip(graph: Graph) -> str:
    """Return the text of `graph`, having checked that it reads back as the same graph."""
    text = print_graph(graph)
    again = Graph.parse(text)
    assert structurally_equal(graph, again)
    assert print_graph(again) == text
    return text


def _body(graph: Graph) -> list[str]:
    return [line.strip() for line in _round_trip(graph).splitlines()[1:-1]]


def _variable(array: object, name: str = "w", *, trainable: bool = True) -> Variable:
    return variable_node(State(np.asarray(array), name=name, trainable=trainable), name)


def test_a_graph_prints_one_line_a_node():
    x = placeholder((2, "n"), name="x")
    w = _variable(np.ones(2, np.float32))
    loss = reduce_sum(tanh(x), (0, 1))
    new = reshape(constant([[1.0, 0.1]]), (2,))
    graph = Graph([loss], [x], [Update(w, new)], name="loss")
    assert str(graph) == (
        "graph @loss(%x: f32[2, n]) -> f32[] {\n"
        "  %0 = tanh %x : f32[2, n]\n"
        "  %1 = sum %0 {axes = [0, 1]} : f32[]\n"
        "  %2 = constant {value = [[1.0, 0.1]]} : f32[1, 2]\n"
        "  %3 = reshape %2 {shape = [2]} : f32[2]\n"
        '  %w = variable {name = "w", trainable = true} : f32[2]\n'
        "  update %w = %3\n"
        "  return %1\n"
        "}\n"
    )
    _round_trip(graph)


def test_names_are_kept_where_legal_and_made_unique():
    names = ["x", "x", "x_1", "my x", "7", None, "a/b.c-d", "größe"]
    tensors = [placeholder((), name=name) for name in names]
    header = _round_trip(Graph([], tensors)).splitlines()[0]
    found = [argument.split(":")[0] for argument in header.split("(")[1].split(", ")]
    assert found == ["%x", "%x_1", "%x_1_1", "%0", "%1", "%2", "%a/b.c-d", "%größe"]


def test_scopes_are_part_of_a_name():
    with name_scope("model"), name_scope("layer"):
        x = placeholder((), name="x")
    assert "(%model/layer/x: f32[])" in _round_trip(Graph(x))


def test_several_results_share_the_name_of_their_node():
    f32 = TensorType(dtypes.float32, (2,))
    first = source(f32, f32, name="x")
    taken = source(f32, name="x.0")
    again = source(f32, f32, name="x")
    unnamed = source(f32, f32)
    lines = _body(Graph(sink([*first, *taken, *again, *unnamed])))
    assert [line.split(" = ")[0] for line in lines[:4]] == [
        "%x.0, %x.1",
        "%x.0_1",
        "%x_1.0, %x_1.1",
        "%0, %1",
    ]


def test_numbers_follow_the_print_order():
    x = placeholder((1,))
    late = tanh(x)
    early = tanh(tanh(x))
    assert _body(Graph([early, late])) == [
        "%1 = tanh %0 : f32[1]",
        "%2 = tanh %1 : f32[1]",
        "%3 = tanh %0 : f32[1]",
        "return %2, %3",
    ]


def test_equal_graphs_print_equal_text_whatever_was_built_before():
    def build() -> Graph:
        x, y = placeholder((None, None)), placeholder((None, "n"))
        return Graph([reshape(x, (-1,)), concat([y, y])])

    first = build()
    [unknown() for _ in range(2000)]  # what follows counts on from here
    assert str(first) == str(build())
    assert "f32[?0, ?1]" in _round_trip(first)


def test_sizes_without_a_name_keep_their_order_when_they_share_a_polynomial():
    sizes = [unknown() for _ in range(12)]
    total = 2 * sizes[11] + sizes[0] * sizes[7] - 3
    text = _round_trip(Graph([], [placeholder((total,)), placeholder((sizes[11] + sizes[7],))]))
    assert "(%0: f32[?0*?1+2*?2-3], %1: f32[?1+?2])" in text


def test_sizes_print_as_they_are_read():
    n, m = unknown("n"), unknown("m")
    sizes = (
        -n + 1,
        2 * n * m - m,
        divide(n + 1, 2) * 3,
        divide(n, m + 1),
        at_least(n - m, 0) + at_most(n, divide(m, 2)),
    )
    lines = _body(Graph(sink(source(TensorType(dtypes.int8, sizes)))))
    assert "i8[-n+1, 2*m*n-m, 3*floordiv(n+1, 2), floordiv(n, m+1), " in lines[0]
    assert lines[0].endswith("max(-m+n, 0)+min(n, floordiv(m, 2))]")


@pytest.mark.parametrize("name", ["batch size", "f32", "none", "max", "floordiv", "2n", "a.b", '"'])
def test_a_size_with_the_name_of_something_else_is_quoted(name):
    x = placeholder((name, 3))
    text = _round_trip(Graph([reshape(x, (-1,))], [x]))
    assert 'dim"' in text


_TAGS = [
    (True, "true"),
    (False, "false"),
    (1, "1"),
    (-3, "-3"),
    (1.0, "1.0"),
    (-0.0, "-0.0"),
    (0.1, "0.1"),
    (1e300, "1e+300"),
    (-5e-324, "-5e-324"),
    (float("inf"), "inf"),
    (float("-inf"), "-inf"),
    (float("nan"), "nan"),
    ("", '""'),
    ('a "b"\n// c\\', r'"a \"b\"\n// c\\"'),
    (dtypes.bfloat16, "bf16"),
    (dtypes.bool_, "bool"),
    ((), "[]"),
    ((1, (2.0, (None, "n"))), '[1, [2.0, [none, "n"]]]'),
    (unknown("n") - 1, "n-1"),
    (-1 * unknown("n") - unknown("m"), "-m-n"),
    (2 - unknown("n"), "-n+2"),
    (ArrayLiteral(np.array([1, 2], np.int8)), "literal i8[2] [1, 2]"),
    ((ArrayLiteral(np.array(0.5)),), "[literal f64[] 0.5]"),
]


@pytest.mark.parametrize(("tag", "text"), _TAGS, ids=[text for _, text in _TAGS])
def test_an_attribute_prints_and_reads_back(tag, text):
    graph = Graph(sink([], tag, name="s"))
    assert _body(graph)[0] == f"%s = test.sink {{tag = {text}}} : bool[]"


_NAN_WITH_PAYLOAD = np.array([0x7FC00001], np.uint32).view(np.float32)
_ARRAYS = [
    np.array(0.1, np.float32),
    np.array([[1.5, -0.0], [np.inf, np.nan]]),
    np.array([1 / 3, 1e-45, 3.4028235e38], np.float32),
    np.array([1 / 3, 6e-8, 65504, -np.inf], np.float16),
    np.array([1 / 3, 1e-40, 3e38], np.float64).astype(dtypes.bfloat16.numpy),
    np.array([2**64 - 1, 0], np.uint64),
    np.array([-(2**63)], np.int64),
    np.array([True, False]),
    np.zeros((2, 0), np.float32),
    np.zeros((0, 3), np.int32),
    np.zeros((0,), np.bool_),
    np.arange(17, dtype=np.int8),
    np.arange(30, dtype=np.float64).reshape(5, 6) / 7,
    np.arange(40).astype(dtypes.bfloat16.numpy),
    np.ones((4, 5), np.bool_),
    _NAN_WITH_PAYLOAD,
    -np.array([np.nan]),
]


@pytest.mark.parametrize("array", _ARRAYS, ids=[f"{a.dtype.name}{a.shape}" for a in _ARRAYS])
def test_a_constant_keeps_every_bit(array):
    text = _round_trip(Graph(constant_node(ArrayLiteral(array))))
    parsed = Graph.parse(text).outputs[0].node.attrs["value"]
    assert isinstance(parsed, ArrayLiteral)
    assert parsed.array.dtype == array.dtype
    assert parsed.array.shape == array.shape
    assert parsed.array.tobytes() == array.tobytes()


def test_constants_print_their_elements_up_to_sixteen():
    small, large = np.arange(16, dtype=np.int8), np.arange(17, dtype=np.int8)
    assert "value = [0, 1, 2," in print_graph(Graph(constant(small)))
    assert 'value = bytes"' in print_graph(Graph(constant(large)))


def test_elided_values_are_for_reading_only():
    graph = Graph([constant(np.ones((784, 10), np.float32)), constant(2.0)])
    text = print_graph(graph, elide=16)
    assert "{value = <elided 784x10>} : f32[784, 10]" in text
    assert "{value = 2.0} : f32[]" in text
    assert "value = <elided scalar>" in print_graph(graph, elide=0)
    with pytest.raises(GraphError, match="line 2: expected a value; one that was elided"):
        Graph.parse(text)


def test_locations_end_the_lines_and_are_read_back():
    x = placeholder((), name="x")
    graph = Graph(tanh(x))
    text = print_graph(graph, locations=True)
    place = graph.outputs[0].node.source
    assert place is not None
    assert f"%0 = tanh %x : f32[]  // test_text.py:{place.line}\n" in text
    parsed = Graph.parse(text)
    assert str(parsed.outputs[0].node.source) == f"test_text.py:{place.line}"
    assert print_graph(parsed, locations=True) == text


def test_a_parsed_node_without_a_location_points_at_the_text():
    graph = Graph.parse(print_graph(Graph(tanh(placeholder(())))))
    assert str(graph.outputs[0].node.source) == "<graph text>:2"


def test_a_parsed_variable_starts_at_zero_and_keeps_the_rest():
    w = _variable(np.array([3, 4], np.int16), "layer/w", trainable=False)
    parsed = Graph.parse(print_graph(Graph(w))).variables[0]
    assert parsed.state.array.tolist() == [0, 0]
    assert (parsed.state.name, parsed.name, parsed.trainable) == ("layer/w", "layer/w", False)
    assert parsed.dtype == dtypes.int16


def test_states_of_one_name_stay_apart_and_one_state_stays_one():
    shared = State(np.zeros(2), name="w", trainable=True)
    first, second = variable_node(shared, "a"), variable_node(shared, "b")
    other = _variable(np.zeros(2), "w")
    text = _round_trip(Graph([first, second, other]))
    assert text.count('name = "w",') == 2
    assert text.count('name = "w_1",') == 1
    assert len(Graph.parse(text).variables) == 2


def test_the_gradient_a_node_was_given_is_printed():
    x = placeholder((), name="x")
    with gradient_keys({"tanh": 'my "tanh"'}):
        y = tanh(x)
    assert _body(Graph(y))[0] == r'%0 = tanh %x : f32[] gradient "my \"tanh\""'


def test_a_graph_may_be_called_anything_and_give_nothing():
    assert _round_trip(Graph([], name="two words")) == 'graph @"two words"() -> () {\n  return\n}\n'


def test_an_unused_input_stays_an_input():
    x, y = placeholder((), name="x"), placeholder((), name="y")
    assert "graph @graph(%y: f32[], %x: f32[]) -> f32[] {" in _round_trip(Graph(x, [y, x]))


def test_people_may_leave_out_line_breaks_and_write_comments():
    text = (
        "graph @f ( %x : f32 [ 2 ] ) -> f32[2] { // a comment: 3\n%y = tanh %x : f32[2] return %y}"
    )
    assert print_graph(Graph.parse(text)) == (
        "graph @f(%x: f32[2]) -> f32[2] {\n  %y = tanh %x : f32[2]\n  return %y\n}\n"
    )


def test_nodes_that_nothing_uses_may_be_written_and_are_dropped():
    body = "%y = tanh %x : f32[]\n return %x"
    assert "tanh" not in print_graph(Graph.parse(f"graph @f(%x: f32[]) -> f32[] {{ {body} }}"))


def _graph_text(*lines: str, arguments: str = "%x: f32[2]", results: str = "f32[2]") -> str:
    return "\n".join([f"graph @f({arguments}) -> {results} {{", *lines, "}"])


_WRONG = [
    ("", "line 1: expected 'graph', found the end of the text"),
    ("graph f() -> () { return }", "line 1: expected a name such as @graph, found 'f'"),
    (_graph_text("return %y"), "line 2: %y is used before it is defined"),
    (_graph_text("return %x") + "\nagain", "line 4: expected the end of the text, found 'again'"),
    (_graph_text("return %x, %x"), "return gives f32[2], f32[2], the text says f32[2]"),
    (_graph_text("%y = tangent %x : f32[2]", "return %y"), "line 2: there is no op 'tangent'"),
    (_graph_text("%y = placeholder : f32[2]", "return %y"), "there is no op 'placeholder'"),
    (_graph_text("%y = sum %x, %x {axes = []} : f32[2]"), "sum: too many positional arguments"),
    (_graph_text("%y = tanh %x {a = 1} : f32[2]"), "tanh: got an unexpected keyword argument 'a'"),
    (_graph_text("%y = sum %x : f32[]"), "sum: missing a required argument: 'axes'"),
    (_graph_text("%y = sum %x {axes = 0} : f32[]"), "sum: axes is not a list of which each"),
    (_graph_text("%y = sum %x {axes = [0], axes = [0]} : f32[]"), "attribute axes is given twice"),
    (_graph_text("%y = sum %x {axes = [0]} : f32[2]"), "sum gives f32[], the text says f32[2]"),
    (_graph_text("%y, %z = tanh %x : f32[2]"), "tanh has 2 results and 1 types"),
    (_graph_text("%x = tanh %x : f32[2]"), "line 2: %x is defined twice"),
    (_graph_text("%y = tanh %x f32[2]"), "line 2: expected ':', found 'f32'"),
    (_graph_text("%y = tanh %x : f31[2]"), "line 2: 'f31' is no dtype"),
    (_graph_text("%y = tanh %x : f32[2.0]"), "line 2: expected a size, found '2.0'"),
    (_graph_text("%y = tanh %x : f32[true]"), "line 2: 'true' is no size"),
    (_graph_text("%y = tanh %x : f32[floordiv(n, 0)]"), "line 2: a size is divided by 0"),
    (_graph_text("%y = tanh $ : f32[2]"), "line 2: expected ':', found '$'"),
    (_graph_text("update %x = %x", "return %x"), "is updated and is no variable"),
    (_graph_text("%c = constant {value = [1.0]} : f32[2]"), "have not the shape of f32[2]"),
    (_graph_text("%c = constant {value = [1.0]} : i32[1]"), "1.0 is no element of i32[1]"),
    (_graph_text("%c = constant {value = [true]} : i32[1]"), "True is no element of i32[1]"),
    (_graph_text("%c = constant {value = 300} : u8[]"), "an element does not fit u8"),
    (_graph_text("%c = constant {value = 1.0} : f32[n]"), "a constant has no type f32[n]"),
    (_graph_text('%c = constant {value = bytes"?"} : u8[1]'), "bytes are no base64"),
    (_graph_text('%c = constant {value = bytes"AAAA"} : u8[1]'), "bytes cannot be expanded"),
    (_graph_text('%c = sum %x {axes = bytes"AAAA"} : u8[1]'), "line 2: bytes without a type"),
    (_graph_text(r'%c = test.sink {tag = "\q"} : bool[]'), "is no string"),
    (_graph_text('%w = variable {name = "w"} : f32[]'), "has name, trainable and known sizes"),
    (_graph_text(f"%s = test.sink {{tag = {'[' * 100}"), "brackets nest more than 60 deep"),
    (_graph_text(f"%s = test.sink : f32[{'(' * 100}"), "brackets nest more than 60 deep"),
    (_graph_text(f"%s = test.sink : f32[{'9' * 5000}]"), "is too large"),
]


@pytest.mark.parametrize(("text", "problem"), _WRONG, ids=[problem for _, problem in _WRONG])
def test_text_that_is_no_graph_is_refused_with_its_line(text, problem):
    with pytest.raises(GraphError) as caught:
        Graph.parse(text)
    assert str(caught.value).startswith("graph text: line ")
    assert problem in str(caught.value)


def test_bytes_that_expand_beyond_the_type_are_refused():
    text = print_graph(Graph(constant(np.zeros(10**6, np.uint8)))).replace("1000000", "100")
    with pytest.raises(GraphError, match=r"the bytes are not the 100 of u8\[100\]"):
        Graph.parse(text)


def test_bytes_that_are_no_bools_are_refused():
    text = print_graph(Graph(constant(np.full(20, 2, np.uint8)))).replace("u8", "bool")
    with pytest.raises(GraphError, match="the bytes are not those of bool"):
        Graph.parse(text)


def test_the_error_of_a_rule_names_the_line_of_the_text():
    text = _graph_text("%y = reshape %x {shape = [3]} : f32[3]", "return %y", results="f32[3]")
    with pytest.raises(GraphError, match="line 2: reshape: 2 elements of x"):
        Graph.parse(text)


def test_an_update_of_another_type_is_refused_with_its_line():
    lines = ('%w = variable {name = "w", trainable = true} : f32[3]', "update %w = %x")
    with pytest.raises(GraphError, match=r"line 3: update of w: f32\[2\] given to a variable"):
        Graph.parse(_graph_text(*lines, "return %x"))
