"""Graph builder: applying an op, and the scopes that are in force meanwhile.

Scopes are context variables, so that building in several threads at once is safe and no graph is
global.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from symgrad.errors import GraphError, SymgradError, user_source
from symgrad.graph.folding import folder
from symgrad.graph.inference import infer_types
from symgrad.graph.node import Attrs, Node, OpDef, Range, Region, Tensor, make_node
from symgrad.graph.opdef import OPS
from symgrad.graph.plain_attrs import plain_attrs
from symgrad.graph.sizes import Dim, Size, substitute
from symgrad.graph.source_lines import line_of
from symgrad.graph.types import (
    ArrayLiteral,
    Attr,
    TensorType,
    attr_key,
)
from symgrad.suggestions import known_as

_name_scope: ContextVar[str] = ContextVar("name_scope", default="")
_origin: ContextVar[Node | None] = ContextVar("origin", default=None)
_region: ContextVar[Region | None] = ContextVar("region", default=None)
_built: ContextVar[dict[Hashable, Node] | None] = ContextVar("built", default=None)
_NO_KEYS: Mapping[str, str] = MappingProxyType({})
_gradient_keys: ContextVar[Mapping[str, str]] = ContextVar("gradient_keys", default=_NO_KEYS)


@known_as("named_scope")
@contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Prefix the names of the tensors built inside with `name/`; scopes nest.

    What is built inside, and its gradient, is shown under this name by profiles, reports and the
    drawing of a graph: `tensor.node.scope`. Programs that differ in scopes only are the same.

    >>> with sg.name_scope("encoder"):
    ...     y = 2 * sg.variable(1.0, name="w")
    >>> y.node.scope, y.node.inputs[1].name
    ('encoder', 'encoder/w')
    """
    scope = f"{_name_scope.get()}{name}/"
    token = _name_scope.set(scope)
    try:
        yield scope.rstrip("/")
    finally:
        _name_scope.reset(token)


class derived_from:  # noqa: N801  # called as a function: a gradient enters it for each node
    """Give the nodes built inside `node` as their origin, and its line as theirs.

    Given a name, it is a `name_scope` of that as well: two that are entered take three times as
    long as one.
    """

    __slots__ = ("_name", "_node", "_scope", "_token")

    def __init__(self, node: Node, name: str = "") -> None:
        self._node = node
        self._name = name

    def __enter__(self) -> None:
        self._token = _origin.set(self._node)
        if self._name:
            self._scope = _name_scope.set(f"{_name_scope.get()}{self._name}/")

    def __exit__(self, *_: object) -> None:
        if self._name:
            _name_scope.reset(self._scope)
        _origin.reset(self._token)


@contextmanager
def region(name: str) -> Iterator[Region]:
    """Open a region: tensors built inside belong to it and may not be used outside."""
    opened = Region(name, _region.get())
    token = _region.set(opened)
    try:
        yield opened
    finally:
        _region.reset(token)


@contextmanager
def gradient_keys(by_op: Mapping[str, str]) -> Iterator[None]:
    """Give the nodes built inside the gradient that `by_op` names for their op; scopes nest."""
    token = _gradient_keys.set(MappingProxyType({**_gradient_keys.get(), **by_op}))
    try:
        yield
    finally:
        _gradient_keys.reset(token)


@contextmanager
def built_once() -> Iterator[None]:
    """Hash-consing: equal ops without a name on the same operands are one node while it is open.

    It is for formulas that are built for many operands and have scalars in common, as those of an
    optimizer: the scalar, its conversions and what it is broadcast to are then built for all.
    """
    token = _built.set({})
    try:
        yield
    finally:
        _built.reset(token)


def gradient_keys_in_force() -> Mapping[str, str]:
    """Return which gradient nodes are given that are built now, by the names of ops."""
    return _gradient_keys.get()


@contextmanager
def inside(opened: Region | None) -> Iterator[None]:
    """Go on building in a region that was opened before, or at the top level for None."""
    token = _region.set(opened)
    try:
        yield
    finally:
        _region.reset(token)


def current_region() -> Region | None:
    """Return the innermost region that is open, None at the top level."""
    return _region.get()


def scoped(name: str | None) -> str | None:
    """Return `name` with the scopes in force before it."""
    return None if name is None else _name_scope.get() + name


