"""Module emission: from a program to a module of LLVM IR with one native function.

    i32 @step(ptr inputs, ptr outputs, ptr state)

That is the calling convention: `inputs` and `outputs` are tables of pointers to elements, `state`
is a table too (`addresses.py`), and the result is 0, or the status of what failed. A routine is a
function of its own, which takes its inputs and outputs as parameters, and `state`. The function
calls functions of its own module and nothing else, except that a tape grows through the C library,
that parallel kernels fork through a team of threads (`codegen/team/`), and that a poll asks the
function whose address it finds in memory, if any. Here it is decided which functions there are;
`instructions.py` fills them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.alike_kernels import AlikeKernels
from symgrad.codegen.llvm.call_thunks import add_thunks
from symgrad.codegen.llvm.clock import declare_clock
from symgrad.codegen.llvm.instructions import emit_function, return_failure
from symgrad.codegen.llvm.known_kernel import NONE_KNOWN, FindLeaf, KnownKernel, no_leaf
from symgrad.codegen.llvm.loops_in_registers import emit_loop_function
from symgrad.codegen.llvm.place import Functions, open_function
from symgrad.codegen.llvm.similar_kernels import merge_similar_kernels
from symgrad.codegen.llvm.tracing import declare_trace
from symgrad.codegen.program.language import (
    Instr,
    Launch,
    Program,
    Routine,
    ScanInstr,
    WhileInstr,
    buffers_of,
)
from symgrad.codegen.program.registers import loops_around
from symgrad.codegen.target import Target
from symgrad.cost_model import CALLS_IN_FUNCTION

STEP = "step"

_I32, _I64, _PTR = ir.IntType(32), ir.IntType(64), ir.PointerType()


def loop_function(number: int) -> str:
    """Return the name of the function that is a loop with registers."""
    return f"{STEP}.loop.{number}"


def emit_module(
    program: Program,
    target: Target,
    *,
    timed: bool = False,
    whole_loops: bool = False,
    traced: bool = False,
    known: Mapping[str, KnownKernel] = NONE_KNOWN,
    find: FindLeaf = no_leaf,
) -> ir.Module:
    """Emit the function of `program`, and the kernels that it calls.

    Those that are `known` are declared only, and so are leaf functions that `find` knows.

    With `timed`, the function takes a fourth parameter, a table of two float64 for each call, to
    which it adds the seconds the call took, and 1; it then needs the C library's clock. Loops then
    keep nothing in registers, unless `whole_loops` times them as a whole in the place of their
    first call. With `traced`, loops are timed as a whole, and the table is one of events
    (`tracing.py`): of each call, and of each part of it that a thread has run.
    """
    module = ir.Module(program.name)
    module.triple = target.triple
    module.find = find
    step = ir.LLVMFunction(
        module, ir.FunctionType(_I32, [_PTR] * (4 if timed or traced else 3)), STEP
    )
    clock = declare_trace(module) if traced else declare_clock(module) if timed else None
    numbers = {id(call): number for number, call in enumerate(program.native_calls)}
    alike = AlikeKernels([k for k in program.kernels if k.name not in known], target)
    functions = Functions(
        module,
        program,
        target,
        _emit_loop,
        clock,
        numbers,
        whole_loops=whole_loops or traced,
        is_traced=traced,
        known=known,
        alike=alike,
    )
    for routine in program.routines:
        functions.routines[routine.name] = _emit_routine(functions, routine)
    _emit_instrs(functions, step, program.instrs)
    emitted = [function for name, function in functions.kernels.items() if name not in known]
    merge_similar_kernels(module, emitted, alike.texts, functions.calls)
    return module


def _emit_routine(functions: Functions, routine: Routine) -> ir.LLVMFunction:
    rest = 1 if functions.clock is None else 2  # what comes after the inputs and outputs
    type_ = ir.FunctionType(_I32, [_PTR] * (sum(routine.arity) + rest))
    function = _internal_function(functions.module, type_, f"routine.{routine.name}")
    _emit_instrs(functions, function, routine.instrs, routine.arity)
    return function


def _emit_instrs(
    functions: Functions,
    function: ir.LLVMFunction,
    instrs: Sequence[Instr],
    arity: tuple[int, int] | None = None,
) -> None:
    """Make `function` do `instrs`, in parts if there are many."""
    # LLVM's time grows faster than a function that does nothing but call: a long step is cut into
    # parts. What does nothing else is not optimized, which costs less than a nanosecond a call.
    if len(instrs) <= CALLS_IN_FUNCTION:
        if all(isinstance(instr, Launch) for instr in instrs) and functions.clock is None:
            function.attributes |= {"noinline", "optnone"}
        emit_function(open_function(functions, function, arity), instrs)
        return
    if arity is None:
        add_thunks(functions, function, instrs)
    parts = []
    for start in range(0, len(instrs), CALLS_IN_FUNCTION):
        name = f"{function.name}.{start}"
        part = _internal_function(functions.module, function.function_type, name)
        part.attributes.add("optnone")
        some = instrs[start : start + CALLS_IN_FUNCTION]
        emit_function(open_function(functions, part, arity), some)
        parts.append(part)
    _emit_sequence(function, parts)


def _emit_sequence(function: ir.LLVMFunction, parts: Sequence[ir.LLVMFunction]) -> None:
    """Make `function` call `parts` one after another, up to one that fails."""
    function.attributes |= {"noinline", "optnone"}
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    for part in parts:
        return_failure(builder, builder.call(part, function.args))
    builder.ret(_I32(0))


def _emit_loop(functions: Functions, loop: WhileInstr | ScanInstr) -> ir.LLVMFunction:
    """Emit a function that takes the addresses of buffers, and the iterations around.

    Its first parameters are those of the step, of which it needs `state` only.
    """
    buffers, around = list(dict.fromkeys(buffers_of([loop]))), loops_around(loop)
    type_ = ir.FunctionType(_I32, [*[_PTR] * (3 + len(buffers)), *[_I64] * len(around)])
    function = _internal_function(functions.module, type_, loop_function(loop.number))
    pointers = dict(zip(buffers, function.args[3:], strict=False))
    iterations = dict(zip(around, function.args[3 + len(buffers) :], strict=True))
    emit_loop_function(open_function(functions, function), loop, pointers, iterations)
    return function


def _internal_function(module: ir.Module, type_: ir.FunctionType, name: str) -> ir.LLVMFunction:
    function = ir.LLVMFunction(module, type_, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function
