"""Vectorcall entry in LLVM IR: two functions CPython calls, the same for every step.

They read what a step takes and makes from the step's record (`entry_record`), which they find
through `self`: a tuple of the record as an array, the slow path and the handler of failures. So a
new step costs a few Python objects and no compilation. What checks arguments is in `entry_checks`.
This module emits; it makes no Python objects.

Both have the order: objects that Python's garbage collector tracks are made first, then arguments
are checked and the pointers to their elements taken, then the step runs. From the first check on
no Python code can run, so what was checked still holds in the step.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.runtime.entry_access import (
    element,
    field,
    field_place,
    is_failure,
    is_null,
    load_at,
    loop,
    offset,
    return_false_unless,
)
from symgrad.runtime.entry_checks import declare_bind, declare_overlap
from symgrad.runtime.entry_layout import BEHAVED, OWNS_DATA, EntryLayout
from symgrad.runtime.entry_record import (
    RECORD_FIELDS,
    SPEC_FIELDS,
    Returns,
    llvm_struct,
)
from symgrad.runtime.result_memory import LEAST, MOST, emit_result_memory

_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_PTR = ir.PointerType()
_NULL = ir.Constant(_PTR, None)
_VOID = ir.VoidType()
_ZERO = _I64(0)
_SPEC = llvm_struct(SPEC_FIELDS)

_EXTERNALS = {
    "PyArray_NewFromDescr": ir.FunctionType(_PTR, [_PTR, _PTR, _I32, _PTR, _PTR, _PTR, _I32, _PTR]),
    "PyDataMem_GetHandler": ir.FunctionType(_PTR, []),
    "PyErr_Clear": ir.FunctionType(_VOID, []),
    "PyList_New": ir.FunctionType(_PTR, [_I64]),
    "PyLong_FromLong": ir.FunctionType(_PTR, [_I64]),
    "PyObject_Vectorcall": ir.FunctionType(_PTR, [_PTR, _PTR, _I64, _PTR]),
    "PyTraceMalloc_Track": ir.FunctionType(_I32, [_I32, _PTR, _I64]),
    "PyTuple_New": ir.FunctionType(_PTR, [_I64]),
    "Py_DecRef": ir.FunctionType(_VOID, [_PTR]),
    "Py_IncRef": ir.FunctionType(_VOID, [_PTR]),
}
_TRACED = 389047  # what NumPy calls its memory in `tracemalloc`: NPY_TRACE_DOMAIN
# A word of the process: other than 0 where a step that runs is to stop.
STOP = "interrupt_stop"
# Of the memory of results: the capsule that arrays refer to, and the blocks that are kept.
RESULT_HANDLER, RESULT_BLOCKS = "result_handler", "result_blocks"
_METHOD = ir.FunctionType(_PTR, [_PTR, _PTR, _I64])
_STEP = ir.FunctionType(_I32, [_PTR, _PTR, _PTR])

# Places in the tuple that is `self`.
WORDS, SLOW_PATH, ON_FAILURE = range(3)

# The functions that CPython calls, each of a module of its own.
SYMBOLS = ("call", "into")


def emit_entry_module(layout: EntryLayout, symbol: str) -> ir.Module:
    """Emit one of `SYMBOLS` for objects laid out as `layout` says.

    They are `call(*inputs)` and `into(*inputs, *outputs)`. Optimized, what is here would make no
    call quicker, and take several times as long to compile.
    """
    module = ir.Module("entry")
    emitter = _Emitter(module, layout)
    if symbol == "call":
        emitter.emit_call()
    else:
        emitter.emit_into()
    return module


class _Emitter:
    """Emits a function, and before it those that it uses: at construction what both entries do."""

    def __init__(self, module: ir.Module, layout: EntryLayout) -> None:
        self.module = module
        self.layout = layout
        self.externals = {
            name: ir.LLVMFunction(module, signature, name) for name, signature in _EXTERNALS.items()
        }
        self.array_type = ir.GlobalVariable(module, _I8, "PyArray_Type")
        self.none = ir.GlobalVariable(module, _I8, "_Py_NoneStruct")
        self.default_handler = ir.GlobalVariable(module, _I8, "PyDataMem_DefaultHandler")
        self.result_handler = ir.GlobalVariable(module, _I8, RESULT_HANDLER)
        self.result_blocks = ir.GlobalVariable(module, _I8, RESULT_BLOCKS)
        self.stop = ir.GlobalVariable(module, _I64, STOP)
        self.bind = declare_bind(module)
        self.slow_path = self._emit_slow_path()
        self.fail = self._emit_fail()

    def emit_call(self) -> None:
        """`call(*inputs)`: make the outputs, run the step, return them."""
        prepare, allocate = self._emit_prepare(), self._emit_allocate()
        function, builder = self._define("call", _METHOD)
        self_, args, nargs = function.args
        record = self._record(builder, self_)
        specs = field(builder, RECORD_FIELDS, record, "specs")
        pointers = field(builder, RECORD_FIELDS, record, "pointers")
        input_count = field(builder, RECORD_FIELDS, record, "input_count")
        output_count = field(builder, RECORD_FIELDS, record, "output_count")
        returns = field(builder, RECORD_FIELDS, record, "returns")
        result = builder.alloca(_PTR)
        with builder.if_then(builder.icmp_signed("!=", nargs, input_count), likely=False):
            builder.ret(builder.call(self.slow_path, function.args))
        slots = builder.call(prepare, [returns, output_count, result])
        with builder.if_then(is_null(builder, slots), likely=False):
            builder.ret(_NULL)
        is_bound = builder.call(self.bind, [specs, pointers, args, input_count])
        with builder.if_then(builder.not_(is_bound), likely=False):
            self._release(builder, result)
            builder.ret(builder.call(self.slow_path, function.args))
        output_specs = element(builder, _SPEC, specs, input_count)
        output_pointers = element(builder, _PTR, pointers, input_count)
        is_allocated = builder.call(allocate, [output_specs, output_pointers, slots, output_count])
        with builder.if_then(builder.not_(is_allocated), likely=False):
            self._release(builder, result)
            builder.ret(_NULL)
        status = self._run_step(builder, record)
        with builder.if_then(is_failure(builder, status), likely=False):
            self._release(builder, result)
            self._return_failure(builder, function, status)
        builder.ret(builder.load(result, typ=_PTR))

    def emit_into(self) -> None:
        """`into(*inputs, *outputs)`: run the step on arrays that are all there, return None."""
        overlap = declare_overlap(self.module)
        function, builder = self._define("into", _METHOD)
        self_, args, nargs = function.args
        record = self._record(builder, self_)
        specs = field(builder, RECORD_FIELDS, record, "specs")
        pointers = field(builder, RECORD_FIELDS, record, "pointers")
        input_count = field(builder, RECORD_FIELDS, record, "input_count")
        output_count = field(builder, RECORD_FIELDS, record, "output_count")
        count = builder.add(input_count, output_count)
        with builder.if_then(builder.icmp_signed("!=", nargs, count), likely=False):
            builder.ret(builder.call(self.slow_path, function.args))
        is_bound = builder.call(self.bind, [specs, pointers, args, count])
        with builder.if_then(builder.not_(is_bound), likely=False):
            builder.ret(builder.call(self.slow_path, function.args))
        has_overlap = builder.call(overlap, [specs, pointers, input_count, count])
        with builder.if_then(has_overlap, likely=False):
            builder.ret(builder.call(self.slow_path, function.args))
        status = self._run_step(builder, record)
        with builder.if_then(is_failure(builder, status), likely=False):
            self._return_failure(builder, function, status)
        self._external(builder, "Py_IncRef", self.none)
        builder.ret(self.none)

    def _return_failure(
        self, builder: ir.IRBuilder, function: ir.LLVMFunction, status: ir.Value
    ) -> None:
        """Return the error of the handler of failures, or run `function` again if it has none."""
        self_, args, nargs = function.args
        handled = builder.call(self.fail, [self_, status, args, nargs])
        with builder.if_then(is_null(builder, handled), likely=True):
            builder.ret(_NULL)
        self._external(builder, "Py_DecRef", handled)
        builder.ret(builder.call(function, function.args))

    def _emit_prepare(self) -> ir.LLVMFunction:
        """`prepare(returns, count, result)`: begin the result, return the slots for its arrays.

        `result` owns what is made from here on, so to release it is right at any time after this.
        NULL stands for a Python error.
        """
        signature = ir.FunctionType(_PTR, [_I64, _I64, _PTR])
        function, builder = self._define("prepare", signature, is_internal=True)
        returns, count, result = function.args
        with builder.if_then(builder.icmp_signed("==", returns, _I64(Returns.SINGLE))):
            builder.store(_NULL, result)
            builder.ret(result)
        with builder.if_then(builder.icmp_signed("==", returns, _I64(Returns.NONE))):
            self._external(builder, "Py_IncRef", self.none)
            builder.store(self.none, result)
            builder.ret(result)
        with builder.if_then(builder.icmp_signed("==", returns, _I64(Returns.LIST))):
            made = self._external(builder, "PyList_New", count)
            builder.store(made, result)
            with builder.if_then(is_null(builder, made), likely=False):
                builder.ret(_NULL)
            builder.ret(load_at(builder, _PTR, made, self.layout.list_pointer))
        made = self._external(builder, "PyTuple_New", count)
        builder.store(made, result)
        slots = offset(builder, made, self.layout.tuple_items)
        builder.ret(builder.select(is_null(builder, made), _NULL, slots))
        return function

    def _emit_allocate(self) -> ir.LLVMFunction:
        """`allocate(specs, pointers, slots, count)`: make the outputs; false for a Python error."""
        array_in_lines = self._emit_array_in_lines()
        signature = ir.FunctionType(_I1, [_PTR, _PTR, _PTR, _I64])
        function, builder = self._define("allocate", signature, is_internal=True)
        specs, pointers, slots, count = function.args
        made = builder.alloca(_PTR)
        with loop(builder, count) as index:
            spec = element(builder, _SPEC, specs, index)
            nbytes = field(builder, SPEC_FIELDS, spec, "nbytes")
            builder.store(_NULL, made)
            over = builder.sub(nbytes, _I64(LEAST))
            with builder.if_then(builder.icmp_unsigned("<", over, _I64(MOST - LEAST))):
                builder.store(builder.call(array_in_lines, [spec]), made)
            with builder.if_then(is_null(builder, builder.load(made, typ=_PTR))):
                builder.store(self._new_array(builder, spec, _NULL, 0), made)
            array = builder.load(made, typ=_PTR)
            return_false_unless(builder, builder.not_(is_null(builder, array)))
            builder.store(array, element(builder, _PTR, slots, index))
            pointer = load_at(builder, _PTR, array, self.layout.array_pointer)
            builder.store(pointer, element(builder, _PTR, pointers, index))
        builder.ret(_I1(1))
        return function

    def _emit_array_in_lines(self) -> ir.LLVMFunction:
        """`array_in_lines(spec)`: make an output by the allocator of results; NULL if not.

        So it is not where a program has chosen another handler than NumPy's.
        """
        allocate, free = emit_result_memory(self.module)
        function, builder = self._define(
            "array_in_lines", ir.FunctionType(_PTR, [_PTR]), is_internal=True
        )
        (spec,) = function.args
        handler = self._external(builder, "PyDataMem_GetHandler")
        self._external(builder, "Py_DecRef", handler)
        is_other = builder.icmp_unsigned("!=", handler, self.default_handler)
        with builder.if_then(is_other, likely=False):
            builder.ret(_NULL)
        nbytes = field(builder, SPEC_FIELDS, spec, "nbytes")
        memory = builder.call(allocate, [self.result_blocks, nbytes])
        with builder.if_then(is_null(builder, memory), likely=False):
            builder.ret(_NULL)
        array = self._new_array(builder, spec, memory, BEHAVED)
        with builder.if_then(is_null(builder, array), likely=False):
            builder.call(free, [self.result_blocks, memory, nbytes])
            self._external(builder, "PyErr_Clear")
            builder.ret(_NULL)
        self._external(builder, "Py_IncRef", self.result_handler)
        builder.store(self.result_handler, offset(builder, array, self.layout.array_handler))
        flags = _I32(BEHAVED | OWNS_DATA)
        builder.store(flags, offset(builder, array, self.layout.array_flags))
        self._external(builder, "PyTraceMalloc_Track", _I32(_TRACED), memory, nbytes)
        builder.ret(array)
        return function

    def _new_array(
        self, builder: ir.IRBuilder, spec: ir.Value, memory: ir.Value, flags: int
    ) -> ir.Value:
        """Make an array of `memory`, or of what NumPy allocates if that is NULL."""
        descr = field(builder, SPEC_FIELDS, spec, "descr")
        ndim = builder.trunc(field(builder, SPEC_FIELDS, spec, "ndim"), _I32)
        dims = field(builder, SPEC_FIELDS, spec, "dims")
        # NumPy takes the reference to the descriptor over, whether it succeeds or not.
        self._external(builder, "Py_IncRef", descr)
        return self._external(
            builder,
            "PyArray_NewFromDescr",
            *(self.array_type, descr, ndim, dims, _NULL, memory, _I32(flags), _NULL),
        )

    def _emit_slow_path(self) -> ir.LLVMFunction:
        """`slow_path(self, args, nargs)`: hand a call on as it came."""
        function, builder = self._define("slow_path", _METHOD, is_internal=True)
        self_, args, nargs = function.args
        handler = self._item(builder, self_, SLOW_PATH)
        builder.ret(self._external(builder, "PyObject_Vectorcall", handler, args, nargs, _NULL))
        return function

    def _emit_fail(self) -> ir.LLVMFunction:
        """`fail(self, status, args, nargs)`: call the handler of failures with `status, *args`."""
        signature = ir.FunctionType(_PTR, [_PTR, _I32, _PTR, _I64])
        function, builder = self._define("fail", signature, is_internal=True)
        self_, status, args, nargs = function.args
        code = self._external(builder, "PyLong_FromLong", builder.sext(status, _I64))
        with builder.if_then(is_null(builder, code), likely=False):
            builder.ret(_NULL)
        count = builder.add(nargs, _I64(1))
        table = builder.alloca(_PTR, size=count)
        builder.store(code, table)
        with loop(builder, nargs) as index:
            arg = builder.load(element(builder, _PTR, args, index), typ=_PTR)
            builder.store(arg, element(builder, _PTR, table, builder.add(index, _I64(1))))
        handler = self._item(builder, self_, ON_FAILURE)
        result = self._external(builder, "PyObject_Vectorcall", handler, table, count, _NULL)
        self._external(builder, "Py_DecRef", code)
        builder.ret(result)
        return function

    def _define(
        self, name: str, signature: ir.FunctionType, *, is_internal: bool = False
    ) -> tuple[ir.LLVMFunction, ir.IRBuilder]:
        """Begin a function, which mostly calls others."""
        function = ir.LLVMFunction(self.module, signature, name)
        function.attributes |= {"nounwind", "noinline", "optnone"}
        if is_internal:
            function.linkage = "internal"
        return function, ir.IRBuilder(function.append_basic_block("entry"))

    def _external(self, builder: ir.IRBuilder, name: str, *operands: ir.Value) -> ir.Value:
        return builder.call(self.externals[name], operands)

    def _item(self, builder: ir.IRBuilder, self_: ir.Value, place: int) -> ir.Value:
        return load_at(builder, _PTR, self_, self.layout.tuple_items + 8 * place)

    def _record(self, builder: ir.IRBuilder, self_: ir.Value) -> ir.Value:
        words = self._item(builder, self_, WORDS)
        return load_at(builder, _PTR, words, self.layout.array_pointer)

    def _release(self, builder: ir.IRBuilder, result: ir.Value) -> None:
        # Py_DecRef takes NULL for nothing to release.
        self._external(builder, "Py_DecRef", builder.load(result, typ=_PTR))

    def _run_step(self, builder: ir.IRBuilder, record: ir.Value) -> ir.Value:
        # What an opaque pointer points to is said by who uses it: here, the type of the load.
        place = field_place(builder, RECORD_FIELDS, record, "step")
        step = builder.load(place, typ=_STEP.as_pointer())
        state = field(builder, RECORD_FIELDS, record, "state")
        inputs = field(builder, RECORD_FIELDS, record, "pointers")
        input_count = field(builder, RECORD_FIELDS, record, "input_count")
        outputs = element(builder, _PTR, inputs, input_count)
        # An interrupt from before the step was one of what ran then.
        builder.store_atomic(_ZERO, self.stop, "monotonic", 8)
        return builder.call(step, [inputs, outputs, state])
