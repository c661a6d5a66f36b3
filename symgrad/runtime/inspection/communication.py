"""Communication of a step: which calls send, how much, and what is computed while it is sent."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.program.language import ExternInstr, NativeCall, Program, root
from symgrad.display.units import bytes_text, seconds_text
from symgrad.graph.foreign_functions import PassedSymbol, ProcessGroup
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """A call of a collective of MPI, by its number among the calls of a step.

    A call that starts one returns at once, and the call `waited` has it come. `bytes` are those of
    the larger of what a rank gives and gets.
    """

    call: int
    function: str
    bytes: int
    group: ProcessGroup
    waited: int | None = None


@dataclass(frozen=True, slots=True)
class Communication:
    """What a step sends: how many calls, the bytes of all, and their seconds.

    `seconds` are spent in the calls, waits among them. `hidden_seconds` are those in which a
    message was on its way and the rank computed: of the time that messages take, so much at the
    most is hidden.
    """

    calls: int
    bytes: int
    seconds: float
    hidden_seconds: float

    def __str__(self) -> str:
        meanwhile = f"{seconds_text(self.hidden_seconds)} of computation meanwhile"
        took = f"{bytes_text(self.bytes)} in {self.calls} calls, {seconds_text(self.seconds)}"
        return f"communication: {took}, {meanwhile}"


def messages_of(program: Program) -> list[Message]:
    """Return the messages of a program, in the order in which their calls stand in it."""
    calls = program.native_calls
    # A request is handed from a start, of which it is the second result, to its wait.
    waits = {
        root(call.inputs[0]): number
        for number, call in enumerate(calls)
        if isinstance(call, ExternInstr) and call.function.when == "late"
    }
    found = []
    for number, call in enumerate(calls):
        group = _group_of(call)
        if isinstance(call, ExternInstr) and group is not None and call.inputs:
            starts = call.function.when == "early"
            waited = waits.get(root(call.outputs[1])) if starts else None
            count = max(argument.type.nbytes for argument in (call.inputs[0], call.outputs[0]))
            found.append(Message(number, call.function.name, count, group, waited))
    return found


def _group_of(call: NativeCall) -> ProcessGroup | None:
    """Return the processes that make a call together."""
    if not isinstance(call, ExternInstr):
        return None
    symbols = (a.symbol for a in call.layout if isinstance(a, PassedSymbol))
    return next((symbol.group for symbol in symbols if symbol.group is not None), None)


def communication_of(
    program: Program, seconds: Sequence[float], runs: Sequence[int]
) -> Communication | None:
    """Return what a step sends, by the seconds and runs of its calls; None if it sends nothing."""
    messages = messages_of(program)
    if not messages:
        return None
    own = {m.call for m in messages} | {m.waited for m in messages if m.waited is not None}
    on_way: set[int] = set()
    for message in messages:
        if message.waited is not None:
            on_way.update(range(message.call + 1, message.waited))
    return Communication(
        sum(runs[m.call] for m in messages),
        sum(m.bytes * runs[m.call] for m in messages),
        sum(seconds[number] for number in own),
        sum(seconds[number] for number in on_way - own),
    )
