"""Immutable dataflow graph: what a program takes, gives and updates."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, SupportsIndex

from symgrad.errors import DTypeError, GraphError, ShapeError, SymgradError, shortened, user_source
from symgrad.graph.build import are_same, rebuild, substitute_sizes
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.late_binding import provided
from symgrad.graph.leaf import Variable, placeholder_op, variable_op
from symgrad.graph.node import Node, Region, Tensor
from symgrad.graph.sizes import Dim, unknowns_of
from symgrad.graph.traverse import topological
from symgrad.graph.types import Array, Attr, NestedGraph, PythonFunction
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """`variable` takes `value` when a step has been computed; all updates happen at once.

    >>> w = sg.variable(1.0, name="w")
    >>> step = sg.compile([], w, [sg.Update(w, w + 1)])
    >>> step(), step(), w.value
    (array(1., dtype=float32), array(2., dtype=float32), array(3., dtype=float32))
    """

    variable: Variable
    value: Tensor

    def __post_init__(self) -> None:
        _require_instance("variable", self.variable, Variable)
        _require_instance("value", self.value, Tensor)
        want, given = self.variable.type, self.value.type
        if want == given:
            return
        subject = f"update of {self.variable.name or 'a variable'}"
        if want.dtype != given.dtype:
            raise DTypeError(subject, f"{given} given to a variable {want}", source=user_source())
        known = [
            (m, n)
            for m, n in zip(want.shape, given.shape, strict=False)
            if isinstance(m, int) and isinstance(n, int)
        ]
        if want.ndim != given.ndim or any(m != n for m, n in known):
            raise ShapeError(subject, f"{given} given to a variable {want}", source=user_source())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Graph(NestedGraph):
    """A program over tensors.

    `inputs` are placeholders, in the order in which they are given; `nodes` is everything the
    outputs and updates depend on, each node after its operands. `derived` is for whoever makes
    other graphs of this one, such as its gradient, and wants to make each only once.

    >>> x = sg.placeholder((2,), name="x")
    >>> str(sg.Graph(sg.tanh(x))).splitlines()
    ['graph @graph(%x: f32[2]) -> f32[2] {', '  %0 = tanh %x : f32[2]', '  return %0', '}']
    """

    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    updates: tuple[Update, ...] = ()
    name: str = "graph"
    nodes: tuple[Node, ...] = field(init=False)
    derived: dict[Hashable, Any] = field(init=False)

    def __init__(
        self,
        outputs: Tensor | Sequence[Tensor],
        inputs: Tensor | Sequence[Tensor] | None = None,
        updates: Sequence[Update] = (),
        *,
        name: str = "graph",
        region: Region | None = None,
    ) -> None:
        """Freeze what `outputs` and `updates` depend on; all of it belongs to `region`.

        Without `inputs`, the placeholders that are reached are the inputs, in the order in which
        the outputs reach them. Raises `GraphError` for a placeholder that is reached but is not
        among `inputs`, for an input that is no placeholder or is given twice, and for a variable
        with two updates, `DTypeError` for what is no tensor.
        """
        roots = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
        listed = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs or ())
        _check_tensors("output", roots)
        _check_tensors("input", listed)
        updates = listed_updates("graph", updates)
        _check_updates(updates)
        nodes = topological((*roots, *(u.value for u in updates), *listed))
        reached = [n.output for n in nodes if n.definition is placeholder_op]
        given = tuple(reached) if inputs is None else listed
        for root in roots:
            _check_region(root, region)
        _check_inputs(given, reached)
        object.__setattr__(self, "outputs", roots)
        object.__setattr__(self, "inputs", given)
        object.__setattr__(self, "updates", updates)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "nodes", tuple(nodes))
        object.__setattr__(self, "derived", {})

    @property
    def roots(self) -> tuple[Tensor, ...]:
        """The outputs, then the new values of the variables that are updated."""
        return (*self.outputs, *(u.value for u in self.updates))

    @property
    def region(self) -> Region | None:
        """The region all of it belongs to, None for a program of the top level."""
        if self.outputs:
            return self.outputs[0].node.region
        return self.updates[0].value.node.region if self.updates else None

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables read or updated, in the order in which they are reached."""
        read = (n.output for n in self.nodes if n.definition is variable_op)
        found = (*read, *(u.variable for u in self.updates))
        unique = {v.state: v for v in found if isinstance(v, Variable)}
        return tuple(unique.values())

    @staticmethod
    def parse(text: str) -> Graph:
        r"""Return the graph that `text` states; its variables start at zero.

        Raises `GraphError`, with the line, for text that states none.

        >>> text = "graph @f(%x: f32[2]) -> f32[2] {\n  %y = exp %x : f32[2]\n  return %y\n}\n"
        >>> [node.op for node in sg.Graph.parse(text).nodes]
        ['placeholder', 'exp']
        """
        given: Any = text
        if not isinstance(given, str):
            problem = f"text must be a string, it is {shortened(given)}"
            raise DTypeError("parse", problem, source=user_source())
        graph: Graph = provided("parse_graph")(given)
        return graph

    def __str__(self) -> str:
        """Return the text, which `parse` reads."""
        return str(provided("print_graph")(self))

    def _repr_html_(self) -> str:
        """Return what notebooks show: what it takes and gives, and a drawing."""
        return str(provided("graph_panel")(self))

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickle the text and the values of the variables, which become other variables."""
        _require_text(self)
        return _with_values, (str(self), [v.value for v in self.variables])

    def to_networkx(self) -> Any:
        """Return a `networkx.DiGraph` of the nodes, with attributes `op`, `name` and `types`.

        >>> x = sg.placeholder((2,), name="x")
        >>> sg.Graph(sg.tanh(x) + x).to_networkx().number_of_edges()
        3
        """
        return provided("to_networkx")(self)

    def with_roots(self, mapping: Mapping[Tensor, Tensor]) -> Graph:
        """Return the program with outputs, inputs and new values replaced as `mapping` says.

        >>> x = sg.placeholder((2,), name="x")
        >>> graph = sg.Graph(sg.tanh(x))
        >>> graph.with_roots({graph.outputs[0]: sg.exp(graph.outputs[0])}).nodes[-1].op
        'exp'
        """
        return Graph(
            [mapping.get(t, t) for t in self.outputs],
            [mapping.get(t, t) for t in self.inputs],
            [Update(u.variable, mapping.get(u.value, u.value)) for u in self.updates],
            name=self.name,
            region=self.region,
        )


def _require_text(graph: Graph) -> None:
    """Raise `DTypeError` for a graph with what text does not hold, at any depth."""
    pending = [graph]
    while pending:
        for node in pending.pop().nodes:
            attrs = (a if isinstance(a, tuple) else (a,) for a in node.attrs.values())
            parts = [part for attr in attrs for part in attr]
            pending += [part for part in parts if isinstance(part, Graph)]
            found = [part for part in parts if isinstance(part, ForeignFunction)]
            if any(function.address is not None for function in found):
                raise DTypeError(
                    "pickle",
                    f"extern {found[0].name} is at an address of this process, which text has not",
                    hint="without pointer= the symbol is looked up where the graph is unpickled",
                    source=node.source,
                )
            if any(isinstance(part, PythonFunction) for part in parts):
                raise DTypeError(
                    "pickle",
                    f"a {node.op} in the graph has a function of Python, which has no text",
                    hint="pickle a graph in which nothing has a gradient of its own",
                    source=node.source,
                )


def _with_values(text: str, values: Sequence[Array]) -> Graph:
    """Return the graph that `text` states, with the values of its variables."""
    graph = Graph.parse(text)
    for owner, value in zip(graph.variables, values, strict=True):
        owner.value = value
    return graph


def _check_tensors(role: str, given: Sequence[Any]) -> None:
    for position, tensor in enumerate(given):
        if not isinstance(tensor, Tensor):
            problem = f"{role} {position}: {type(tensor).__name__} is no tensor of a graph"
            raise DTypeError("graph", problem, source=user_source())


def _check_inputs(given: tuple[Tensor, ...], reached: Iterable[Tensor]) -> None:
    for position, tensor in enumerate(given):
        if tensor.node.definition is not placeholder_op:
            raise GraphError(
                "graph", f"input {position} is {tensor!r}, not a placeholder",
                source=tensor.node.source,
            )  # fmt: skip
    if len(set(given)) != len(given):
        twice = next(t for i, t in enumerate(given) if any(t is u for u in given[:i]))
        raise GraphError("graph", f"{twice!r} is among the inputs twice", source=twice.node.source)
    inputs = set(given)
    for tensor in reached:
        if tensor not in inputs:
            raise GraphError(
                "graph",
                f"{tensor!r} is needed and not among the inputs",
                hint="add it to the inputs of compile, or to the feed_dict of run",
                source=tensor.node.source,
            )


def _require_instance(role: str, held: Any, kind: type) -> None:
    if not isinstance(held, kind):
        problem = f"the {role} is {type(held).__name__}, not a {kind.__name__}"
        raise DTypeError("update", problem, source=user_source())


def listed_updates(subject: str, updates: Any) -> tuple[Any, ...]:
    """Return the elements of `updates`; raises `DTypeError` for what is no list of anything."""
    if isinstance(updates, Iterable) and not isinstance(updates, Tensor | str | Mapping):
        return tuple(updates)
    problem = f"updates is {type(updates).__name__}, a list of updates is needed"
    raise DTypeError(subject, problem, source=user_source())


def _check_updates(updates: Sequence[Any]) -> None:
    seen = set()
    for position, update in enumerate(updates):
        if not isinstance(update, Update):
            problem = f"update {position}: {type(update).__name__} is no Update"
            hint = "sg.Update(variable, value) is one"
            raise DTypeError("graph", problem, hint=hint, source=user_source())
        if update.variable.state in seen:
            raise GraphError(
                "graph",
                f"variable {update.variable.name!r} is updated twice",
                source=user_source(),
            )
        seen.add(update.variable.state)


def _check_region(root: Tensor, region: Region | None) -> None:
    owner = root.node.region
    if owner is not region:
        assert owner is not None, f"{root!r} of the top level is a result of a region"
        raise GraphError(
            "graph",
            f"{root!r} belongs to region {owner.name!r} and cannot leave it",
            hint=f"return it from {owner.name!r} instead",
            source=root.node.source,
        )


def transform(graph: Graph, replace: Callable[[Node, tuple[Tensor, ...]], Node | None]) -> Graph:
    """Rebuild `graph` from the leaves up.

    `replace` is called for each node with its new inputs and returns the node to stand for it, or
    None to keep it: the same node where no input changed. Where all nodes stay, so does `graph`.
    """
    changed: dict[Tensor, Tensor] = {}
    is_same = True
    for node in graph.nodes:
        inputs = node.inputs
        if not changed.keys().isdisjoint(inputs):
            inputs = tuple([changed.get(t, t) for t in inputs])
        new = replace(node, inputs)
        if new is None:
            new = node if are_same(inputs, node.inputs) else rebuild(node, inputs)
        if new is not node:
            is_same = False
            changed |= zip(node.outputs, new.outputs, strict=True)
    return graph if is_same else graph.with_roots(changed)


def specialize(graph: Graph, sizes: Mapping[str, Dim]) -> Graph:
    """Partial evaluation by sizes: return `graph` with known ones, and everything inferred anew.

    Raises `ShapeError` where sizes that had to be equal are not; it says where each came from.
    """
    return _specialize(graph, sizes, {}) if sizes else graph


def _specialize(graph: Graph, sizes: Mapping[str, Dim], nested: dict[Graph, Graph]) -> Graph:
    """Do what `specialize` does. `nested` has what was done: what several nodes have stays one."""

    def rename(attr: Attr) -> Attr:
        if isinstance(attr, Graph):
            if attr not in nested:
                nested[attr] = _specialize(attr, sizes, nested)
            return nested[attr]
        if isinstance(attr, tuple):
            return tuple(rename(part) for part in attr)
        return substitute_sizes(attr, sizes)

    def replace(node: Node, inputs: tuple[Tensor, ...]) -> Node | None:
        attrs = {key: rename(value) for key, value in node.attrs.items()}
        same = attrs == dict(node.attrs)
        if same and are_same(inputs, node.inputs):
            return None
        return rebuild(node, inputs, rename)

    try:
        return transform(graph, replace)
    except SymgradError as error:
        error.hint = error.hint or "sizes at this call: " + describe_sizes(graph, sizes)
        raise


def describe_sizes(graph: Graph, sizes: Mapping[str, Dim]) -> str:
    """Return text that says which size each unknown has and which input gave it."""
    places: dict[str, str] = {}
    for position, tensor in enumerate(graph.inputs):
        for axis, size in enumerate(tensor.shape):
            for name in unknowns_of(size):
                label = tensor.name or f"input {position}"
                places.setdefault(name, f"axis {axis} of {label}")
    return ", ".join(
        f"{places.get(name, 'a size')} is {value}"
        if name.startswith("?")
        else f"{name} ({places.get(name, 'a size')}) is {value}"
        for name, value in sizes.items()
    )
