"""Kernel fusion: decide which nodes make one kernel.

Before, every node stands alone:

    %1 = multiply %x, %y : f32[64, 10]
    %2 = sum %1 {axes = [1]} : f32[64]
    %3 = exp %2 : f32[64]

After, one group computes all three, and only %3 is in memory. First, in this file, from the users
up: a Map, View, Iota or Gather joins the groups that use it, or opens one of its own if it must be
in memory. Then, in `fusion/merge.py`, from the operands down: a group of Maps joins the group that
computes one of its operands, as an epilogue or as one more result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from symgrad.cost_model import CHEAP_FLOPS, MAX_NODES
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Contract, Extern, Gather, Place, View
from symgrad.graph.traverse import topological
from symgrad.passes.costs import kernel_spec
from symgrad.passes.fusion.columns import is_long_written_out, makes_columns
from symgrad.passes.fusion.draft import (
    LOOKED_UP,
    Draft,
    Drafts,
    only_adds_ones,
    only_splits,
)
from symgrad.passes.fusion.early import is_made_beside, less_if_early, placed_if_early
from symgrad.passes.fusion.known_places import with_known_places
from symgrad.passes.fusion.merge import merge_from_operands, merge_siblings
from symgrad.passes.fusion.narrow_columns import narrow_columns
from symgrad.passes.fusion.order_groups import order_groups
from symgrad.passes.fusion.partition import Partition
from symgrad.passes.fusion.recompute import cheap_again
from symgrad.passes.fusion.windows import is_left_out, is_read_through

READ_BY_PRODUCT = "a product reads it many times"
MADE_EARLY = "it takes less memory than what it is made of"
PLACED_EARLY = "the product that it is made of writes it where it belongs"


def fuse(
    graph: Graph,
    first_status: int = 1,
    carried: Sequence[tuple[int, int]] = (),
    *,
    frees_early: bool = False,
) -> Partition:
    """Partition `graph`, whose sizes are all known, into groups.

    The nodes are numbered from `first_status` on, for the failures of a program to name them.
    `carried` are pairs of an output and an input whose next value it is, in the body of a loop.
    With `frees_early` those that free memory run first, in which order results have the same bits.
    """
    graph = narrow_columns(graph)
    specs = with_known_places({node: kernel_spec(node) for node in graph.nodes})
    drafts = _drafted(Drafts(graph, specs, first_status, carried, frees_early=frees_early))
    again = cheap_again(drafts)
    if again:
        drafts = _drafted(drafts.anew(again))
    return order_groups(_with_early(drafts, again))


def _with_early(drafts: Drafts, again: frozenset[Tensor]) -> Drafts:
    """Return drafts in which products make more of what others keep or place, if they can."""
    made: dict[Tensor, str] = {}
    for found_in, reason in ((less_if_early, MADE_EARLY), (placed_if_early, PLACED_EARLY)):
        found = found_in(drafts)
        if not found:
            continue
        more = made | dict.fromkeys([early.tensor for early in found], reason)
        changed = drafts.anew(again)
        for tensor, known in more.items():
            changed.require_memory(tensor, known)
        changed = _drafted(changed)
        if all(is_made_beside(changed, early) for early in found):
            drafts, made = changed, more
    return drafts


def _drafted(drafts: Drafts) -> Drafts:
    _assign_from_users(drafts)
    merge_from_operands(drafts, MAX_NODES)
    if drafts.carried:
        merge_siblings(drafts, MAX_NODES)
    return drafts


def _assign_from_users(drafts: Drafts) -> None:
    """Give every node that is used to the groups that compute it."""
    wanted, in_memory = drafts.wanted, drafts.in_memory
    for node in reversed(drafts.graph.nodes):
        for output in node.outputs:
            if output in wanted or output in in_memory:
                break
        else:
            continue
        match drafts.traits(node).home:
            case "memory":
                if node.output in drafts.roots:
                    drafts.copies.append(node.output)
            case "operand":
                _assign_reshape(drafts, node)
            case "users":
                _assign_inline(drafts, node)
            case "kernel" | "program":
                _assign_anchor(drafts, node)


def _assign_anchor(drafts: Drafts, node: Node) -> None:
    """Open a group around `node`, unless it is a pad that convolutions can read through."""
    users = [draft.anchor for draft in drafts.wanted.get(node.outputs[0], {}).values()]
    specs = {user: drafts.specs[user] for user in users if user is not None}
    contracts = {user: spec for user, spec in specs.items() if isinstance(spec, Contract)}
    if len(contracts) == len(users) and node.outputs[0] not in drafts.in_memory:
        if _assign_pad(drafts, node, contracts):
            return
        for output in node.outputs if contracts else ():
            drafts.require_memory(output, READ_BY_PRODUCT)
    _join(drafts, node, drafts.open(node, anchor=node))


def _assign_pad(drafts: Drafts, node: Node, users: Mapping[Node, Contract]) -> bool:
    """Give a pad to the groups of `users` if these are convolutions that read its operand."""
    spec, reason = drafts.specs[node], "a convolution reads it many times"
    if is_left_out(node, users, drafts.specs):
        # Channels of it lie side by side, which those of a view need not.
        drafts.require_memory(node.inputs[0], reason)
    elif is_read_through(node, spec, users):
        _require_strided(drafts, node.inputs[0], reason)
    else:
        return False
    for draft in drafts.wanted[node.output].values():
        _join(drafts, node, draft)
    return True


def _assign_reshape(drafts: Drafts, node: Node) -> None:
    (operand,) = node.inputs
    output = node.output
    if output in drafts.roots and _is_leaf_in_another_shape(drafts, operand):
        _join(drafts, node, drafts.open(node, anchor=None))
        return
    is_split = only_splits(operand.type.static_shape, output.type.static_shape)
    is_inline = drafts.traits(operand.node).is_inline and output not in drafts.in_memory
    is_inline = is_inline and not _is_written_over(drafts, node)
    if is_inline and (is_split or makes_columns(drafts, node)):
        for draft in drafts.wanted[output].values():
            _join(drafts, node, draft)
        return
    # The same elements in the same order: the operand's buffer serves for both.
    drafts.storage[output] = operand
    drafts.require_memory(operand, drafts.in_memory.get(output, "a reshape of it is read"))


def _is_written_over(drafts: Drafts, reshaped: Node) -> bool:
    """Return whether a scatter writes into another shape of what is read elsewhere as well.

    In place it needs no copy of that, if it is in memory under its first shape.
    """
    (operand,), output = reshaped.inputs, reshaped.output
    wanted = drafts.wanted[output]
    if isinstance(drafts.specs[operand.node], View) or output.type.count == 0:
        return False
    if len({*wanted, *drafts.wanted.get(operand, {})}) < 2:
        return False
    anchors = [draft.anchor for draft in wanted.values() if draft.anchor is not None]
    return any(drafts.traits(a).writes_rows and a.inputs[0] is output for a in anchors)


def _is_leaf_in_another_shape(drafts: Drafts, tensor: Tensor) -> bool:
    while drafts.traits(tensor.node).is_reshape:
        (tensor,) = tensor.node.inputs
    return drafts.traits(tensor.node).home == "memory"


def _assign_inline(drafts: Drafts, node: Node) -> None:
    reason, output = _reason_for_memory(drafts, node), node.outputs[0]
    if reason is not None:
        drafts.reasons[output] = reason
        _join(drafts, node, drafts.open(node, anchor=None))
        return
    for draft in drafts.wanted[output].values():
        _join(drafts, node, draft)


def _reason_for_memory(drafts: Drafts, node: Node) -> str | None:
    """Return why `node` must be in memory, or None if its users can compute it."""
    output = node.outputs[0]
    known = drafts.in_memory.get(output)
    if known is not None:
        return known
    users = drafts.wanted[output].values()
    if len(users) > 1 or output in drafts.repeated:
        reason = _reason_for_several(drafts, node)
        if reason is not None:
            return reason
    for draft in users:
        if draft.anchor is not None and is_long_written_out(drafts, node, draft):
            return "it is written out for each element of a column, which is much code"
    for draft in users:
        if len(draft.nodes) >= MAX_NODES:
            return f"the kernel that uses it computes {MAX_NODES} nodes already"
    if drafts.has_lookups:
        is_apart = any(drafts.is_apart(node, drafts.anchor_spec(draft)) for draft in users)
        if is_apart or _is_written_apart(drafts, node, users):
            return LOOKED_UP
    return None


def _reason_for_several(drafts: Drafts, node: Node) -> str | None:
    """Return why `node`, which several users or elements need, is not computed for each."""
    output, flops = node.outputs[0], drafts.flops(node)
    wanted = drafts.wanted[output]
    are_several = len(wanted) > 1
    if output in drafts.repeated and flops > CHEAP_FLOPS:
        return (
            f"it is repeated along an axis and costs {flops} flops an element, "
            f"more than {CHEAP_FLOPS}"
        )
    is_kept = are_several and output not in drafts.again
    is_gather = is_kept and isinstance(drafts.specs[node], Gather)
    if is_kept and (flops or is_gather):
        if not is_gather:
            drafts.shared.add(output)
        return f"{len(wanted)} kernels use it and it costs {flops} flops an element"
    if is_kept and _stands_for_several(drafts, node):
        drafts.shared.add(output)
        return f"{len(wanted)} kernels use it, and each would read what it is made of"
    return None


def _stands_for_several(drafts: Drafts, node: Node) -> bool:
    """Return whether several tensors as large would be in memory for `node` alone, were it not.

    So it is with a mask that is made of two comparisons.
    """
    size, known = node.output.type.count, (drafts.wanted, drafts.in_memory)
    apart = {t for t in node.inputs if t.type.count == size and not any(t in k for k in known)}
    made = [t for t in apart if drafts.traits(t.node).is_inline and drafts.flops(t.node)]
    return len(made) > 1 and node.output.type.nbytes <= sum(t.type.nbytes for t in made)


def _is_written_apart(drafts: Drafts, node: Node, users: Iterable[Draft]) -> bool:
    """Return whether a scatter that writes single elements would compute `node` for each."""
    anchors = (draft.anchor for draft in users if draft.anchor is not None)
    is_scattered = any(drafts.is_apart(a, drafts.specs[a]) for a in anchors)
    return is_scattered and drafts.flops(node) > CHEAP_FLOPS


def _join(drafts: Drafts, node: Node, draft: Draft) -> None:
    """Make `draft` compute `node`, and so want its operands."""
    draft.nodes.add(node)
    draft.joined.append(node)
    wanted, number = drafts.wanted, id(draft)
    for operand in node.inputs:
        if operand in wanted:
            wanted[operand][number] = draft
        else:
            wanted[operand] = {number: draft}
    repeated = drafts.repeated
    if node.definition in drafts.plain:  # as most are
        if repeated and node.outputs[0] in repeated:
            repeated.update(node.inputs)
        return
    traits = drafts.traits(node)
    if traits.operands != "values":
        _require_operands(drafts, node)
    if traits.writes_rows and _may_be_in_place(drafts, node):
        _compute_before_rows(drafts, node)
    is_repeat = traits.reads == "one" and node.inputs[0].type.count < node.output.type.count
    if is_repeat or (node.outputs[0] in repeated and traits.is_one_to_one):
        repeated.update(node.inputs)


def _require_operands(drafts: Drafts, node: Node) -> None:
    """Require that the operands of `node` are in memory, if its structure reads them there."""
    match drafts.traits(node).operands:
        case "values":
            pass
        case "all":
            for operand in node.inputs:
                # A pad may be computed by the convolutions that read it, see `_assign_anchor`.
                stored = _through_views(drafts, operand)
                if not isinstance(drafts.specs[stored.node], Place):
                    drafts.require_memory(stored, READ_BY_PRODUCT)
        case "first":
            reason = "a gather reads it at indices that are data"
            _require_strided(drafts, node.inputs[0], reason)
        case "whole":
            is_extern = isinstance(drafts.specs[node], Extern)
            reader = f"the graphs of a {node.op} read it"
            reader = "a function of C reads it" if is_extern else reader
            for operand in node.inputs:
                drafts.require_memory(operand, reader)


def _compute_before_rows(drafts: Drafts, scatter: Node) -> None:
    """Require that what comes from other rows is computed before any row is written."""
    base, *written = scatter.inputs
    for operand in written:
        if base.node in topological([operand]):
            drafts.require_memory(operand, "it is written into what it is computed from")


def _may_be_in_place(drafts: Drafts, scatter: Node) -> bool:
    """Return whether `scatter` may leave its result where what it writes into is.

    That is what a kernel makes, or a loop variable or, in a program, a variable of which this is
    the next value.
    """
    graph, base = drafts.graph, scatter.inputs[0]
    if drafts.traits(base.node).is_anchor:
        return True
    state = base.node.attrs.get("state")
    if any(u.value is scatter.output and u.variable.state is state for u in graph.updates):
        return True
    return any(
        graph.outputs[output] is scatter.output and graph.inputs[input_] is base
        for output, input_ in drafts.carried
    )


def _require_strided(drafts: Drafts, operand: Tensor, reason: str) -> None:
    """Require that `operand` is in memory, though perhaps seen through affine views."""
    drafts.require_memory(_through_views(drafts, operand), reason)


def _through_views(drafts: Drafts, operand: Tensor) -> Tensor:
    """Return what affine views that are `operand` are views of.

    Axes of size 1 may be dropped from them, as those of an int beside an index.
    """
    while isinstance(drafts.specs[operand.node], View) or _is_view_without_ones(drafts, operand):
        (operand,) = operand.node.inputs
    return operand


def _is_view_without_ones(drafts: Drafts, tensor: Tensor) -> bool:
    if not drafts.traits(tensor.node).is_reshape:
        return False
    (operand,) = tensor.node.inputs
    is_plain = only_adds_ones(operand.type.static_shape, tensor.type.static_shape)
    return is_plain and isinstance(drafts.specs[operand.node], View)
