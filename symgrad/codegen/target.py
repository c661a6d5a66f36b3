"""Target description: what the code generator may know about each machine.

Everything that differs between machines is a field of `Target`. No other module asks for a CPU by
name, and none assumes a vector width.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Literal

import llvmlite.binding as llvm

from symgrad.codegen.matrix_unit import may_use_tiles
from symgrad.errors import CompileError, user_source
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class MemoryHierarchy:
    """Caches and pages: what blocks of a product are sized to.

    `shared_bytes` is what a core may take of a cache that it shares; `near_pages` are the pages
    over which a walk still hits the first-level cache and table of pages. Measured are `near_terms`
    of a sum that are added at once, all up to the first, else even parts up to the second;
    `far_terms`, the same where each term of the left lies on another page, `window_terms` where
    they are those of windows, and `large_terms` where the shared cache does not hold the result;
    and `band_rows`, those of a result whose sums may be unfinished at a time. A sum goes on where
    the block before ended, so its bits do not depend on these. `block_bytes` of a left that the
    second-level cache does not hold are read by each panel in turn. A processor that walks through
    memory by `followed_bytes` a step, or more, does not fetch ahead by itself: what comes
    `steps_ahead` is prefetched, so that the second-level cache has it then.
    """

    line_bytes: int = 64
    l1_bytes: int = 32 << 10
    l1_ways: int = 8
    l2_bytes: int = 512 << 10
    shared_bytes: int = 4 << 20
    page_bytes: int = 4096
    near_pages: int = 64
    near_terms: tuple[int, int] = (1024, 768)
    far_terms: tuple[int, int] = (512, 512)
    window_terms: tuple[int, int] = (2048, 768)
    large_terms: tuple[int, int] = (2048, 768)
    band_rows: int = 1024
    block_bytes: int = 512 << 10
    followed_bytes: int = 1024
    steps_ahead: int = 16

    @property
    def working_sets(self) -> tuple[int, ...]:
        """Bytes that fit the nearest cache, the next ones with room to spare, and only memory."""
        return (
            self.l1_bytes // 2,
            self.l2_bytes // 2,
            self.shared_bytes // 2,
            2 * self.shared_bytes,
            32 * self.shared_bytes,
        )

    def lines_kept(self, step: int) -> int:
        """Return how many lines that lie `step` bytes apart the first-level cache keeps.

        Its sets are chosen by the address: steps of a power of two use few of them.
        """
        sets = self.l1_bytes // (self.line_bytes * self.l1_ways)
        return sets // math.gcd(sets, step // self.line_bytes) * self.l1_ways


@dataclass(frozen=True, slots=True)
class Target:
    """A machine to generate code for.

    `vector_bytes` and `vector_registers` describe the register file explicit vector code is sized
    to; `has_fma` and `has_half` say whether a fused multiply-add and a conversion between float16
    and float32 are single instructions. `adds_in_flight` accumulators keep two multiply-add units
    of latency 4 busy; a kernel with fewer keeps several partial sums of each result. The peak is
    measured with `peak_chains` of them, more than any such units need. `bfloat16_unit` is what
    multiplies bfloat16 and adds up float32: a dot product of pairs in each lane, a matrix unit, or
    nothing, and then float32 does it. `loop_instructions` are those of a loop that the cache of
    decoded ones holds. A processor that `follows_pages` fetches ahead along a walk across the end
    of a page, too: for others the next one is prefetched. The walk of a load under a mask it does
    not follow. Where its second-level cache `includes_code` of the first one, code that runs from
    the latter alone leaves both when data take its place in the former. One that
    `meets_products_late` has a small product of a batch in no near cache when it gets there: the
    tiles of the one before prefetch it. One that `issues_few` instructions, four at a time, has
    little to spare for more than two multiply-adds and a load; nor has one of AVX2, where a
    multiply-add broadcasts no operand: 12 of them, a step of k, take 20 instructions. One that
    `gathers_slowly` loads lanes by themselves in less time. One that brings panels late from the
    second-level cache prefetches what lies `near_ahead` bytes further on, if not 0. One that
    `streams_stacks` stores what a loop records past caches that do not hold it. One that
    `shares_slowly` waits long for what its shared cache has. One that `shuffles_singly` has one
    unit for shuffles, which multiplies as well; others put what is loaded into half a vector, too.
    """

    name: str
    triple: str
    cpu: str
    features: str
    vector_bytes: int
    vector_registers: int
    has_fma: bool
    has_half: bool
    adds_in_flight: int = 8
    peak_chains: int = 12
    bfloat16_unit: Literal["dot", "matrix"] | None = None
    loop_instructions: int = 2048
    follows_pages: bool = False
    includes_code: bool = False
    meets_products_late: bool = False
    issues_few: bool = False
    gathers_slowly: bool = False
    near_ahead: int = 0
    streams_stacks: bool = False
    shares_slowly: bool = False
    shuffles_singly: bool = False
    memory: MemoryHierarchy = MemoryHierarchy()

    def __hash__(self) -> int:
        # Part of what many plans and functions are found by: few targets differ in all else.
        return hash((self.name, self.cpu, self.features))

    @property
    def architecture(self) -> str:
        """The architecture: "x86_64" or "aarch64"."""
        return self.triple.partition("-")[0]

    @property
    def level(self) -> int:
        """The least level of the x86-64 psABI, 1 to 4, that the code needs; 0 elsewhere."""
        if self.architecture != "x86_64":
            return 0
        named = re.fullmatch(r"x86-64-v([234])", self.name)
        return int(named[1]) if named else {64: 4, 32: 3}.get(self.vector_bytes, 1)

    @property
    def shared_level(self) -> Target | None:
        """The x86-64 level, of the third on, of which this machine has all instructions, or None.

        Code for it is the same on all such machines, whatever their CPUs are.
        """
        return _shared_level(self)  # which each leaf function asks for

    @property
    def lane_packing(self) -> Literal["compress", "permute"] | None:
        """How chosen lanes of a vector are packed: an instruction, a table of permutations, or not.

        The first is AVX-512's; the second takes AVX2's permutation of words by a vector.
        """
        if self.architecture != "x86_64":
            return None
        ways: dict[int, Literal["compress", "permute"]] = {64: "compress", 32: "permute"}
        return ways.get(self.vector_bytes)

    @property
    def table_bytes(self) -> int:
        """The most bytes of a table in registers in which one instruction looks up all lanes.

        AVX-512 does so in two registers; here only vectors that fill half of one are looked up.
        """
        return 2 * self.vector_bytes if self.level == 4 else 0

    @property
    def word_lookup(self) -> Literal["register", "halves", "bytes"] | None:
        """How lanes look up words of a table of sixteen: none where results are rounded otherwise.

        AVX-512 permutes a register that has them all, AVX2 one for each half, and AArch64 takes
        bytes of four. Without a fused multiply-add last bits differ anyway.
        """
        if not self.has_fma:
            return None
        if self.architecture != "x86_64":
            return "bytes"
        return "register" if self.vector_bytes == 64 else "halves"

    @property
    def register_constraint(self) -> str | None:
        """What assembly calls any vector register in its constraints; None without wide ones."""
        return "v" if self.architecture == "x86_64" and self.vector_bytes > 16 else None

    @property
    def selects_floats(self) -> bool:
        """Whether the lesser of two floats, `a < b ? a : b`, is one instruction, as of ints."""
        return self.architecture == "x86_64"

    @property
    def scales_floats(self) -> bool:
        """Whether x * 2**n of vectors of floats is one instruction, for any float n: AVX-512's."""
        return self.architecture == "x86_64" and self.vector_bytes == 64

    @property
    def masks_lanes(self) -> bool:
        """Whether loads and stores of some lanes take no longer than those of all: AVX-512's."""
        return self.architecture == "x86_64" and self.vector_bytes == 64

    @property
    def folds_broadcasts(self) -> bool:
        """Whether a multiply-add reads an element of memory for all lanes: AVX-512's."""
        return self.architecture == "x86_64" and self.vector_bytes == 64

    @property
    def guesses_roots(self) -> bool:
        """Whether 14 bits of reciprocal square roots are one instruction: AVX-512's."""
        return self.scales_floats

    @property
    def is_linux(self) -> bool:
        """Whether the C library is one of Linux, with its numbers; else that of macOS."""
        return "linux" in self.triple

    @property
    def monotonic_clock(self) -> int:
        """The number of `CLOCK_MONOTONIC` in the C library."""
        return 1 if self.is_linux else 6

    @property
    def set_signal_mask(self) -> int:
        """The number of `SIG_SETMASK` in the C library."""
        return 2 if self.is_linux else 3

    @property
    def destructors(self) -> str:
        """The section of an object whose functions are called when its code is unloaded."""
        return ".fini_array" if self.is_linux else "__DATA,__mod_term_func,mod_term_funcs"

    def lanes(self, itemsize: int) -> int:
        """Return how many elements of `itemsize` bytes one vector register holds."""
        return max(1, self.vector_bytes // itemsize)

    def converts_vectors(self, bits: int) -> bool:
        """Return whether x86-64 converts a vector of floats to integers of so many bits at once.

        Limits and nan are then for others to see to; the instructions of aarch64 know of them.
        """
        return self.level == 4 or (self.level > 0 and bits < 64)

    def machine(self, opt_level: int = 3, *, only_calls: bool = False) -> llvm.TargetMachine:
        """Create the LLVM target machine (a new one: they are not safe to share by threads).

        One for functions that do `only_calls` selects instructions and registers quickly.
        """
        _initialize(self.architecture)
        # Else never with 0: LLVM may make the load of one double part of a blend of two then, which
        # reads eight bytes behind the end of a buffer.
        opt = 0 if only_calls else max(opt_level, 1)
        return llvm.Target.from_triple(self.triple).create_target_machine(
            self.cpu, self.features, opt, reloc="pic", codemodel="small"
        )


# What the third level of the psABI has beyond the first; the fourth has AVX-512 besides.
_X86_64_V3 = (
    *("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
    *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
)

# Without the last one LLVM prefers 256 bits on some cores, for the sake of
# scalar code around vector code, and a step is nothing but vector code.
_X86_64_V4 = "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd,-prefer-256-bit"

_X86 = {
    "x86-64": ("x86-64", "", 16, 16, False, False),
    "x86-64-v2": ("x86-64-v2", "", 16, 16, False, False),
    "x86-64-v3": ("x86-64-v3", "", 32, 16, True, True),
    "x86-64-v4": ("x86-64-v4", _X86_64_V4, 64, 32, True, True),
}
_AARCH64 = ("generic", "+neon,+fp-armv8", 16, 32, True, True)

TARGET_NAMES = ("native", *_X86, "aarch64")

# Of these it was measured: long loops that prefetch the next page take 1.1 times as long, and small
# products of a megabyte up to 1.1 times as long if code is not prefetched.
_ZEN_5 = frozenset({"znver5"})
# And of the second of these, which are one core: small products of a megabyte take up to 1.25 times
# as long if none prefetches the next, and up to 1.07 times with loops of single steps; large ones
# up to 1.05 times if what lies so many bytes further in a panel is not prefetched into L1.
_SKYLAKE_SERVERS = frozenset({"skylake-avx512", "cascadelake", "cooperlake"})
_NEAR_AHEAD = 512
# Second-level caches of processors without AVX-512 are 256 or 512 KiB, and a panel wants room, too.
# With blocks of all of 512 on a Zen 3, whose L2 that is, products of 512 to 1,024 take up to 1.06
# times as long.
_BLOCK_OF_AVX2 = 192 << 10
# Intel lists these as slowed down by microcode against Gather Data Sampling (CVE-2022-40982). Of
# them Cascade Lake was measured: a gather of eight float64 takes 11.6 ns, eight loads 3.3. The
# kernel of a guest need not know of it, so it is not asked.
_GATHER_SLOWLY = frozenset({
    "skylake", "skylake-avx512", "cascadelake", "cooperlake", "cannonlake",
    "icelake-client", "icelake-server", "rocketlake", "tigerlake",
})  # fmt: skip


@cache
def target_named(name: str) -> Target:
    """Return the target `name`: "native", an x86-64 level ("x86-64-v3", ...) or "aarch64".

    Raises `CompileError` for any other name.
    """
    if name == "native":
        return _native()
    if name in _X86:
        return _at_level(Target(name, "x86_64-unknown-linux-gnu", *_X86[name]))
    if name == "aarch64":
        return Target(name, "aarch64-unknown-linux-gnu", *_AARCH64)
    known = ", ".join(TARGET_NAMES)
    raise CompileError("compile", f"target {name!r} is none of {known}", source=user_source())


def measured_at(level: Target) -> list[Target]:
    """Return a level of x86-64 for each kind of CPU whose products are others, of its code."""
    return [_as_measured(level, "skylake-avx512")] if level.level == 4 else []


@lru_cache(maxsize=32)  # each leaf function and each entry of a cache asks
def _shared_level(target: Target) -> Target | None:
    stated, level = set(target.features.split(",")), target.level
    has_all = target.cpu in _X86 or stated.issuperset(f"+{name}" for name in _X86_64_V3)
    if level < 3 or not has_all:
        return None
    return replace(target_named(f"x86-64-v{level}"), triple=target.triple)


def without_matrix_unit(target: Target) -> Target:
    """Return `target` for code that runs in processes which do not ask for a matrix unit."""
    is_matrix = target.bfloat16_unit == "matrix"
    return replace(target, bfloat16_unit=None) if is_matrix else target


def llvm_version() -> str:
    """Return the version of the LLVM that generates the code, like "22.1.0"."""
    return ".".join(map(str, llvm.llvm_version_info))


@cache
def _initialize(architecture: str) -> None:
    """Load LLVM's back end for an architecture: this machine's alone, unless another is meant.

    All of them would take a first step a millisecond or two longer.
    """
    if llvm.get_default_triple().startswith(architecture):
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


def _native() -> Target:
    triple = llvm.get_default_triple()
    cpu = llvm.get_host_cpu_name()
    host = llvm.get_host_cpu_features()
    features = host.flatten()
    if triple.startswith("aarch64"):
        return Target("native", triple, cpu, features, 16, 32, True, True)
    if all(host.get(f"avx512{part}", False) for part in ("f", "bw", "dq", "vl", "cd")):
        target = Target("native", triple, cpu, features + ",-prefer-256-bit", 64, 32, True, True)
        return _as_measured(replace(target, bfloat16_unit=_bfloat16_unit(host)), cpu)
    if all(host.get(name, False) for name in ("avx2", "fma", "f16c")):
        target = _at_level(Target("native", triple, cpu, features, 32, 16, True, True))
        return _as_measured(target, cpu)
    return Target("native", triple, cpu, features, 16, 16, False, False)


def _at_level(target: Target) -> Target:
    """Return `target` with what its level of x86-64 says: AVX2 has few instructions to spare."""
    if target.level != 3:
        return target
    memory = replace(target.memory, block_bytes=_BLOCK_OF_AVX2)
    return replace(target, issues_few=True, memory=memory)


def _as_measured(target: Target, cpu: str) -> Target:
    """Return `target` with what was measured of a CPU."""
    is_zen, is_skylake = cpu in _ZEN_5, cpu in _SKYLAKE_SERVERS
    return replace(
        target, follows_pages=is_zen, includes_code=is_zen, meets_products_late=is_skylake,
        issues_few=is_skylake or target.issues_few, gathers_slowly=cpu in _GATHER_SLOWLY,
        near_ahead=_NEAR_AHEAD if is_skylake else 0, streams_stacks=is_skylake,
        shares_slowly=is_skylake, shuffles_singly=is_skylake,
    )  # fmt: skip


def _bfloat16_unit(host: Mapping[str, bool]) -> Literal["dot", "matrix"] | None:
    """Return what a core with AVX-512 multiplies bfloat16 by.

    One with a matrix unit takes four times as long for a dot product as for a multiply-add, so it
    is as fast with float32 where the unit may not be used.
    """
    if host.get("amx-tile", False) and host.get("amx-bf16", False):
        return "matrix" if may_use_tiles() else None
    return "dot" if host.get("avx512bf16", False) else None
