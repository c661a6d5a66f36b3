"""Code motion: whether an instruction may be done before others, by what each reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from symgrad.codegen.program.language import Instr, Launch, buffers_of
from symgrad.codegen.program.registers import written_by
from symgrad.passes.fusion.buffers import Buffer


def can_fail(instr: Instr) -> bool:
    """Return whether a step may end with an instruction: at a check, in C or where a loop polls."""
    return not isinstance(instr, Launch) or instr.can_fail


class PassedOver:
    """Data dependences of instructions, in their order, that another one may be moved over.

    What they touch is noted once, however many instructions are asked about.
    """

    def __init__(self, instrs: Iterable[Instr] = ()) -> None:
        self.instrs: list[Instr] = []
        self._written: set[Buffer] = set()
        self._touched: set[Buffer] = set()
        self._can_fail = False
        self._asked = 0  # of how many it is known
        for instr in instrs:
            self.add(instr)

    def add(self, instr: Instr) -> None:
        """Note an instruction that is done behind the others."""
        self.instrs.append(instr)
        self._written |= _written(instr)
        self._touched |= _touched(instr)

    @property
    def can_fail(self) -> bool:
        """Whether a step may end with one of the instructions.

        It is found out when it is first asked for: that reads all of each kernel.
        """
        self._can_fail = self._can_fail or any(map(can_fail, self.instrs[self._asked :]))
        self._asked = len(self.instrs)
        return self._can_fail

    def conflicts(self, moved: Instr) -> bool:
        """Return whether one side writes what the other touches, so that their order matters."""
        if not self._written.isdisjoint(_touched(moved)):
            return True
        return not self._touched.isdisjoint(_written(moved))

    def lets(self, moved: Instr) -> bool:
        """Return whether an instruction behind these may be done before them."""
        # A step that fails, or is interrupted, leaves the state as it was.
        if any(b.place == "variable" for b in _written(moved)) and self.can_fail:
            return False
        return not self.conflicts(moved)


def _touched(instr: Instr) -> frozenset[Buffer]:
    return instr.touched if isinstance(instr, Launch) else frozenset(buffers_of([instr]))


def _written(instr: Instr) -> frozenset[Buffer]:
    return instr.written if isinstance(instr, Launch) else frozenset(written_by([instr]))


def gathered(
    instrs: Sequence[Instr], joins: Callable[[Instr], bool], launches: Sequence[Launch]
) -> tuple[list[Instr], list[Instr]]:
    """Let those of `instrs` join `launches` that can; return what is before and behind these then.

    `joins` adds an instruction to `launches` if it may be there, and returns whether it was.
    """
    before: list[Instr] = []
    behind = PassedOver()
    for instr in instrs:
        if behind.lets(instr) and joins(instr):
            continue
        # Which failure is met first stays as it was.
        fails_apart = behind.can_fail and can_fail(instr)
        is_free = behind.lets(instr) and PassedOver(launches).lets(instr)
        if fails_apart or not is_free:
            behind.add(instr)
        else:
            before.append(instr)
    return before, behind.instrs
