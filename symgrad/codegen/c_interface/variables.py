"""Symbol table of the C interface: find, read and write variables by name or number.

They walk a table in the constants of the object: for each variable its name, its dtype, its bytes,
its place in an instance, and its shape. The header declares a row as a struct of C.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.c_interface.abi import UNKNOWN_NAME, WRONG_SIZE, Interface, Stored
from symgrad.codegen.c_interface.code import (
    I32,
    I64,
    NULL,
    PTR,
    at,
    counting,
    define,
    load_at,
    of_c,
    require_instance,
    require_pointers,
    return_unless,
    return_unless_instance,
    text,
)
from symgrad.codegen.ir.read_only import read_only
from symgrad.records import dataclass

_ROW = ir.LiteralStructType([PTR, PTR, I64, I64, I64, PTR])
NAME_AT, BYTES_AT, OFFSET_AT, ROW_BYTES = 0, 16, 24, 48


@dataclass(frozen=True, slots=True)
class VariableTable:
    """The table, and how many rows it has."""

    rows: ir.Value
    count: int

    def row(self, builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
        """Return the address of a row."""
        return at(builder, self.rows, builder.mul(number, I64(ROW_BYTES)))


def emit_table(module: ir.Module, interface: Interface) -> VariableTable:
    """Emit the table of the variables."""
    rows = [_row(module, stored) for stored in interface.variables]
    kind = ir.ArrayType(_ROW, len(rows))
    return VariableTable(read_only(module, ir.Constant(kind, rows)), len(rows))


def _row(module: ir.Module, stored: Stored) -> ir.Constant:
    shape = stored.type.static_shape
    sizes = ir.Constant(ir.ArrayType(I64, len(shape)), list(shape))
    fields = [
        text(module, stored.name),
        text(module, stored.type.dtype.name),
        I64(stored.type.nbytes),
        I64(stored.offset),
        I64(len(shape)),
        read_only(module, sizes),
    ]
    return ir.Constant(_ROW, fields)


def emit_variable_functions(module: ir.Module, interface: Interface, table: VariableTable) -> None:
    """Emit `variable_count`, `variable_at`, `find`, `address`, `read` and `write`."""
    name = interface.name
    _, builder = define(module, f"{name}_variable_count", I32, [], is_public=True)
    builder.ret(I32(table.count))
    _emit_variable_at(module, name, table)
    find = _emit_find(module, name, table)
    _emit_address(module, interface, table)
    _emit_copy(module, interface, table, find, is_write=False)
    _emit_copy(module, interface, table, find, is_write=True)


def _emit_variable_at(module: ir.Module, name: str, table: VariableTable) -> None:
    function, builder = define(module, f"{name}_variable_at", PTR, [I32], is_public=True)
    number = builder.zext(function.args[0], I64)
    return_unless(builder, builder.icmp_unsigned("<", number, I64(table.count)), NULL)
    builder.ret(table.row(builder, number))


def _emit_find(module: ir.Module, name: str, table: VariableTable) -> ir.LLVMFunction:
    function, builder = define(module, f"{name}_find", I32, [PTR], is_public=True)
    (wanted,) = function.args
    return_unless(builder, builder.icmp_unsigned("!=", wanted, NULL), I32(UNKNOWN_NAME))
    compare = of_c(module, "strcmp", I32, PTR, PTR)
    with counting(builder, I64(table.count)) as number:
        its_name = load_at(builder, table.row(builder, number), NAME_AT, PTR)
        differs = builder.icmp_signed("!=", builder.call(compare, [its_name, wanted]), I32(0))
        return_unless(builder, differs, builder.trunc(number, I32))
    builder.ret(I32(UNKNOWN_NAME))
    return function


def _emit_address(module: ir.Module, interface: Interface, table: VariableTable) -> None:
    name = f"{interface.name}_address"
    function, builder = define(module, name, PTR, [PTR, I32], is_public=True)
    instance, given = function.args
    return_unless_instance(builder, instance, interface, NULL)
    number = builder.zext(given, I64)
    return_unless(builder, builder.icmp_unsigned("<", number, I64(table.count)), NULL)
    offset = load_at(builder, table.row(builder, number), OFFSET_AT, I64)
    builder.ret(at(builder, instance, offset))


def _emit_copy(
    module: ir.Module,
    interface: Interface,
    table: VariableTable,
    find: ir.LLVMFunction,
    *,
    is_write: bool,
) -> None:
    """Emit `write`, which takes the bytes of a variable from a buffer, or `read`."""
    name = f"{interface.name}_{'write' if is_write else 'read'}"
    function, builder = define(module, name, I32, [PTR, PTR, PTR, I64], is_public=True)
    instance, wanted, buffer, size = function.args
    require_instance(builder, instance, interface)
    require_pointers(builder, [wanted, buffer])
    number = builder.call(find, [wanted])
    return_unless(builder, builder.icmp_signed(">=", number, I32(0)), number)
    row = table.row(builder, builder.zext(number, I64))
    needed = load_at(builder, row, BYTES_AT, I64)
    return_unless(builder, builder.icmp_unsigned("==", size, needed), I32(WRONG_SIZE))
    place = at(builder, instance, load_at(builder, row, OFFSET_AT, I64))
    copy = of_c(module, "memcpy", PTR, PTR, PTR, I64)
    builder.call(copy, [place, buffer, size] if is_write else [buffer, place, size])
    builder.ret(I32(0))
