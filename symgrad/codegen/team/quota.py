"""CPU quota of a container, as an exported step reads it: once, before it starts a thread.

Linux shows it in files: how many microseconds a control group (cgroup) may run in a period. Read
are those of the group at the top of what is mounted, which in a container is the container.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.team.state import I8, I32, I64, NULL, PTR, TeamBuilder, define

READ_QUOTA = "team.read_quota"
_READ = "team.read_numbers"
_BUFFER_BYTES = 64
# The quota, and the period: in one file, and in two of the first version of such groups.
_FILES = (
    ("sys/fs/cgroup/cpu.max", None),
    ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)


def emit_quota(module: ir.Module, root: str = "/") -> None:
    """Emit what returns the quota in cores, rounded, 0 if there is none; files are below `root`."""
    _emit_read(module)
    builder, _ = define(module, READ_QUOTA, result=I64)
    numbers = builder.alloca(ir.ArrayType(I64, 2))
    quota, period = (builder.gep(numbers, [I64(i)], source_etype=I64) for i in range(2))
    for first, second in _FILES:
        builder.store(I64(0), quota, align=8)
        builder.store(I64(0), period, align=8)
        builder.run(_READ, _text(module, root + first), quota, period if second is None else NULL)
        if second is not None:
            builder.run(_READ, _text(module, root + second), period, NULL)
        time, length = (builder.load(place, typ=I64, align=8) for place in (quota, period))
        is_limited = builder.icmp_signed(">", builder.least(time, length), I64(0))
        with builder.if_then(is_limited):
            cores = builder.sdiv(builder.add(time, builder.sdiv(length, I64(2))), length)
            builder.ret(builder.most(cores, I64(1)))
    builder.ret(I64(0))


def _emit_read(module: ir.Module) -> None:
    """Emit what reads a number, or two, from a file; they stay as they are if it cannot be read.

    A word that is no number, like "max", is read as 0.
    """
    builder, (path, first, second) = define(module, _READ, [PTR] * 3)
    buffer = builder.alloca(ir.ArrayType(I8, _BUFFER_BYTES))
    end = builder.alloca(PTR)
    none = builder.append_basic_block("none")
    file = builder.call(builder.of_c("fopen", [PTR, PTR], PTR), [path, _text(module, "r")])
    builder.go_if(builder.icmp_unsigned("==", file, NULL), none)
    get = builder.of_c("fgets", [PTR, I32, PTR], PTR)
    line = builder.call(get, [buffer, I32(_BUFFER_BYTES), file])
    builder.call(builder.of_c("fclose", [PTR]), [file])
    builder.go_if(builder.icmp_unsigned("==", line, NULL), none)
    builder.store(_number(builder, line, end), first, align=8)
    builder.go_if(builder.icmp_unsigned("==", second, NULL), none)
    builder.store(_number(builder, builder.load(end, typ=PTR), end), second, align=8)
    builder.branch(none)
    builder.position_at_end(none)
    builder.ret_void()


def _number(builder: TeamBuilder, text: ir.Value, end: ir.Value) -> ir.Value:
    """Read a number; what comes behind it begins at the address that is left at `end`."""
    return builder.call(builder.of_c("strtol", [PTR, PTR, I32], I64), [text, end, I32(10)])


def _text(module: ir.Module, content: str) -> ir.Value:
    """Return where `content` lies as a string of C."""
    characters = [*content.encode(), 0]
    kind = ir.ArrayType(I8, len(characters))
    place = ir.GlobalVariable(module, kind, module.get_unique_name("team.text"))
    place.linkage = "internal"
    place.global_constant = True
    place.initializer = kind(characters)
    return place
