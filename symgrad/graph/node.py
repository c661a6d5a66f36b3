"""Dataflow IR in SSA form: ops, nodes and tensors, of which a graph is made.

A node is an application of an op; a tensor is one output of a node. Both are immutable and are
compared by identity, since two equal nodes may come from different lines of the user's code.
Nothing here knows any op; the operators of `Tensor` look theirs up by name in a table that
`symgrad/graph/ops/` fills.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, Literal, Union

from symgrad.errors import DTypeError, Source, user_source
from symgrad.graph.array_methods import ArrayMethods
from symgrad.graph.devices import OnDevice
from symgrad.graph.dtypes import DType
from symgrad.graph.identity import Immutable
from symgrad.graph.late_binding import provided
from symgrad.graph.operators import Operators
from symgrad.graph.structures import (
    Extern,
    Gather,
    Iota,
    KernelSpec,
    Map,
    Place,
    Reshape,
    Scatter,
    View,
)
from symgrad.graph.traits import LEAF, Traits
from symgrad.graph.types import Array, Attr, Shape, TensorType
from symgrad.records import dataclass, draft_of

Attrs = Mapping[str, Attr]
_NO_ATTRS: Attrs = MappingProxyType({})
Range = tuple[int, int]  # the least and the greatest value
EMPTY: Range = (0, -1)  # there is no value
Grads = tuple[Union["Tensor", None], ...]
# `infer`, `reference` and `kernel` take operands by position and attributes by keyword;
# `grad` takes the node, one gradient an output, and the attributes by keyword.
Infer = Callable[..., TensorType | tuple[TensorType, ...]]
Reference = Callable[..., Array | tuple[Array, ...]]
Grad = Callable[..., Grads] | Literal["none"]
KernelRule = Callable[..., KernelSpec]
# `batch` takes the `Operands` of `graph/batch_rules.py` and the attributes by keyword; it returns
# the result with the axis, or a result and whether it has the axis, or a list of results with it.
Batch = Callable[..., Union["Tensor", tuple["Tensor", bool], list["Tensor"]]]
# `tangent` takes the node, one tangent an operand, None for zeros, and the attributes by keyword;
# it returns one tangent an output.
Tangent = Callable[..., Sequence[Union["Tensor", None]]]
# `narrow` takes the node, where elements begin along the first axis of its result and their number,
# and the attributes by keyword; it returns what computes them alone, None where nothing does.
Narrow = Callable[..., Union["Tensor", None]]
# `value_range` takes the range of each operand, and the attributes by keyword.
ValueRange = Callable[..., Range | None]
# Whether operands may be exchanged without changing a bit. "but zeros": of two zeros of unlike
# sign the order decides which one is taken, so they may where there is but one zero.
Commutes = Literal["no", "but zeros", "yes"]
# What the gradient rule does to zeros that a mask puts into a gradient (`graph/ops/masks.py`):
# "pointwise" treats each element alike, "moved" moves elements of any dtype and fills with zeros,
# "read" reads the mask itself and hands it on, "mixed" mixes what is masked with what is not.
GradientMask = Literal["pointwise", "moved", "read", "mixed"]
# How an op takes complex operands, each a pair of real tensors (`passes/calls/split_complex.py`):
# "each" is applied to the real parts and to the imaginary parts, "rule" has a rule in
# `graph/pair_rules.py`, "expansion" is an algorithm whose graph takes them, and "none" takes none.
OfPairs = Literal["each", "rule", "expansion", "none"]


@dataclass(frozen=True, slots=True, eq=False)
class OpDef:
    """All that symgrad knows about one op, but for what follows from the structure.

    `grad` is "none" for an op whose derivative is zero or undefined everywhere. `kernel` is None
    for a leaf (placeholder, constant, variable), which takes no computation. `structure` is the
    class of what `kernel` returns, None for a leaf and for an op that stands for its operands.

    `batch` is the vmap rule; without one it follows from the structure, or the op is run slice by
    slice. `tangent` is the forward-mode rule; without one it is the transpose of `grad`.
    `narrow` computes some elements of a column alone, where no others are read. `value_range` says
    which integers the result holds; without one it follows from the structure, or they may be any.
    `of_pairs` says how it takes complex operands. `has_zero_for_zero` says that
    `grad` makes zeros that stand for no gradient of such zeros. With `is_always_recomputed` a
    gradient computes the op again whatever it costs.
    """

    name: str
    infer: Infer
    reference: Reference | None
    grad: Grad
    kernel: KernelRule | None
    structure: type[KernelSpec] | None = None
    batch: Batch | None = None
    tangent: Tangent | None = None
    narrow: Narrow | None = None
    value_range: ValueRange | None = None
    commutes: Commutes = "no"
    gradient_mask: GradientMask = "mixed"
    of_pairs: OfPairs = "none"
    has_zero_for_zero: bool = True
    is_always_recomputed: bool = False

    @property
    def is_leaf(self) -> bool:
        return self.kernel is None

    @property
    def traits(self) -> Traits:
        """The traits of the structure, or those of a leaf."""
        return LEAF if self.structure is None else self.structure.traits

    @property
    def is_elementwise(self) -> bool:
        """Whether an element of the result is computed of the elements at its own position."""
        return self.structure is Map

    @property
    def is_view(self) -> bool:
        """Whether each element of the result is one of the operand, at a place known by now."""
        return self.structure in (View, Reshape)

    @property
    def is_fusible(self) -> bool:
        """Whether a node can be part of any kernel that needs its elements, or is none at all."""
        if self.structure is None:
            return True  # a leaf, or what is replaced by its operands
        return self.structure in (Map, Iota, View, Reshape, Place, Gather)

    @property
    def calls_outside(self) -> bool:
        """Whether it calls a function of which nothing is known: only a run may do that."""
        return self.structure is Extern

    @property
    def can_fail(self) -> bool:
        """Whether a value of an operand, as an index out of range, can stop a program."""
        return self.structure in (Gather, Scatter, Extern)

    def __repr__(self) -> str:
        return f"OpDef({self.name})"


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A scope of tracing: a tensor made in it lives in it and may be used only there.

    `params` are the parameters of the function that is traced. `captures` maps a tensor from
    around the region to the placeholder that stands for it inside, `initials` a loop variable
    inside to the value around that it starts with, `ranges` an integer parameter to the least and
    the greatest value it has. `traces` is for functions that were traced inside and capture
    something of the region: they are used again as long as it is open.
    """

    name: str
    parent: Region | None
    params: list[Tensor] = field(default_factory=list)
    captures: dict[Tensor, Tensor] = field(default_factory=dict)
    initials: dict[Tensor, Tensor] = field(default_factory=dict)
    ranges: dict[Tensor, Range] = field(default_factory=dict)
    traces: dict[Hashable, object] = field(default_factory=dict)

    def encloses(self, other: Region | None) -> bool:
        """Return whether `other` is this region or lies inside of it."""
        while other is not None:
            if other is self:
                return True
            other = other.parent
        return False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node(Immutable):
    """An op applied to tensors. `origin` is the node a gradient or a pass made it for.

    `gradient_key` names the registered gradient that stands in for the one of the op.

    >>> node = (sg.placeholder((2,), name="x") + 1).node
    >>> node.op, [tensor.name for tensor in node.inputs if tensor.name]
    ('add', ['x'])
    """

    definition: OpDef
    inputs: tuple[Tensor, ...]
    attrs: Attrs
    name: str | None = None
    source: Source | None = None
    origin: Node | None = None
    region: Region | None = None
    gradient_key: str | None = None
    outputs: tuple[Tensor, ...] = field(default=(), init=False)

    @property
    def op(self) -> str:
        """The name of the op's type."""
        return self.definition.name

    @property
    def called(self) -> str:
        """The public function that the user's line calls; the op's name, if it is the op itself."""
        return (self.source.called if self.source is not None else "") or self.op

    @property
    def scope(self) -> str:
        """The name scopes it was built in, "a/b" for b in a; of a gradient, those of what it is of.

        It is "" outside of any, and for what no line of a user has built.
        """
        source = self.source if self.origin is None else self.origin.source
        return "" if source is None else source.scope

    @property
    def output(self) -> Tensor:
        """The only output."""
        (output,) = self.outputs
        return output

    def __repr__(self) -> str:
        types = ", ".join(str(t.type) for t in self.outputs)
        return f"<{self.op} {self.name or ''}: {types}>".replace(" :", ":")


