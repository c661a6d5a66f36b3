"""Results of a vectorcall entry in LLVM IR: the arrays that a call makes, and what holds them.

And what the functions of an entry have in common, in a base class of what emits these.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.runtime.entry_access import (
    element,
    field,
    is_null,
    load_at,
    loop,
    offset,
    return_false_unless,
)
from symgrad.runtime.entry_layout import BEHAVED, OWNS_DATA, EntryLayout
from symgrad.runtime.entry_record import SPEC_FIELDS, Returns, llvm_struct
from symgrad.runtime.result_memory import LEAST, MOST, emit_result_memory

_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_PTR = ir.PointerType()
_NULL = ir.Constant(_PTR, None)
_VOID = ir.VoidType()
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
# Of the memory of results: the capsule that arrays refer to, and the blocks that are kept.
RESULT_HANDLER, RESULT_BLOCKS = "result_handler", "result_blocks"


# The functions that all entries use: they are beside the first one.
PREPARE, ALLOCATE, SLOW_PATH, FAIL = (
    f"entry_{name}" for name in ("prepare", "allocate", "slow_path", "fail")
)
METHOD = ir.FunctionType(_PTR, [_PTR, _PTR, _I64])
SHARED = {
    PREPARE: ir.FunctionType(_PTR, [_I64, _I64, _PTR]),
    ALLOCATE: ir.FunctionType(_I1, [_PTR, _PTR, _PTR, _I64]),
    SLOW_PATH: METHOD,
    FAIL: ir.FunctionType(_PTR, [_PTR, _I32, _I64, _PTR, _I64]),
}
_OWN = ".own"  # of the function itself, which its module calls: quicker than what others can call


def shared_aliases() -> str:
    """Return the text by which other modules find what is `SHARED`."""
    return "".join(
        f'@"{name}" = alias {kind.text}, ptr @"{name}{_OWN}"\n' for name, kind in SHARED.items()
    )


class EntryEmitter:
    """Emits functions of an entry that make results; a derived class those that use them."""

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

    def _emit_prepare(self) -> None:
        """`prepare(returns, count, result)`: begin the result, return the slots for its arrays.

        `result` owns what is made from here on, so to release it is right at any time after this.
        NULL stands for a Python error.
        """
        function, builder = self._define_shared(PREPARE)
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

    def _emit_allocate(self) -> None:
        """`allocate(specs, pointers, slots, count)`: make the outputs; false for a Python error."""
        array_in_lines = self._emit_array_in_lines()
        function, builder = self._define_shared(ALLOCATE)
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

    def _shared(self, name: str) -> ir.LLVMFunction:
        """Return one of `SHARED`, which this module or another one defines."""
        known: ir.LLVMFunction | None = self.module.globals.get(
            f"{name}{_OWN}", self.module.globals.get(name)
        )
        if known is not None:
            return known
        function = ir.LLVMFunction(self.module, SHARED[name], name)
        function.attributes.add("nounwind")
        return function

    def _define_shared(self, name: str) -> tuple[ir.LLVMFunction, ir.IRBuilder]:
        return self._define(f"{name}{_OWN}", SHARED[name], is_internal=True)

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

    def _release(self, builder: ir.IRBuilder, result: ir.Value) -> None:
        # Py_DecRef takes NULL for nothing to release.
        self._external(builder, "Py_DecRef", builder.load(result, typ=_PTR))
