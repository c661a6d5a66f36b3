"""The C header of an exported library, for C11 and C++11."""

from __future__ import annotations

import re
from collections.abc import Sequence

from symgrad.codegen.c_interface.abi import (
    ABI_VERSION,
    STATUSES,
    Interface,
    Slot,
    StepInterface,
    pattern_symbols,
)
from symgrad.graph.aligned import ALIGNMENT
from symgrad.graph.dtypes import DType
from symgrad.runtime.aot_header_mpi import print_connection

_PAIRS = re.compile(r"(\*(?=/)|/(?=\*)|\?(?=\?))")
_TYPES = {
    "float32": "float", "float64": "double", "bool": "uint8_t", "complex64": "float",
    "complex128": "double",
}  # fmt: skip
_PARTS = ", the real and the imaginary part in turn"
_NOTES = {
    "float16": ", as bits", "bfloat16": ", as bits", "bool": ", 0 or 1", "complex64": _PARTS,
    "complex128": _PARTS,
}  # fmt: skip

_LINKED = {"mpi": "mpicc"}  # libraries that a command of their own knows how to link
_THREADED = "\n   Kernels are shared by threads, of one team for all instances: link with -pthread."

_GENERAL = """\
/* The version of this interface, and what an instance takes; as the constants above. */
uint32_t {name}_abi_version(void);
size_t {name}_size(void);
size_t {name}_alignment(void);

/* Make an instance of the memory at `self`: with the variables as they were when this was made, or
   as a saved state has them. To release an instance frees what loops without a bound have
   recorded; where there is no such loop, nothing has to be released. */
int32_t {name}_init({name}_instance *self);
int32_t {name}_init_from({name}_instance *self, const void *state, size_t bytes);
void {name}_release({name}_instance *self);

/* The SHA-256, in hexadecimal, of the manifest that was written with a shared library, but for what
   it says of the file; "" in an object. What loads a library by its manifest compares them. */
const char *{name}_manifest(void);

/* What a status means, and the index that was out of range when a step last failed for one. */
const char *{name}_message(int32_t status);
int64_t {name}_failed_index(const {name}_instance *self);

/* Make the step that runs on an instance, or the next one, return {upper}_STOPPED when a long loop
   polls; variables are as they were before it. A step without such a loop runs to its end. May be
   called from any thread and from a handler of signals, unlike all else. */
void {name}_stop({name}_instance *self);

/* The variables: by number from 0 (NULL if there is none), the number of a name (negative if there
   is none), and where the value of one is in an instance (NULL if there is none). */
int32_t {name}_variable_count(void);
const {name}_variable *{name}_variable_at(int32_t number);
int32_t {name}_find(const char *name);
void *{name}_address({name}_instance *self, int32_t number);

/* Copy the value of a variable to a buffer or from one, of exactly the bytes of the variable. */
int32_t {name}_read(const {name}_instance *self, const char *name, void *to, size_t bytes);
int32_t {name}_write({name}_instance *self, const char *name, const void *from, size_t bytes);

/* Copy all variables to a buffer of exactly {name}_state_size() bytes, or from one. A buffer that
   is not a state of these variables, or is damaged, changes nothing. */
size_t {name}_state_size(void);
int32_t {name}_save(const {name}_instance *self, void *state, size_t bytes);
int32_t {name}_restore({name}_instance *self, const void *state, size_t bytes);
"""


def print_header(interface: Interface) -> str:
    """Return the text of the header."""
    name = interface.name
    threaded = _THREADED if interface.is_threaded else ""
    guard = f"{name.upper()}_H"
    parts = [
        f"/* {name}: made by symgrad. Functions return a status, {name.upper()}_OK or another.\n"
        "   Nothing here is shared between instances: threads may run one instance each.\n"
        f"   Buffers are in row-major order and do not overlap.{threaded} */",
        f"#ifndef {guard}\n#define {guard}",
        "#include <stddef.h>\n#include <stdint.h>"
        + ("\n#include <mpi.h>" if interface.handles else ""),
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        _constants(interface),
        _structs(name),
        _GENERAL.format(name=name, upper=name.upper()).rstrip(),
        _variables(interface),
        *_functions(interface),
        *print_connection(interface),
        *(_step(name, step) for step in interface.steps),
        "#ifdef __cplusplus\n}\n#endif",
        f"#endif /* {guard} */",
    ]
    return "\n\n".join(parts) + "\n"


def _constants(interface: Interface) -> str:
    upper = interface.name.upper()
    lines = [
        f"#define {upper}_ABI_VERSION {ABI_VERSION}",
        f"#define {upper}_SIZE {interface.size}",
        f"#define {upper}_ALIGNMENT {ALIGNMENT}",
        f"#define {upper}_STATE_SIZE {interface.state_bytes}",
        "",
    ]
    for status, (word, meaning) in STATUSES.items():
        lines.append(f"#define {upper}_{word} ({status}) /* {meaning} */")
    return "\n".join(lines)