def make_node(
    definition: OpDef,
    inputs: tuple[Tensor, ...],
    attrs: Attrs,
    types: tuple[TensorType, ...],
    *,
    name: str | None = None,
    source: Source | None = None,
    origin: Node | None = None,
    region: Region | None = None,
    gradient_key: str | None = None,
    tensor_class: type[Tensor] | None = None,
) -> Node:
    """Make a node and its output tensors; the types have been inferred by the caller."""
    # Those of another node are frozen already, and are shared.
    is_frozen = isinstance(attrs, MappingProxyType)
    frozen = attrs if is_frozen else MappingProxyType(dict(attrs)) if attrs else _NO_ATTRS
    node = _NodeDraft()
    node.definition, node.inputs, node.attrs, node.name = definition, inputs, frozen, name
    node.source, node.origin, node.region, node.gradient_key = source, origin, region, gradient_key
    if len(types) == 1 and tensor_class is None:
        output = _TensorDraft()
        output.node, output.index, output.type = node, 0, types[0]
        output.__class__ = Tensor
        node.outputs = (output,)
    else:
        make = tensor_class or Tensor
        node.outputs = tuple([make(node, index, type_) for index, type_ in enumerate(types)])
    node.__class__ = Node
    made: Node = node
    return made


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tensor(Operators["Tensor"], ArrayMethods["Tensor"], OnDevice, Immutable):
    """A symbolic array: one output of a node. Operators and NumPy functions on it build graph.

    >>> x = sg.placeholder((2, 3), name="x")
    >>> (x + 1).shape, np.exp(x).dtype, x[0, :2].shape, x.sum(axis=1).shape
    ((2, 3), symgrad.float32, (2,), (2,))
    """

    node: Node
    index: int
    type: TensorType

    # NumPy must not take a Tensor for a sequence of scalars.
    __array_priority__ = 1000

    @property
    def dtype(self) -> DType:
        """The element type, equal to its name and to NumPy's: `x.dtype == "float32"`."""
        return self.type.dtype

    @property
    def shape(self) -> Shape:
        """The sizes of the axes: ints, or symbolic sizes where they are not known yet."""
        return self.type.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.type.ndim

    @property
    def size(self) -> Any:
        """The number of elements: an int, or a symbolic size."""
        return self.type.size

    @property
    def name(self) -> str | None:
        """The name given by the user, with its scopes; None if there is none."""
        return self.node.name

    def __getitem__(self, key: Any) -> Tensor:
        return self._call("getitem", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise self._never_changes("set", "x.at[index].set(value) is a new tensor")

    def __delitem__(self, key: Any) -> None:
        raise self._never_changes("deleted", "sg.concat joins what is left of it")

    def _never_changes(self, done: str, instead: str) -> DTypeError:
        return DTypeError(
            self.node.op,
            f"an element of {self.type} cannot be {done}, since tensors never change",
            hint=instead,
            source=user_source(),
        )

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return provided("array_namespace")(api_version)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return provided("array_ufunc")(ufunc, method, inputs, options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return provided("array_function")(func, types, args, kwargs)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise self._no_value("an array", "compile the graph and call it, or use sg.run")

    def _no_value(self, wanted: str, instead: str) -> DTypeError:
        return DTypeError(
            self.node.op,
            f"a symbolic tensor {self.type} has no value to make {wanted} of",
            hint=instead,
            source=user_source(),
        )

    def __bool__(self) -> bool:
        raise self._no_value("a bool", "use sg.where, or sg.cond for a branch that must not run")

    def __float__(self) -> float:
        raise self._no_value("a float", "compile the graph and call it, or use sg.run")

    def __int__(self) -> int:
        raise self._no_value("an int", "compile the graph and call it, or use sg.run")

    def __index__(self) -> int:
        raise self._no_value("an index", "index with the tensor itself, or use sg.take")

    def __complex__(self) -> complex:
        raise self._no_value("a complex", "compile the graph and call it, or use sg.run")

    def __format__(self, spec: str) -> str:
        if spec:
            raise self._no_value(f"a text {spec!r}", "compile the graph and call it, or use sg.run")
        return str(self)

    def __len__(self) -> int:
        if self.ndim and isinstance(self.shape[0], int):
            return self.shape[0]
        raise self._no_value("a length", "use .shape")

    def __iter__(self) -> Iterator[Tensor]:
        if not (self.ndim and isinstance(self.shape[0], int)):
            raise self._no_value("an iterator", "iterate an axis of known size")
        return (self[i] for i in range(self.shape[0]))

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        return str(provided("tensor_panel")(self))

    def __repr__(self) -> str:
        return f"<Tensor {self.name or self.node.op}: {self.type}>"


_NodeDraft, _TensorDraft = draft_of(Node), draft_of(Tensor)
