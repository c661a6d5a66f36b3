"""Scheduling of fusion groups: their topological order, and in-place updates of variables.

This is the last step of the fuse pass.

A variable's new value may be written over the old one if whatever reads the old value can run
before, and if nothing that can fail runs after. Each such wish is an edge between groups; one
that would close a circle is given up, and the new value is copied at the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from symgrad.cost_model import FEW_OF_MANY
from symgrad.graph.graph import Update
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.positions import are_in_range
from symgrad.graph.structures import AtIndices, Extern, KernelSpec, Reduce, checked_axes, traits_of
from symgrad.graph.traverse import topological
from symgrad.graph.types import State, is_unbounded
from symgrad.passes.fusion.draft import Draft, Drafts
from symgrad.passes.fusion.freeing_order import freeing_order
from symgrad.passes.fusion.partition import (
    FusionGroup,
    Partition,
    Specs,
    fresh_bases,
    written_over,
)
from symgrad.passes.fusion.placing import placed_results


def order_groups(drafts: Drafts) -> Partition:
    """Finish the groups and put them in a topological order, in which they can run."""
    live = [draft for draft in drafts.all if draft.merged_into is None]
    precedence = _Precedence(drafts, live)
    graph = drafts.graph
    in_place = frozenset(update for update in graph.updates if precedence.put_last(update))
    overwriting = {
        output: input_
        for output, input_ in drafts.carried
        if precedence.overwrite(graph.outputs[output], graph.inputs[input_])
    }
    rewriting = precedence.rewriting(in_place, overwriting)
    read = set(drafts.roots)
    for draft in live:
        read.update(drafts.read_from_memory(draft))
    needed = {drafts.stored(t) for t in read}
    ordered = precedence.ordered()
    copiers = _copiers(drafts, ordered)
    groups = [_finish(drafts, draft, needed, copiers.get(id(draft), [])) for draft in ordered]
    held = {drafts.stored(update.value) for update in graph.updates}
    held |= {drafts.stored(graph.outputs[output]) for output in overwriting}
    taken = {*held, *rewriting, *rewriting.values()}
    copied = {leaf for leaves in copiers.values() for leaf in leaves}
    # Before anything else: a variable that is a result gives its old value.
    copies = [
        FusionGroup((), None, (leaf,), (leaf,), leaf.type.static_shape)
        for leaf in drafts.copies
        if leaf not in copied
    ]
    return Partition(
        drafts.graph,
        drafts.specs,
        (*copies, *groups),
        drafts.storage,
        in_place,
        overwriting,
        rewriting,
        placed_results(drafts, groups, taken, taken - fresh_bases(rewriting, held)),
        drafts.reasons,
        {node: i for i, node in enumerate(drafts.graph.nodes, drafts.first_status)},
    )


def _copiers(drafts: Drafts, ordered: list[Draft]) -> dict[int, list[Tensor]]:
    """Return, by the id of a group, the leaves it copies beside what it computes.

    In the body of a loop a leaf that is a result is a loop variable to be recorded, and a group of
    Maps that reads each of its elements anyway can write it. Such a group runs before, or while,
    the loop variable is overwritten: it is one of its readers.
    """
    found: dict[int, list[Tensor]] = {}
    for leaf in drafts.copies if drafts.carried else ():
        for draft in ordered:
            is_reader = draft.anchor is None and leaf in set(drafts.read_from_memory(draft))
            shape = leaf.type.static_shape
            if is_reader and draft.domain == shape and leaf not in drafts.moved(draft):
                found.setdefault(id(draft), []).append(leaf)
                break
    return found


def _finish(drafts: Drafts, draft: Draft, needed: set[Tensor], copied: list[Tensor]) -> FusionGroup:
    nodes = drafts.in_order(draft.nodes)
    read = (t for node in nodes for t in node.inputs if t.node not in draft.nodes)
    inputs = dict.fromkeys(map(drafts.stored, read))
    results = drafts.in_order(draft.results)
    return FusionGroup(
        nodes=tuple(nodes),
        anchor=draft.anchor,
        outputs=(
            *(t for n in results for t in n.outputs if t in needed or n.outputs[1:]),
            *copied,
        ),
        inputs=tuple(inputs),
        domain=draft.domain,
    )


class _Precedence:
    """Which group must run before which."""

    def __init__(self, drafts: Drafts, live: list[Draft]) -> None:
        self._drafts = drafts
        self._live = sorted(live, key=self._last_position)
        self._number = {id(draft): i for i, draft in enumerate(self._live)}
        self._after: list[set[int]] = [set() for _ in self._live]
        self._readers: dict[State | Tensor, set[int]] = {}
        self._fallible: set[int] = set()
        self._new_values = {update.value for update in drafts.graph.updates}
        for number, draft in enumerate(self._live):
            self._note_reads(number, draft)
        # Of waits for other processes only the first is before all updates: what later ones wait
        # for is on its way, and fails only with another process, which ends this one as well.
        waits = [number for number, draft in enumerate(self._live) if self._when(draft) == "late"]
        self._fallible -= {*waits[1:]}

    def _last_position(self, draft: Draft) -> int:
        return max(self._drafts.position[node] for node in draft.results)

    def _note_reads(self, number: int, draft: Draft) -> None:
        for tensor in self._drafts.read_from_memory(draft):
            stored = self._drafts.stored(tensor)
            home = self._drafts.home.get(stored.node)
            if home is not None:
                self._after[self._number[id(home.final())]].add(number)
            self._readers.setdefault(state_of(stored.node) or stored, set()).add(number)
        fallible = draft.nodes & self._drafts.fallible
        if fallible and _can_fail(fallible, self._before_rows(draft), self._drafts.specs):
            self._fallible.add(number)

    def _before_rows(self, draft: Draft) -> list[Node]:
        """Return what runs before a group that writes rows of a variable, none for others.

        Where memory is limited before one that writes any rows: updates that wait keep much alive.
        """
        if draft.anchor is None or not self._drafts.traits(draft.anchor).writes_rows:
            return []
        if not self._drafts.frees_early and draft.anchor.outputs[0] not in self._new_values:
            return []
        return [n for n in topological(draft.anchor.inputs) if n not in draft.nodes]

    def put_last(self, update: Update) -> bool:
        """Make every reader of the old value run before its update, if that is possible.

        And everything that can fail, so that a step that fails leaves the state as it was.
        """
        return self._put_after(update.value, update.variable.state, self._fallible)

    def overwrite(self, value: Tensor, old: Tensor) -> bool:
        """Make every reader of the input `old` run before `value` is written over it."""
        return self._put_after(value, old, set())

    def rewriting(
        self, in_place: Collection[Update], overwriting: Mapping[int, int]
    ) -> dict[Tensor, Tensor]:
        """Return which results are written over what they hold before, a result too.

        So are those of scatters, and of functions that write over an operand. That takes the place
        of the last result: what it holds before, of a variable or a loop, must be overwritten by
        the first result that is put there, and so by the last before it.
        """
        drafts, graph = self._drafts, self._drafts.graph
        held: dict[Tensor, tuple[State | Tensor, bool]] = {
            drafts.stored(u.value): (u.variable.state, True) for u in in_place
        }
        for output, input_ in overwriting.items():
            held[drafts.stored(graph.outputs[output])] = graph.inputs[input_], False
        kept = {drafts.stored(t) for t in drafts.roots}
        found: dict[Tensor, Tensor] = {}
        for value, base in self._written_over():
            if base in kept or base.node not in drafts.home or is_unbounded(base.type):
                continue
            old, is_state = held.get(value, (None, False))
            if not self.overwrite(value, base):
                continue
            if old is not None:
                before = self._fallible if is_state else set()
                if not self._put_after(base, old, before):
                    continue
                held[base] = old, is_state
            found[value] = base
        return found

    def _written_over(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield what may be written over something, with that, the last groups first."""
        for draft in reversed(self._live):
            if draft.anchor is not None:
                for result, operand in written_over(self._drafts.specs[draft.anchor]):
                    base = self._drafts.stored(draft.anchor.inputs[operand])
                    yield draft.anchor.outputs[result], base

    def _put_after(self, value: Tensor, old: State | Tensor, more: set[int]) -> bool:
        home = self._drafts.home.get(self._drafts.stored(value).node)
        if home is None or not self._reads_own_element(home.final(), old):
            return False
        number = self._number[id(home.final())]
        earlier = (self._readers.get(old, set()) | more) - {number}
        if number in more or self._reaches(number, earlier):
            return False
        for other in earlier:
            self._after[other].add(number)
        return True

    def _reads_own_element(self, writer: Draft, old: State | Tensor) -> bool:
        if self._writes_over(writer, old):
            return True
        moved = self._drafts.moved(writer)
        for tensor in self._drafts.read_from_memory(writer):
            if tensor in moved and self._is_old(tensor, old):
                return False
        return True

    def _writes_over(self, writer: Draft, old: State | Tensor) -> bool:
        """Return whether `writer` only writes in `old`, and reads nothing of it.

        What it does not write is where it should be already.
        """
        anchor = writer.anchor
        if anchor is None:
            return False
        readers = [n for n in writer.nodes for t in n.inputs if self._is_old(t, old)]
        bases = [anchor.inputs[number] for _, number in written_over(self._drafts.specs[anchor])]
        return readers == [anchor] and any(self._is_old(base, old) for base in bases)

    def _is_old(self, tensor: Tensor, old: State | Tensor) -> bool:
        stored = self._drafts.stored(tensor)
        return stored is old or (isinstance(old, State) and state_of(stored.node) is old)

    def _reaches(self, start: int, goals: Iterable[int]) -> bool:
        wanted = set(goals)
        pending, seen = [start], {start}
        while pending:
            for following in self._after[pending.pop()] - seen:
                if following in wanted:
                    return True
                seen.add(following)
                pending.append(following)
        return False

    def ordered(self) -> list[Draft]:
        """Return the groups, those that can run first in the order of the graph.

        But for what is best called early, with all that it needs, and what is best called late.
        """
        waiting = [0] * len(self._live)
        for following in self._after:
            for number in following:
                waiting[number] += 1
        rank = self._ranks()
        ready = [(rank[i], i) for i, count in enumerate(waiting) if count == 0]
        heapq.heapify(ready)
        order: list[Draft] = []
        while ready:
            _, number = heapq.heappop(ready)
            order.append(self._live[number])
            for user in self._after[number]:
                waiting[user] -= 1
                if waiting[user] == 0:
                    heapq.heappush(ready, (rank[user], user))
        assert len(order) == len(self._live), "groups wait for each other"
        return self._freeing(order) if self._drafts.frees_early else order

    def _freeing(self, order: list[Draft]) -> list[Draft]:
        """Return `order` with groups earlier that free memory, unless calls are in an order."""
        drafts = self._drafts
        if any(self._when(draft) for draft in order):
            return order
        kept = {drafts.stored(t) for t in drafts.roots}
        stored = [{*map(drafts.stored, drafts.read_from_memory(d))} for d in self._live]
        reads = [{t for t in s if t.node in drafts.home and t not in kept} for s in stored]
        made = [[t for n in d.results for t in n.outputs if t not in kept] for d in self._live]
        numbers = [self._number[id(draft)] for draft in order]
        return [self._live[i] for i in freeing_order(numbers, self._after, reads, made)]

    def _ranks(self) -> list[int]:
        """Return for each group a number: of those that can run, the least is run first.

        That is the place of the first early call which needs it, among all early calls; that of
        other groups is behind, and late calls come last. What makes little of much, as the sum for
        a bias does, comes before all: what it reads is in caches then, and is needed no longer.
        """
        when = [self._when(draft) for draft in self._live]
        early = [number for number, found in enumerate(when) if found == "early"]
        if not early:
            return [0] * len(self._live)
        before: list[list[int]] = [[] for _ in self._live]
        for number, following in enumerate(self._after):
            for user in following:
                before[user].append(number)
        # An early call is made after those that it waits for, as calls in an order do.
        depth = {number: len(self._reached(number, before) & set(early)) for number in early}
        ranks = [len(early) + (found == "late") for found in when]
        for place, number in enumerate(sorted(early, key=lambda n: (depth[n], n))):
            for needed in self._reached(number, before):
                ranks[needed] = min(ranks[needed], place)
        return [-1 if self._shrinks(d) else rank for d, rank in zip(self._live, ranks, strict=True)]

    def _shrinks(self, draft: Draft) -> bool:
        """Return whether a reduction has results much smaller than something that it reads."""
        if draft.anchor is None or not isinstance(self._drafts.specs[draft.anchor], Reduce):
            return False
        made = sum(t.type.nbytes for node in draft.results for t in node.outputs)
        most = max((t.type.nbytes for t in self._drafts.read_from_memory(draft)), default=0)
        return made * FEW_OF_MANY <= most

    def _when(self, draft: Draft) -> str | None:
        return when_called(draft.anchor, self._drafts.specs)

    @staticmethod
    def _reached(start: int, edges: Sequence[Collection[int]]) -> set[int]:
        pending, seen = [start], {start}
        while pending:
            new = set(edges[pending.pop()]) - seen
            seen |= new
            pending += new
        return seen