def _structs(name: str) -> str:
    upper = name.upper()
    return (
        "/* The memory of an instance: on the stack, static, or from aligned_alloc. */\n"
        f"typedef struct {name}_instance {{\n"
        "#ifdef __cplusplus\n"
        f"    alignas({upper}_ALIGNMENT) unsigned char bytes[{upper}_SIZE];\n"
        "#else\n"
        f"    _Alignas({upper}_ALIGNMENT) unsigned char bytes[{upper}_SIZE];\n"
        "#endif\n"
        f"}} {name}_instance;\n\n"
        "/* A variable: dtype by its name in NumPy, offset from the start of an instance. */\n"
        f"typedef struct {name}_variable {{\n"
        "    const char *name;\n"
        "    const char *dtype;\n"
        "    size_t bytes;\n"
        "    size_t offset;\n"
        "    int64_t dimensions;\n"
        "    const int64_t *shape;\n"
        f"}} {name}_variable;"
    )


def _variables(interface: Interface) -> str:
    if not interface.variables:
        return "/* There are no variables. */"
    lines = [f"     {i} {_quoted(v.name)}: {v.type}" for i, v in enumerate(interface.variables)]
    return "\n".join(["/* The variables:", *lines, "*/"])


def _functions(interface: Interface) -> list[str]:
    """Return what is said of the functions of C that are called, if there are any."""
    if not interface.functions:
        return []
    lines = [
        f"     {f.name}"
        + (f": link with {_LINKED.get(f.library, f'-l{f.library}')}" if f.library else "")
        for f in interface.functions
    ]
    told = "/* The functions that are called, which whoever links this provides. Where one returns"
    more = "   another status than 0, the step fails, and {}_failed_index gives that status:"
    return ["\n".join([told, more.format(interface.name), *lines, "*/"])]


def _step(name: str, step: StepInterface) -> str:
    outputs = [_comment(s, "gives") for s in step.outputs]
    told = [*(_comment(s, "takes") for s in step.inputs), *outputs]
    for status, message in step.messages.items():
        told.append(f"     status {status}: {_quoted(message)}")
    parameters = [
        f"{name}_instance *self",
        *(_parameter(s, "const ") for s in step.inputs),
        *(_parameter(s, "") for s in step.outputs),
    ]
    return "\n".join(
        [
            f"/* The step {step.name}. `run` does the same with tables of the pointers.",
            *told,
            "*/",
            f"int32_t {name}_{step.name}({', '.join(parameters)});",
            f"int32_t {name}_{step.name}_run({name}_instance *self, const void *const *inputs,",
            f"    void *const *outputs); /* {_counted(step.inputs)} in, {len(step.outputs)} out */",
            *(_pattern(name, step.name, slot) for slot in step.sparse_outputs),
        ]
    )


def _pattern(library: str, step: str, slot: Slot) -> str:
    """Return the declarations of the pattern of an output that has the values of a matrix."""
    assert slot.pattern is not None
    rows, columns = slot.pattern.shape
    names = pattern_symbols(library, step, slot)
    arrays = (slot.pattern.indptr, slot.pattern.indices)
    declared = (
        f"extern const {array.dtype.name}_t {name}[{max(len(array), 1)}];"
        for name, array in zip(names, arrays, strict=True)
    )
    return "\n".join(
        [
            f"/* {slot.c_name} has the values of a matrix of {rows} rows and {columns} columns in",
            "   compressed sparse rows (CSR): those of row i are from indptr[i] on and before",
            "   indptr[i + 1], in the columns of indices, which ascend. */",
            *declared,
        ]
    )


def _counted(slots: Sequence[Slot]) -> str:
    return str(len(slots))


def _comment(slot: Slot, verb: str) -> str:
    named = "" if slot.c_name == slot.name else f" ({_quoted(slot.name)})"
    return f"     {verb} {slot.c_name}{named}: {slot.type}{_NOTES.get(slot.type.dtype.name, '')}"


def _parameter(slot: Slot, qualifier: str) -> str:
    return f"{qualifier}{c_type(slot.type.dtype)} *{slot.c_name}"


def c_type(dtype: DType) -> str:
    """Return the type of an element in C; half floats are their bits, complex numbers two parts."""
    if dtype.is_half:
        return "uint16_t"
    return _TYPES.get(dtype.name, f"{dtype.name}_t")


def _quoted(text: str) -> str:
    """Return a user's text so that a compiler finds nothing in it, and no warning, in a comment.

    That is: no end or start of a comment, no trigraph, no end of a line, no invisible character.
    """
    visible = "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in text)
    return _PAIRS.sub(r"\1 ", visible.replace("\\", "/"))
