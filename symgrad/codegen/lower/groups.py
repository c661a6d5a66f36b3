"""Lowering: from a group of nodes to a kernel of the loop language.

One function for each structure, none for any op. What comes out is plain: one loop an axis, one
fold a reduced axis, in the order of the axes; `schedule/vectorize.py` makes it fast.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import assert_never

from symgrad.codegen.loops.blocking import PLAIN
from symgrad.codegen.loops.language import (
    For,
    Index,
    Kernel,
    Param,
    Product,
    Ref,
    Stmt,
    Store,
    StridedOperand,
)
from symgrad.codegen.lower.folding import lower_prefix
from symgrad.codegen.lower.folds import Folds
from symgrad.codegen.lower.places import load_anew, lower_place
from symgrad.codegen.lower.products import build_product, plan_product
from symgrad.codegen.lower.scope import Names, Scope, constant
from symgrad.codegen.lower.short_rows import NO_ROWS, ShortRows, places_within, short_rows
from symgrad.codegen.lower.sorts import lower_sort
from symgrad.codegen.lower.values import GroupValues
from symgrad.codegen.lower.windows import WindowFolds
from symgrad.graph.node import Node
from symgrad.graph.structures import (
    Call,
    ColumnMap,
    Contract,
    Extern,
    Gather,
    Iota,
    Map,
    Place,
    PrefixScan,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    Search,
    Sort,
    Switch,
    View,
    While,
)
from symgrad.graph.types import TensorType
from symgrad.passes.fusion.buffers import Buffer, Buffers
from symgrad.passes.fusion.partition import FusionGroup, Partition
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class LoweredKernel:
    """A kernel, the buffers its parameters stand for, and the group it computes."""

    kernel: Kernel
    arguments: tuple[Buffer, ...]
    group: FusionGroup


def lower_group(
    partition: Partition, buffers: Buffers, group: FusionGroup, name: str
) -> LoweredKernel:
    """Lower `group` to a kernel called `name`."""
    lowering = _Lowering(partition, buffers, group)
    body = lowering.body()
    rows = short_rows(group, partition.specs, body)
    if rows.are_any:
        lowering = _Lowering(partition, buffers, group, rows)
        body = lowering.body()
    params, arguments = lowering.values.params(body)
    return LoweredKernel(Kernel(name, params, body), arguments, group)


def lower_copy(type_: TensorType, name: str) -> Kernel:
    """Return a kernel that copies a buffer."""
    count, dtype = type_.count, type_.dtype
    scope = Scope(Names())
    index = Index(0, (("i0", 1),))
    scope.statements.append(Store("b1", index, scope.load("b0", index, dtype)))
    params = (Param("b0", dtype, count, "in"), Param("b1", dtype, count, "out"))
    return Kernel(name, params, (For("i0", count, tuple(scope.statements)),))


def lower_zeros(type_: TensorType, name: str) -> Kernel:
    """Return a kernel that fills a buffer with zeros."""
    count, dtype = type_.count, type_.dtype
    store = Store("b0", Index(0, (("i0", 1),)), constant(0, dtype))
    return Kernel(name, (Param("b0", dtype, count, "out"),), (For("i0", count, (store,)),))


class _Lowering:
    def __init__(
        self, partition: Partition, buffers: Buffers, group: FusionGroup, rows: ShortRows = NO_ROWS
    ) -> None:
        self.rows = rows
        self.partition = partition
        self.group = group
        self.names = Names()
        self.values = GroupValues(partition, buffers, group, self.names)

    def body(self) -> tuple[Stmt, ...]:
        anchor = self.group.anchor
        if anchor is None:
            return self._map_group()
        spec = self.partition.specs[anchor]
        match spec:
            case Reduce() | Contract():
                return self._fold_group(anchor, spec)
            case PrefixScan():
                store = partial(self._store_outputs, anchor.output.type.static_shape)
                return lower_prefix(self.values, self.names, anchor, spec, store)
            case Place():
                return lower_place(self.values, self.names, self.nest, anchor, spec)
            case ColumnMap():
                return self._column_group(anchor, spec)
            case Scatter():
                return self._scatter_group(anchor, spec)
            case Sort():
                return lower_sort(self.values, anchor, spec)
            case None | Map() | Iota() | View() | Reshape() | Gather() | Search():
                raise AssertionError(f"{anchor!r} is no anchor")
            case Extern() | Switch() | While() | Scan() | Call():
                raise AssertionError(f"{anchor!r} is an instruction and no kernel")
            case _:
                assert_never(spec)

    # ------------------------------------------------------------------------- results

    def _map_group(self) -> tuple[Stmt, ...]:
        shape = self.group.domain

        def write(scope: Scope, index: tuple[Index, ...]) -> None:
            self._store_outputs(shape, scope, *self.rows.elements(index, shape))

        return self.nest(self.rows.outside(shape), write)

    def _store_outputs(
        self, shape: tuple[int, ...], scope: Scope, *elements: tuple[Index, ...]
    ) -> None:
        """Compute every result of the group at `elements` of `shape` and store it.

        A result of another shape has the same elements in the same order.
        """
        places = [
            (
                t,
                index
                if t.shape == shape
                else self.values.reshaped(index, shape, t.type.static_shape),
            )
            for index in elements
            for t in self.group.outputs
        ]
        results = [(t, place, self.values.value(scope, t, place)) for t, place in places]
        for tensor, place, value in results:
            self.values.store(scope, tensor, place, value)

    def nest(
        self,
        shape: Sequence[int],
        write: Callable[[Scope, tuple[Index, ...]], None],
        *,
        outer: Scope | None = None,
        ordered: Container[int] = (),
    ) -> tuple[Stmt, ...]:
        """Return loops over `shape` around what `write` puts into their innermost body.

        The iterations of the axes in `ordered` depend on each other.
        """
        variables = [self.values.loop(n) for n in shape]
        scope = Scope(self.names) if outer is None else outer.inner()
        write(scope, _index(list(zip(variables, shape, strict=True))))
        body = tuple(scope.statements)
        for axis in range(len(shape) - 1, -1, -1):
            body = (For(variables[axis], shape[axis], body, ordered=axis in ordered),)
        return body

    # ------------------------------------------------------------------- Reduce, Contract

    def _product_group(self, anchor: Node, spec: Contract) -> tuple[Stmt, ...] | None:
        """Return the matrix product `spec` is, with the rest of the group done to each element."""
        found = plan_product(self.values, anchor, spec)
        if found is None:
            return None
        loops, left, right = found
        total = Ref(self.names.value(), spec.accumulate)
        index = _index([loops[label] for label in spec.out])
        scope = Scope(self.names)
        scope.remember((anchor.output, index), scope.cast(total, anchor.output.dtype))
        self._store_outputs(anchor.output.type.static_shape, scope, index)
        element = anchor.inputs[0].dtype

        def make(
            lhs: StridedOperand,
            rhs: StridedOperand,
            rows: tuple[str, int],
            columns: tuple[str, int],
            inner: tuple[str, int],
            body: tuple[Stmt, ...],
        ) -> Product:
            return Product(
                total.name, total.dtype, element, rows, columns, inner, lhs, rhs, PLAIN, None, body
            )

        is_apart = any(map(self.values.is_placed, self.group.outputs))
        body = tuple(scope.statements)
        return build_product(loops, spec, left, right, make, body, divides_rows=is_apart)

    def _fold_group(self, anchor: Node, spec: Reduce | Contract) -> tuple[Stmt, ...]:
        product = self._product_group(anchor, spec) if isinstance(spec, Contract) else None
        if product is not None:
            return product
        if isinstance(spec, Contract) and spec.windows is not None:
            pad = self._pad_of(anchor)
            return WindowFolds(self.values, self.names, anchor, spec, pad).lower(
                self._store_outputs
            )
        shape = anchor.output.type.static_shape
        folds = Folds(self.values, self.names, anchor, self.rows)

        def write(scope: Scope, index: tuple[Index, ...]) -> None:
            elements = self.rows.elements(index, shape)
            totals = (
                folds.reduce(scope, spec, elements)
                if isinstance(spec, Reduce)
                else folds.contract(scope, spec, elements)
            )
            for element, value in zip(elements, totals, strict=True):
                scope.remember((anchor.output, element), value)
            self._store_outputs(shape, scope, *elements)

        return self.nest(self.rows.outside(shape), write)

    def _pad_of(self, anchor: Node) -> Place | None:
        """Return the pad that windows of `anchor` are read through, if its group has one."""
        padded = anchor.inputs[0].node
        spec = self.partition.specs[padded] if padded in self.group.nodes else None
        return spec if isinstance(spec, Place) else None

    # ----------------------------------------------------------------------- ColumnMap

    def _column_group(self, anchor: Node, spec: ColumnMap) -> tuple[Stmt, ...]:
        output = anchor.output
        shape = output.type.static_shape
        counting = spec.around(shape)

        def write(scope: Scope, index: tuple[Index, ...]) -> None:
            columns = [
                [
                    self.values.value(scope, t, (Index(i), *index))
                    for i in range(t.type.static_shape[0])
                ]
                for t in anchor.inputs
            ]
            places = places_within([(axis, shape[axis]) for axis in spec.axes])
            around: dict[int | str, Index] = dict(zip(counting, index, strict=True))
            for place, value in zip(places, spec.body(scope, *columns), strict=True):
                at = around | place
                element = tuple(at[axis] for axis in range(len(shape)))
                self.values.store(scope, output, element, value)

        return self.nest([shape[axis] for axis in counting], write)

    # ------------------------------------------------------------------------ Scatter

    def _scatter_group(self, anchor: Node, spec: Scatter) -> tuple[Stmt, ...]:
        _base, updates, *indices = anchor.inputs
        output = anchor.output
        shape = output.type.static_shape

        # Rows may meet, so they are written one after another.
        ordered = set(range(spec.axis, spec.axis + indices[0].ndim))

        def write(scope: Scope, index: tuple[Index, ...]) -> None:
            place = self.values.indexed(scope, anchor, spec, output, indices, index)
            ordered.difference_update(_apart(index, place[spec.axis : spec.axis + spec.count]))
            item = self.values.value(scope, updates, index)
            offset = self.values.linear(place, shape)
            for name in self.values.destinations(output):
                if spec.combine is None:
                    scope.statements.append(Store(name, offset, item))
                    continue
                old = load_anew(scope, name, offset, output.dtype)
                scope.statements.append(Store(name, offset, spec.combine(scope, old, item)))

        body = self.nest(updates.type.static_shape, write, ordered=ordered)
        return (*self._copy_of_base(anchor), *body)

    def _copy_of_base(self, anchor: Node) -> tuple[Stmt, ...]:
        """Return the loops that copy what is scattered into, to where it is not already."""
        base, output = anchor.inputs[0], anchor.output
        copies = list(self.values.destinations(output))
        if self.values.is_in_memory(base) and self.values.source(base) in copies:
            copies.remove(self.values.source(base))
        if not copies:
            return ()

        def write(scope: Scope, index: tuple[Index, ...]) -> None:
            value = self.values.value(scope, base, index)
            offset = self.values.linear(index, output.type.static_shape)
            scope.statements.extend(Store(name, offset, value) for name in copies)

        return self.nest(output.type.static_shape, write)


def _index(axes: Sequence[tuple[str, int]]) -> tuple[Index, ...]:
    """Return the index that loops over `axes` are at: 0 along those of size 1.

    So it is what dividing out the position of an element gives, see `Values.reshaped`.
    """
    return tuple(Index() if extent == 1 else _of(variable) for variable, extent in axes)


def _apart(index: Sequence[Index], place: Sequence[Index]) -> list[int]:
    """Return the axes along which no two elements meet: an index is their position and no more."""
    moving = {p.terms[0][0] for p in place if len(p.terms) == 1}
    return [axis for axis, i in enumerate(index) if i.terms and i.terms[0][0] in moving]


def _of(variable: str) -> Index:
    return Index(0, ((variable, 1),))