def when_called(anchor: Node | None, specs: Specs) -> str | None:
    """Return when a group with this anchor is best called, early or late, if that is known."""
    spec = None if anchor is None else specs[anchor]
    return spec.function.when if isinstance(spec, Extern) else None


def _can_fail(nodes: Iterable[Node], before: Iterable[Node], specs: Specs) -> bool:
    """Return whether a group of `nodes` can fail, given that `before` ran and did not.

    What is nested is taken to be able to fail: it often indexes, and a loop may be interrupted. A
    scatter to where something was gathered before finds its indices in range, and so does what is
    at positions that the graph tells.
    """
    before = [n for n in before if not traits_of(specs[n]).writes_rows]
    gathered = {checked_place(n, specs[n]) for n in before if checked_axes(specs[n])}
    for node in nodes:
        traits, axes = traits_of(specs[node]), checked_axes(specs[node])
        if traits.writes_rows and checked_place(node, specs[node]) in gathered:
            continue
        if traits.is_instruction or (axes and not is_surely_in_range(node, specs[node])):
            return True
    return False


def is_surely_in_range(node: Node, spec: KernelSpec | None) -> bool:
    """Return whether the graph tells that no index of `node` is out of range."""
    axes = checked_axes(spec)
    if not axes or not isinstance(spec, AtIndices) or spec.window is not None:
        return not axes
    sizes = node.inputs[0].type.static_shape[axes.start : axes.stop]
    return are_in_range(node.inputs[-len(axes) :], sizes)


def checked_place(node: Node, spec: KernelSpec | None) -> tuple[object, ...]:
    """Return what decides whether indices are in range: the indices and the sizes of their axes.

    And those of the blocks that begin there, where a block does, and whether they may be negative.
    """
    axes = checked_axes(spec)
    shape = node.inputs[0].shape[axes.start : axes.stop]
    of_blocks = (spec.window, spec.bound) if isinstance(spec, AtIndices) else ()
    return (of_blocks, *node.inputs[-len(axes) :], *shape)


def state_of(node: Node) -> State | None:
    """Return the state that `node` reads, if it is a variable."""
    state = node.attrs.get("state")
    return state if isinstance(state, State) else None
