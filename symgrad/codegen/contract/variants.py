"""Function specialisation for a GEMM: each microkernel and packer that its plan asks for.

Tiles come in at most two heights and panels in at most two widths, so a plan needs at most four
microkernels and two packers for each operand. The calls choose among them by flags of the tile.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

from symgrad.codegen import ir
from symgrad.codegen.contract.calls import are_passed, call_of_vectors, call_one, selected
from symgrad.codegen.contract.digits import CountedAxis
from symgrad.codegen.contract.dot_leaves import dot_kernel
from symgrad.codegen.contract.elements import Elements, index
from symgrad.codegen.contract.kernels.assembled import is_assembled
from symgrad.codegen.contract.kernels.leaf_functions import leaf_function
from symgrad.codegen.contract.kernels.pack import PanelPacker
from symgrad.codegen.contract.kernels.register_tile import Microkernel, Told
from symgrad.codegen.contract.kernels.walking import scales_distances
from symgrad.codegen.contract.lifted import Lift
from symgrad.codegen.contract.methods import Packing
from symgrad.codegen.contract.operand import Operand
from symgrad.codegen.contract.pair_leaves import matrix_kernel, pair_kernel, pair_packer
from symgrad.codegen.contract.plans.borders import inner_borders
from symgrad.codegen.contract.plans.held import held_leaf
from symgrad.codegen.contract.plans.packing import packs_next, packs_within
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.prefetching import (
    bytes_a_step,
    is_next_near,
    next_panel_prefetched,
    right_lines_a_step,
)
from symgrad.codegen.contract.plans.unrolling import fills_iterations, is_even, turns_of
from symgrad.codegen.contract.prefetch_distances import (
    is_left_near,
    is_right_near,
    left_near,
    near_ahead,
    prefetches_apart,
    steps_ahead,
)
from symgrad.codegen.contract.split_leaves import split_kernel, split_packer
from symgrad.codegen.loops.strided import Digit
from symgrad.codegen.target import Target
from symgrad.cost_model.products import NEAR_STEPS, TOLD_ROWS, UNROLLED_STEPS
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Variants:
    """The functions of a plan: packers and kernels by height, then by width.

    Where there are two heights or widths, the full one comes first; `packing_kernels` are those of
    the first tile of a panel that is packed as it is read, of the heights that this may have. Where
    not all results are read, `narrow_kernels` are those of one vector, of two, and so on.
    Kernels are told the distances `told`, packers how far lines of the operands are apart, if so.
    """

    kernels: tuple[tuple[ir.Value, ...], ...]
    packing_kernels: tuple[tuple[ir.Value, ...], ...]
    left_packers: tuple[ir.Value, ...]
    right_packers: tuple[ir.Value, ...]
    told: tuple[ir.Value, ...] = ()
    left_apart: tuple[ir.Value, ...] = ()
    right_apart: tuple[ir.Value, ...] = ()
    narrow_kernels: tuple[tuple[tuple[ir.Value, ...], ...], ...] = ()

    def lifted(self, lift: Lift) -> Variants:
        """Return these with microkernels that calls pass, if there is a function to `lift` them."""
        kernels = tuple(tuple(map(lift, row)) for row in self.kernels)
        narrow = tuple(tuple(tuple(map(lift, k)) for k in row) for row in self.narrow_kernels)
        told = tuple(map(lift, self.told))
        return replace(self, kernels=kernels, narrow_kernels=narrow, told=told)

    def call_kernel(
        self,
        builder: ir.IRBuilder,
        is_short: ir.Value,
        is_edge: ir.Value,
        arguments: tuple[ir.Value, ...],
        *,
        packs: bool = False,
        vectors: ir.Value | None = None,
    ) -> None:
        """Call the microkernel for the height and the width of a tile, or the one that packs.

        Given how many `vectors` are read of it, that of these is called, or none.
        """
        kernels = self.packing_kernels if packs else self.kernels
        if vectors is None and all(map(are_passed, kernels)):
            rows = [selected(builder, row, is_edge) for row in kernels]
            builder.call(selected(builder, rows, is_short), arguments)
            return
        calls = [partial(call_one, builder, row, is_edge, arguments) for row in kernels]
        if vectors is not None:
            some = zip(self.kernels, self.narrow_kernels, strict=True)
            each = [[(*few, full) for full, few in zip(*row, strict=True)] for row in some]
            calls = [
                partial(call_of_vectors, builder, row, is_edge, vectors, arguments) for row in each
            ]
        if len(calls) == 1:
            calls[0]()
            return
        with builder.if_else(is_short) as (short, tall):
            with short:
                calls[1]()
            with tall:
                calls[0]()


def emit_variants(
    module: ir.Module, plan: ContractPlan, target: Target, *, is_shared: bool = True
) -> Variants:
    """Emit the functions `plan` needs; threads that it `is_shared` by begin with any tile."""
    stored = Elements(plan.dtype, plan.compute, target)
    heights, widths = _heights(plan), _widths(plan)
    kernels = tuple(
        tuple(_emit_kernel(module, plan, stored, h, w) for w in widths) for h in heights
    )
    # The first tile of a run is a tall one, and a band begins with that if there is only one.
    is_tall = not is_shared and plan.row_tiles <= plan.band_tiles
    packing = tuple(
        tuple(_emit_kernel(module, plan, stored, h, w, packs=True) for w in widths)
        for h in (heights[:1] if is_tall else heights)
        if packs_within(plan)
    )
    if plan.method in ("split", "held"):
        packers = [split_packer(plan, stored, w) for w in widths if plan.pack_right != "none"]
        return Variants(kernels, (), (), tuple(leaf_function(module, p) for p in packers))
    left, right = plan.left.transposed, plan.right
    if plan.pack_left == "windows":
        left = replace(left, row_stride=plan.pixel_stride)
    if plan.multiplies_pairs:
        lefts = [(h, plan.packed_rows) for h in heights]
        rights = [(w, plan.whole_vectors(w)) for w in widths]
        pairs = [pair_packer(plan, target, left, size, is_left=True) for size in lefts]
        others = [pair_packer(plan, target, right, size, is_left=False) for size in rights]
        return Variants(
            kernels,
            packing,
            tuple(leaf_function(module, packer) for packer in pairs),
            tuple(leaf_function(module, packer) for packer in others),
        )
    left_packers = [
        _packer(plan, stored, plan.pack_left, left, (h, plan.packed_rows)) for h in heights
    ]
    right_packers = [
        replace(
            _packer(plan, stored, plan.pack_right, right, (w, plan.whole_vectors(w))),
            sees_zeros=plan.sees_zeros,
            next_panel=next_panel_prefetched(plan) if plan.pack_right == "transpose" else 0,
        )
        for w in widths
    ]
    return Variants(
        kernels,
        packing,
        _packing(module, plan.pack_left, left_packers),
        () if packs_within(plan) else _packing(module, plan.pack_right, right_packers),
        tuple(index(_distance(plan, told)) for told in _told(plan, stored)),
        _apart(plan.pack_left, left),
        _apart(plan.pack_right, right),
        tuple(
            tuple(_narrow_kernels(module, plan, stored, h, w) for w in widths)
            for h in heights
            if plan.read is not None
        ),
    )


def _apart(how: Packing, panel: Operand) -> tuple[ir.Value, ...]:
    """Return how far the lines are apart that a packer copies or transposes."""
    if how == "copy":
        return (index(panel.row_stride),)
    return (index(panel.column_stride),) if how == "transpose" else ()


def _heights(plan: ContractPlan) -> list[int]:
    is_mixed = plan.tall_tiles < plan.tiles_of_run
    return [plan.tile_rows, plan.tile_rows - 1] if is_mixed else [plan.tile_rows]


def _widths(plan: ContractPlan) -> list[int]:
    whole = [plan.tile_columns] if plan.column_run >= plan.tile_columns else []
    return [*whole, plan.edge_columns] if plan.edge_columns else whole


def _packing(
    module: ir.Module, how: Packing, packers: Sequence[PanelPacker]
) -> tuple[ir.LLVMFunction, ...]:
    return tuple(leaf_function(module, p) for p in packers) if how != "none" else ()


def _narrow_kernels(
    module: ir.Module, plan: ContractPlan, stored: Elements, rows: int, columns: int
) -> tuple[ir.LLVMFunction, ...]:
    """Return the kernels of tiles of one vector, of two and so on, in a panel of `columns`."""
    counts = range(1, columns // plan.lanes)
    emit = partial(_emit_kernel, module, plan, stored, rows, columns)
    return tuple(emit(narrow=count * plan.lanes) for count in counts)


def _emit_kernel(
    module: ir.Module,
    plan: ContractPlan,
    stored: Elements,
    rows: int,
    columns: int,
    *,
    packs: bool = False,
    narrow: int | None = None,
) -> ir.LLVMFunction:
    packed = Elements(plan.compute, plan.compute, stored.target)
    left = stored if plan.pack_left == "none" else packed
    right = stored if plan.pack_right == "none" else packed
    if plan.method == "dot":
        return leaf_function(module, dot_kernel(plan, left, right, rows, columns))
    if plan.method == "pairs":
        return leaf_function(module, pair_kernel(plan, rows, columns))
    if plan.method == "held":
        return leaf_function(module, held_leaf(plan, stored, rows, columns))
    if plan.method == "split":
        return leaf_function(module, split_kernel(plan, stored, rows, columns))
    if plan.method == "matrix":
        return leaf_function(module, matrix_kernel(plan, columns))
    kernel = _with_more_steps(plan, _microkernel(plan, left, right, rows, columns, packs))
    return leaf_function(module, kernel if narrow is None else replace(kernel, columns=narrow))


def _microkernel(
    plan: ContractPlan, left: Elements, right: Elements, rows: int, columns: int, packs: bool
) -> Microkernel:
    left_row, whole = plan.left.row_stride, plan.whole_vectors(columns)
    left_k = _along_k(plan, plan.left.column_stride)
    right_k = _along_k(plan, plan.right.row_stride, plan.right.row_digits)
    if plan.pack_left != "none":
        left_row, left_k = 1, _along_k(plan, plan.packed_rows)
    if plan.walks_pieces and plan.pack_left in ("none", "windows"):
        left_k = plan.walked_terms
    if plan.pack_right != "none" and not packs:
        right_k, columns = _along_k(plan, whole), whole
    ahead = steps_ahead(plan, left_k.stride, left) if left_row == 1 else 0
    is_near = ahead > 0 and is_left_near(plan, left)
    right_ahead = steps_ahead(plan, right_k.stride, right)
    brings_right_near = right_ahead > 0 and is_right_near(plan, right)
    right_near = 0 if packs else near_ahead(plan, right_k.stride, right)
    told = _told(plan, left)
    left_k = replace(left_k, stride=0) if "left_k" in told else left_k
    right_k = replace(right_k, stride=0) if packs or "right_k" in told else right_k
    chains, unrolled = turns_of(plan, left.target, rows, columns)
    return Microkernel(
        rows=rows,
        columns=columns,
        lanes=plan.lanes,
        left=left,
        left_row=0 if "left_row" in told else left_row,
        left_k=left_k,
        right=right,
        right_k=right_k,
        tile_columns=plan.tile_columns if _goes_by_rows(plan) else 0,
        tile_row=0 if "tile_row" in told else plan.tile_row,
        is_streamed=plan.is_streamed,
        resumes=plan.k_blocks > 1,
        is_empty=plan.k == 0,
        chains=chains,
        unrolled=unrolled,
        is_even=is_even(plan, unrolled),
        told=told,
        piece=plan.walked_piece if plan.walks_pieces else None,
        left_ahead=min(ahead, NEAR_STEPS) if is_near else ahead,
        brings_near=is_near,
        right_ahead=min(right_ahead, NEAR_STEPS) if brings_right_near else right_ahead,
        brings_right_near=brings_right_near,
        right_near=right_near,
        left_near=left_near(plan, left) if right_near and unrolled > 1 else 0,
        prefetches_next=plan.prefetches_next,
        prefetches_in_order=plan.prefetches_next and plan.has_dense_rows,
        prefetches_panel=plan.prefetches_panel or plan.prefetches_block,
        next_steps=plan.next_steps,
        next_source=plan.next_source.lines if plan.next_source is not None else None,
        right_lines=right_lines_a_step(plan),
        next_bytes=bytes_a_step(plan),
        brings_next_near=is_next_near(plan, left.target.memory),
        steps_a_row=max(plan.steps_a_row, unrolled) if plan.steps_a_row else 0,
        prefetches_apart=prefetches_apart(plan, left.target),
        prefetches_results=plan.prefetches_results,
        inner=inner_borders(plan),
        packs=packs,
    )


def _goes_by_rows(plan: ContractPlan) -> bool:
    """Return whether microkernels go through whole rows of a tile or a panel besides their own."""
    return packs_next(plan) or (plan.steps_a_row > 0 and not plan.prefetches_results)


def _with_more_steps(plan: ContractPlan, kernel: Microkernel) -> Microkernel:
    """Return a microkernel with as many steps an iteration as any has, if it is assembled.

    No elements are loaded ahead in registers of their own then, so none have to be free.
    """
    steps = UNROLLED_STEPS
    more = replace(kernel, unrolled=steps, is_even=is_even(plan, steps))
    more = replace(more, steps_a_row=max(kernel.steps_a_row, steps) if kernel.steps_a_row else 0)
    target = kernel.left.target
    takes_several = kernel.unrolled > 1 or fills_iterations(plan, target)
    is_better = kernel.unrolled < steps and takes_several and kernel.chains == 1
    return more if target.issues_few and is_better and is_assembled(more) else kernel


def _told(plan: ContractPlan, stored: Elements) -> tuple[Told, ...]:
    """Return which distances between elements of operands microkernels are told.

    So it is where finding what they read takes no instruction more and there are registers: steps
    of a left whose rows lie side by side, else its rows, and rows of a right. The latter where an
    iteration reads one step, since unrolled ones have no register to spare; and so it is with the
    former, which are to be few then, but where an address has a distance several times. Rows of a
    tile come last, when registers are free.
    """
    if plan.method != "tile" or plan.has_pieces:
        return ()
    told: list[Told] = []
    sizes = itertools.product(_heights(plan), _widths(plan))
    is_one = all(turns_of(plan, stored.target, *size) == (1, 1) for size in sizes)
    prefetches = plan.next_steps is not None or plan.goes_on is not None
    prefetches_by_row = plan.prefetches_next and not plan.has_dense_rows
    is_plain = plan.pack_left == "none" and not plan.left.row_digits and not prefetches
    is_few = is_one and plan.tile_rows in TOLD_ROWS
    has_registers = plan.tile_rows > 1 and (is_few or scales_distances(stored.target))
    if plan.pack_left == "none" and plan.left.row_stride == 1:
        told.append("left_k")
    elif is_plain and not prefetches_by_row and has_registers:
        told.append("left_row")
    is_plain = plan.pack_right == "none" and not plan.right.row_digits and not prefetches
    if is_plain and not plan.prefetches_next and is_one:
        told.append("right_k")
    told.append("tile_row")
    if plan.next_source is not None:
        told.append("source_line")
    return tuple(told)


def _distance(plan: ContractPlan, told: Told) -> int:
    match told:
        case "left_k":
            return plan.left.column_stride
        case "left_row":
            return plan.left.row_stride
        case "right_k":
            return plan.right.row_stride
        case "tile_row":
            return plan.tile_row
        case "source_line":
            assert plan.next_source is not None, "nothing is prefetched of it"
            return plan.next_source.along


def _along_k(plan: ContractPlan, stride: int, digits: tuple[Digit, ...] = ()) -> CountedAxis:
    """Return an axis along k. Its extent counts where digits are: else any k has the same code."""
    return CountedAxis(stride, digits, plan.k if digits else 0)


def _packer(
    plan: ContractPlan, stored: Elements, how: Packing, panel: Operand, sizes: tuple[int, int]
) -> PanelPacker:
    """Describe a packer of panels with rows along k: elements across, and with those of padding."""
    count, padded = sizes
    fewest = plan.k_piece if plan.has_pieces else plan.k - (plan.k_blocks - 1) * plan.block_k
    return PanelPacker(
        how=how,
        count=count,
        padded=padded,
        across=panel.column_stride if how != "transpose" else 0,
        along=panel.row_stride if how != "copy" else 0,
        lanes=plan.lanes,
        fewest=min(fewest, plan.lanes),
        line=plan.block_k if how == "lines" else 0,
        elements=stored,
        ahead=steps_ahead(plan, panel.row_stride, stored),
    )
