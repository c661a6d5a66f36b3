"""Accumulation in place: sums over rows of several kernels, which are added up, are the same sums.

    launch @k0(input0, input1, temporary0)           // a sum over the rows of the first block
    launch @k1(input0[32768], input1, temporary1)    // one over those of the second, twice as long
    launch @k2(temporary1, temporary0, output0)      // both together

becomes

    launch @k3(input0, input1, temporary2)
    launch @k4(input0[32768], input1, temporary2, output0)

where the second kernel adds to what the first one has left, as blocks of queries of a causal
attention do to the gradients of keys and values. So there is no array of each block's, which would
be written, and read again once all blocks are done. Sums of pieces that threads share are of a
piece of every kernel, and what pieces come to is added up once. It depends on what kernels are for
one thread, and so does the order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

from symgrad.codegen.loops.index_arithmetic import bounds, index_of
from symgrad.codegen.loops.language import (
    Atom,
    Check,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Mode,
    Op,
    Param,
    Prefix,
    Product,
    Ref,
    SortRows,
    Stmt,
    Store,
)
from symgrad.codegen.program.language import Argument, Instr, Launch, root
from symgrad.codegen.program.launch_fusions import LaunchFusions
from symgrad.codegen.schedule.fuse_products import RowFusion
from symgrad.codegen.schedule.row_stages import MatrixRows, Stage
from symgrad.codegen.schedule.row_sums import SharedSums
from symgrad.codegen.schedule.split_epilogue import result_axes, row_major
from symgrad.codegen.schedule.vectorize import perfect_nest
from symgrad.records import dataclass, replace

_WherePassed = tuple[Argument, int]


@dataclass(frozen=True, slots=True, eq=False)
class RowLaunch:
    """A launch of a fusion by rows, with the argument of each parameter and where it begins."""

    launch: Launch
    fusion: RowFusion
    places: Mapping[str, _WherePassed]


@dataclass(frozen=True, slots=True, eq=False)
class _AddingLoops:
    """Loops of a kernel that store the sum of what they load, each buffer at one place."""

    extents: dict[str, int]
    loads: dict[str, Index]
    store: Store


@dataclass(frozen=True, slots=True, eq=False)
class _Addend:
    """A sum over rows that a launch leaves in memory: of which parameter it is, `size` a matrix."""

    position: int
    of: RowLaunch
    param: Param
    size: int
    columns: int


class SumsShared:
    """Sums of the launches of a program that become the same, and the launches that take part."""

    def __init__(
        self,
        fusions: LaunchFusions,
        alone: MutableMapping[str, Kernel],
        launches: Sequence[RowLaunch],
        relaunched: Callable[[RowLaunch], Launch],
    ) -> None:
        self._fusions = fusions
        self._alone = alone
        self._made = launches
        self._among: list[tuple[int, RowLaunch]] = []
        self._relaunched = relaunched

    def share_in(self, instrs: list[Instr]) -> None:
        """Share sums of instructions that run one after another, in place."""
        launches = {id(made.launch): made for made in self._made}
        of_instrs = (launches.get(id(instr)) for instr in instrs)
        self._among = [(number, of) for number, of in enumerate(of_instrs) if of is not None]
        if not self._among:
            return
        changed: dict[int, RowLaunch] = {}
        left: dict[int, Launch | None] = {}
        for position, instr in enumerate(instrs):
            addends = self._addends(position, instrs) if isinstance(instr, Launch) else []
            if not addends or not isinstance(instr, Launch):
                continue
            self._share(addends, changed)
            left[position] = self._rest(position, instrs, addends, changed)
        for position, found in changed.items():
            instrs[position] = self._relaunched(found)
        for position in sorted(left, reverse=True):
            rest = left[position]
            instrs[position : position + 1] = [] if rest is None else [rest]

    def _addends(self, position: int, instrs: Sequence[Instr]) -> list[_Addend]:
        """Return the sums that a launch adds up which may be the same, [] if there are none."""
        adder = instrs[position]
        assert isinstance(adder, Launch), "launches add up"
        kernel = self._alone.get(adder.name, adder.kernel)
        parts = _parts_of(kernel)
        if parts is None or adder.statuses or all(len(part.loads) == 1 for part in parts):
            return []
        found: dict[str, _Addend] = {}
        for param, argument, start in zip(
            kernel.params, adder.arguments, adder.starts, strict=True
        ):
            addend = self._addend(position, adder, (argument, start))
            if param.mode == "in" and addend is not None:
                found[param.name] = addend
        ordered = sorted(found, key=lambda name: found[name].position)
        addends = [found[name] for name in ordered]
        return addends if _are_nested(addends, ordered, parts) else []

    def _addend(self, position: int, adder: Launch, place: _WherePassed) -> _Addend | None:
        """Return which sum over rows is at a place that nothing but the adder reads."""
        for number, of in self._among:
            if number >= position:
                return None
            if place not in of.places.values() or place[1]:
                continue
            if place[0] not in self._fusions.own_temporaries([of.launch, adder]):
                continue
            name = next(name for name, other in of.places.items() if other == place)
            (param,) = (p for p in of.fusion.params if p.name == name)
            size = param.count // math.prod(of.fusion.rows.batch)
            columns = _columns_of(of.fusion, param, size)
            if columns:
                return _Addend(number, of, param, size, columns)
        return None

    def _share(self, addends: Sequence[_Addend], changed: dict[int, RowLaunch]) -> None:
        """Note that the sums of launches are the same."""
        last = addends[-1]
        fusion = last.of.fusion
        count = math.prod(fusion.rows.batch) * fusion.pieces * last.size
        memory = self._fusions.temporary(replace(last.param, count=count))
        begun = 0
        for addend in addends:
            known = changed.get(addend.position, addend.of)
            name = f"sums{len(known.fusion.shared)}"
            shared = SharedSums(name, last.size, begun // addend.columns, addend is last)
            mode: Mode = "inout" if begun else "out"
            param = replace(addend.param, name=name, count=count, mode=mode)
            params = [p for p in known.fusion.params if p != addend.param or addend is last]
            made = replace(
                known.fusion,
                params=(*params, param),
                shared={**known.fusion.shared, addend.param.name: shared},
            )
            places = {**known.places, name: (memory, 0)}
            changed[addend.position] = replace(known, fusion=made, places=places)
            begun = addend.size

    def _rest(
        self,
        position: int,
        instrs: Sequence[Instr],
        addends: Sequence[_Addend],
        changed: dict[int, RowLaunch],
    ) -> Launch | None:
        """Return what is left of a launch that adds up, None if the last sum is its result."""
        adder, last = instrs[position], addends[-1]
        assert isinstance(adder, Launch), "launches add up"
        given = {addend.of.places[addend.param.name] for addend in addends[:-1]}
        pairs = list(zip(adder.arguments, adder.starts, strict=True))
        kept = [n for n, place in enumerate(pairs) if place not in given]
        kernel, alone = (
            _without(k, kept) for k in (adder.kernel, self._alone.get(adder.name, adder.kernel))
        )
        target = next(pairs[n] for n in kept if kernel.params[kept.index(n)].mode == "out")
        between = instrs[last.position : position]
        is_free = all(isinstance(i, Launch) and _is_free_of(i, target[0]) for i in between)
        if is_free and _copies_all(alone, last.param.count):
            known = changed[last.position]
            places = {**known.places, last.param.name: target}
            changed[last.position] = replace(known, places=places)
            return None
        shared = self._fusions.names.shared(kernel)
        if alone != kernel:
            self._alone[shared.name] = alone
        arguments, starts = (tuple(side) for side in zip(*(pairs[n] for n in kept), strict=True))
        return replace(
            adder, kernel=shared, arguments=arguments, starts=starts, fused=adder.fused or (adder,)
        )


def _parts_of(kernel: Kernel) -> list[_AddingLoops] | None:
    """Return the loops of a kernel if each stores the sum of what it loads, and nothing else is."""
    parts = []
    for statement in kernel.body:
        if not isinstance(statement, For):
            return None
        loops, body = perfect_nest(statement)
        *values, store = body
        loads: dict[str, Index] = {}
        unused: set[str] = set()
        for value in values:
            if not isinstance(value, Let):
                return None
            made = value.value
            if isinstance(made, Load) and made.buffer not in loads:
                loads[made.buffer] = made.index
            elif isinstance(made, Op) and len(names := _names(made) & unused) == 2:
                unused -= names
            else:
                return None
            unused.add(value.name)
        if not isinstance(store, Store) or not isinstance(store.value, Ref) or not loads:
            return None
        if unused != {store.value.name}:
            return None
        parts.append(_AddingLoops({loop.var: loop.extent for loop in loops}, loads, store))
    return parts or None


def _names(sum_of_two: Op) -> set[str]:
    """Return the values that an operation adds up, none if it is no addition."""
    is_sum = sum_of_two.name == "add"
    return {a.name for a in sum_of_two.args if isinstance(a, Ref)} if is_sum else set()


def _columns_of(fusion: RowFusion, param: Param, size: int) -> int:
    """Return how long rows of a sum are that a stage stores as it is, 0 if none does."""
    stages = list(_storing(fusion.stages, param.name))
    if len(stages) != 1 or param.mode != "out" or fusion.layouts.get(param.name):
        return 0
    (stage,) = stages
    product = stage.statement
    if not isinstance(product, Product) or not stage.is_sum or len(product.body) != 1:
        return 0
    (store,) = product.body
    if not isinstance(store, Store) or store.value != Ref(product.name, product.dtype):
        return 0
    axes = [*zip(fusion.rows.names, fusion.rows.batch, strict=True), *result_axes(product)]
    is_dense = store.index == row_major([(v, n) for v, n in axes if n > 1])
    columns = result_axes(product)[1][1]
    return columns if is_dense and math.prod(n for _, n in result_axes(product)) == size else 0


def _storing(stages: Sequence[Stage], name: str) -> Iterator[Stage]:
    for stage in stages:
        if any(isinstance(s, Store) and s.buffer == name for s in stage.statement.body):
            yield stage


def _are_nested(
    addends: Sequence[_Addend], names: Sequence[str], parts: Sequence[_AddingLoops]
) -> bool:
    """Return whether each of the sums is of the first elements of the next one."""
    if len(addends) < 2 or len({addend.position for addend in addends}) < len(addends):
        return False
    rows: set[MatrixRows | tuple[int, ...] | int] = {a.of.fusion.rows.batch for a in addends}
    pieces = {a.of.fusion.pieces for a in addends}
    sizes = [a.size for a in addends]
    if len(rows) > 1 or len(pieces) > 1 or len({a.columns for a in addends}) > 1:
        return False
    if sizes != sorted(sizes) or len({a.param.dtype for a in addends}) > 1:
        return False
    by_name = dict(zip(names, sizes, strict=True))
    return all(_is_first_of(part, by_name, names[-1]) for part in parts)


def _is_first_of(part: _AddingLoops, sizes: Mapping[str, int], last: str) -> bool:
    """Return whether loops add up all sums that have an element, at its place in each matrix."""
    whole = part.loads.get(last)
    if whole is None:
        return False
    within = _within(whole, sizes[last])
    low, high = bounds(within, part.extents)
    for name, size in sizes.items():
        index = part.loads.get(name)
        if (index is not None) != (low < size) or (index is not None and high >= size):
            return False
        if index is not None and _moved(whole, sizes[last], size) != index:
            return False
    return True


def _within(index: Index, size: int) -> Index:
    terms = ((atom, by) for atom, by in index.terms if by % size)
    return index_of(*terms, const=index.const)


def _moved(index: Index, old: int, new: int) -> Index:
    """Return the same place of a matrix where matrices have another size."""
    terms = ((atom, by if by % old else by // old * new) for atom, by in index.terms)
    return index_of(*terms, const=index.const)


def _without(kernel: Kernel, kept: Sequence[int]) -> Kernel:
    """Return a kernel that adds up what is left of its parameters."""
    params = tuple(kernel.params[number] for number in kept)
    names = {p.name for p in params}
    return replace(kernel, params=params, body=_only(kernel.body, names, {}))


def _only(body: Sequence[Stmt], names: set[str], given: dict[str, Atom | None]) -> tuple[Stmt, ...]:
    """Return statements without loads of other buffers; `given` is what values are then."""
    found: list[Stmt] = []

    def now(atom: Atom) -> Atom | None:
        return given.get(atom.name, atom) if isinstance(atom, Ref) else atom

    for statement in body:
        match statement:
            case Let(name, Load(buffer)) if buffer not in names:
                given[name] = None
            case Let(name, Op("add", (left, right))) if None in (now(left), now(right)):
                given[name] = now(right) if now(left) is None else now(left)
            case Let(_, Op("add", (left, right)) as value):
                sides = tuple(a for a in (now(left), now(right)) if a is not None)
                found.append(replace(statement, value=replace(value, args=sides)))
            case Store(value=stored):
                left_of_sum = now(stored)
                assert left_of_sum is not None, "one sum is left"
                found.append(replace(statement, value=left_of_sum))
            case For():
                found.append(replace(statement, body=_only(statement.body, names, given)))
            case Let() | Check() | Product() | Fold() | Prefix() | SortRows():
                found.append(statement)
    return tuple(found)


def _copies_all(kernel: Kernel, count: int) -> bool:
    """Return whether a kernel copies all elements of one buffer to the same places of another."""
    parts = _parts_of(kernel) or []
    copied = sum(math.prod(part.extents.values()) for part in parts)
    is_copy = all([*part.loads.values()] == [part.store.index] for part in parts)
    return is_copy and copied == count and len(kernel.params) == 2


def _is_free_of(launch: Launch, argument: Argument) -> bool:
    return all(root(other) != root(argument) for other in launch.arguments)