def apply(definition: OpDef, *inputs: Tensor, name: str | None = None, **attrs: Attr) -> Tensor:
    """Apply an op of one result."""
    fold = folder.get()
    if fold is not None and name is None and (found := fold(definition, inputs)) is not None:
        return found
    (output,) = apply_node(definition, inputs, attrs, name=name).outputs
    return output


def apply_node(
    definition: OpDef,
    inputs: tuple[Tensor, ...],
    attrs: Attrs,
    *,
    name: str | None = None,
    tensor_class: type[Tensor] | None = None,
) -> Node:
    """Infer the result of an op and make its node, with the user's line and the scopes in force."""
    attrs = plain_attrs(attrs)
    built = _built.get()
    if built is None or name is not None:
        return _apply_anew(definition, inputs, attrs, name, tensor_class)
    key = _key(definition, inputs, attrs)
    if key not in built:
        built[key] = _apply_anew(definition, inputs, attrs, name, tensor_class)
    return built[key]


def _key(definition: OpDef, inputs: tuple[Tensor, ...], attrs: Attrs) -> Hashable:
    """Return what nodes of which one can stand for all have in common, and no others."""
    keys = sorted(attrs) if len(attrs) > 1 else attrs
    named = tuple([(key, attr_key(attrs[key])) for key in keys])
    # A node keeps its operands alive, so no later tensor has the identity of one of them.
    operands = tuple(map(id, inputs))
    gradient_key = _gradient_keys.get().get(definition.name)
    return definition, operands, named, _region.get(), _origin.get(), gradient_key


def _apply_anew(
    definition: OpDef,
    inputs: tuple[Tensor, ...],
    attrs: Attrs,
    name: str | None,
    tensor_class: type[Tensor] | None,
) -> Node:
    origin = _origin.get()
    source = line_of(_name_scope.get()) if origin is None else origin.source
    region = _region.get()
    try:
        if not all([t.node.region is region for t in inputs]):
            inputs = _entered(definition.name, inputs)
        types = infer_types(definition, [t.type for t in inputs], attrs)
    except SymgradError as error:
        error.source = error.source or source
        raise
    return make_node(
        definition,
        inputs,
        attrs,
        types,
        name=scoped(name),
        source=source,
        origin=origin,
        region=region,
        gradient_key=_gradient_keys.get().get(definition.name),
        tensor_class=tensor_class,
    )


def _entered(op: str, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the operands as the region that is open sees them."""
    for position, tensor in enumerate(inputs):
        require_visible(op, f"operand {position}", tensor)
    return tuple(enter(t) for t in inputs)


def require_visible(subject: str, label: str, tensor: Tensor) -> None:
    """Raise `GraphError` for a tensor of a region that is not open."""
    here, owner = _region.get(), tensor.node.region
    if owner is not None and not owner.encloses(here):
        where = "the top level" if here is None else f"region {here.name!r}"
        raise GraphError(
            subject,
            f"{label} is {tensor!r} of region {owner.name!r}, used in {where}",
            hint=f"return it from {owner.name!r} instead",
            source=user_source(),
        )


def outer_tensors() -> dict[Tensor, Tensor]:
    """Return, for all that stands in an open region for a tensor from around, that tensor."""
    return {
        inner: outer
        for r in enclosing_regions(_region.get())
        for outer, inner in r.captures.items()
    }


def initial_values() -> dict[Tensor, Tensor]:
    """Return, for the loop variables of the regions that are open, what they start with."""
    return {
        param: value
        for r in enclosing_regions(_region.get())
        for param, value in r.initials.items()
    }


def known_ranges() -> dict[Tensor, Range]:
    """Return the ranges of integer parameters of the regions that are open."""
    return {
        param: range_
        for r in enclosing_regions(_region.get())
        for param, range_ in r.ranges.items()
    }


def _open_regions() -> list[Region]:
    return enclosing_regions(_region.get())


def enclosing_regions(region: Region | None) -> list[Region]:
    """Return `region` and those around it, the innermost first; none for the top level."""
    found = []
    while region is not None:
        found.append(region)
        region = region.parent
    return found


def origin_of(tensor: Tensor) -> Tensor:
    """Return the tensor, of whatever region, that a captured one stands for; else itself."""
    while True:
        region, origin = tensor.node.region, tensor.node.origin
        captured = () if region is None or origin is None else origin.outputs
        outer = [t for t in captured if region is not None and region.captures.get(t) is tensor]
        if not outer:
            return tensor
        (tensor,) = outer


def enter(tensor: Tensor) -> Tensor:
    """Return what stands for `tensor`, of this region or one around it, in the region that is open.

    A small constant that a gradient made is made again inside; anything else becomes a captured
    placeholder, in every region on the way.
    """
    way: list[Region] = []
    region = _region.get()
    while region is not tensor.node.region:
        assert region is not None, f"{tensor!r} is of no region around this one"
        way.append(region)
        region = region.parent
    for inner in reversed(way):
        tensor = _captured(tensor, inner)
    return tensor


def _captured(tensor: Tensor, region: Region) -> Tensor:
    if tensor not in region.captures:
        node = tensor.node
        value = node.attrs.get("value")
        # One of the user's stays an operand, since a gradient by it may be asked for.
        is_derived = node.origin is not None or node.source is None
        is_small = is_derived and isinstance(value, ArrayLiteral) and value.array.size <= 16
        definition = node.definition if is_small else OPS["placeholder"]
        placeholder: Attrs = {"dtype": tensor.dtype, "shape": tensor.shape}
        attrs = node.attrs if is_small else placeholder
        inside = make_node(
            definition,
            (),
            attrs,
            (tensor.type,),
            name=node.name,
            source=node.source,
            origin=node,
            region=region,
        )
        region.captures[tensor] = inside.output
    return region.captures[tensor]


def rebuild(
    node: Node,
    inputs: tuple[Tensor, ...],
    rename: Callable[[Attr], Attr] | None = None,
) -> Node:
    """Apply the op of `node` to other inputs, with attributes renamed; see `with_attrs`."""
    if rename is None:
        return with_attrs(node, inputs, node.attrs)
    return with_attrs(node, inputs, {key: rename(value) for key, value in node.attrs.items()})


def with_attrs(node: Node, inputs: tuple[Tensor, ...], attrs: Attrs) -> Node:
    """Apply the op of `node` to other inputs and attributes, keeping its name, line and origin.

    The types are inferred anew, and an error points at the user's line of the first building.
    """
    return make_node(
        node.definition,
        inputs,
        attrs,
        _types_again(node, inputs, attrs),
        name=node.name,
        source=node.source,
        origin=node.origin,
        region=node.region,
        gradient_key=node.gradient_key,
    )


def _types_again(node: Node, inputs: tuple[Tensor, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    given = [t.type for t in inputs]
    if attrs is node.attrs and given == [t.type for t in node.inputs]:
        outputs = node.outputs  # they depend on nothing else
        return (outputs[0].type,) if len(outputs) == 1 else tuple([t.type for t in outputs])
    try:
        return infer_types(node.definition, given, attrs)
    except SymgradError as error:
        error.source = error.source or node.source
        if error.subject == node.op:
            error.subject = node.called
        raise


def are_same(a: Sequence[object], b: Sequence[object]) -> bool:
    """Return whether `a` and `b` are the same tensors, or nodes or graphs, one by one."""
    return a is b or (len(a) == len(b) and all(map(operator.is_, a, b)))


def rebuild_here(node: Node, inputs: tuple[Tensor, ...], attrs: Attrs | None = None) -> Node:
    """Make the node `node` again on operands of the region that is open.

    `attrs` are attributes with which it has results of the same types.
    """
    origin = _origin.get()
    return make_node(
        node.definition,
        inputs,
        node.attrs if attrs is None else attrs,
        tuple(t.type for t in node.outputs),
        name=node.name,
        source=node.source,
        origin=node.origin if origin is None else origin,
        region=_region.get(),
        gradient_key=node.gradient_key,
    )


def substitute_sizes(attr: Attr, values: Mapping[str, Dim]) -> Attr:
    """Return `attr` with the unknown sizes in it replaced, at any depth of tuples."""
    if isinstance(attr, Size):
        return substitute(attr, values)
    if isinstance(attr, tuple):
        return tuple(substitute_sizes(part, values) for part in attr)
    return attr
