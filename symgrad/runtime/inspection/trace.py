"""Timeline: one step with the begin and the end of each kernel, and of each part on each thread.

It is written in the trace event format, JSON that Perfetto and chrome://tracing draw: threads are
rows, and a part of a kernel lies within the call of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.llvm.tracing import EVENT_WORDS, HEAD_WORDS, WHOLE_CALL, WHOLE_LOOP
from symgrad.codegen.program.language import native_calls_of
from symgrad.codegen.program.registers import timed_as_one
from symgrad.graph.types import Array
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.communication import Message, messages_of
from symgrad.runtime.inspection.host import describe_host
from symgrad.runtime.inspection.kernels import Kernels, describe_kernels
from symgrad.runtime.inspection.timed_program import TimedProgram

_MOST_EVENTS = 1 << 21
_SPARE = 256  # events more than the step before had: a loop may run longer
_PROCESS = 1


def write_trace(
    path: str | os.PathLike[str], name: str, executable: Executable, arrays: Sequence[Array]
) -> int:
    """Write the timeline of a step on `arrays`, after one that warms up; return how many events."""
    found, met = _events(executable, arrays)
    loops = _loops(executable)
    origin = int(found[:, 3].min()) if len(found) else 0
    threads = {int(thread): row for row, thread in enumerate(dict.fromkeys(found[:, 2].tolist()))}
    kernels, messages = describe_kernels(executable), messages_of(executable.program)
    names = [f"thread {row}" if row else "the calling thread" for row in threads.values()]
    events = [_named("process_name", 0, name)]
    events += [_named("thread_name", row, of_row) for row, of_row in enumerate(names)]
    for call, part, thread, begin, end in found.tolist():
        event = _event(kernels, loops, call, part)
        events.append(event | _when(threads[thread], begin - origin, end - origin))
    on_way = _on_way(messages, found)
    for row in range(1 + max((row for _, row, _, _ in on_way), default=-1)):
        events.append(_named("thread_name", len(threads) + row, f"messages {row}"))
    for message, row, begin, end in on_way:
        event = {"name": message.function, "cat": "message", "args": {"bytes": message.bytes}}
        events.append(event | _when(len(threads) + row, begin - origin, end - origin))
    told = {
        **describe_host(executable.options.target).facts,
        "events left out": met - len(found),
    }
    page = {"traceEvents": events, "displayTimeUnit": "ns", "otherData": told}
    Path(path).write_text(json.dumps(page), encoding="utf-8")
    return len(found)


def _when(row: int, begin: int, end: int) -> dict[str, Any]:
    """Return where an event is drawn, by nanoseconds."""
    return {"ph": "X", "pid": _PROCESS, "tid": row, "ts": begin / 1e3, "dur": (end - begin) / 1e3}


def _on_way(messages: Sequence[Message], found: Array) -> list[tuple[Message, int, int, int]]:
    """Return the messages that were on their way while the rank computed: row, begin and end.

    A message is on its way from the end of the call that starts it to the end of the wait. Those
    that overlap are in rows of their own.
    """
    starts = {m.call: m for m in messages if m.waited is not None}
    pending: dict[int, tuple[Message, int]] = {}
    spans = []
    for call, part, _, _, end in found.tolist():
        if part != WHOLE_CALL:
            continue
        if call in starts:
            message = starts[call]
            assert message.waited is not None, "it is waited for"
            pending[message.waited] = message, end
        elif call in pending:
            message, begin = pending.pop(call)
            spans.append((message, begin, end))
    rows: list[int] = []  # when each row is free again
    placed = []
    for message, begin, end in sorted(spans, key=lambda span: span[1]):
        row = next((i for i, free in enumerate(rows) if free <= begin), len(rows))
        rows[row : row + 1] = [end]
        placed.append((message, row, begin, end))
    return placed


def _events(executable: Executable, arrays: Sequence[Array]) -> tuple[Array, int]:
    """Return the events of a step in the order of their begin, and how many there were."""
    module = emit_module(executable.program, executable.options.target, traced=True)
    program = TimedProgram(executable, str(module), arrays)
    with program.state_kept():
        counted = np.zeros(HEAD_WORDS, np.int64)
        program.run(counted)
    room = min(int(counted[0]) + _SPARE, _MOST_EVENTS)
    table = np.zeros(HEAD_WORDS + EVENT_WORDS * room, np.int64)
    with program.state_kept():
        table[1] = room
        program.run(table)
    met = int(table[0])
    rows = table[HEAD_WORDS:].reshape(room, EVENT_WORDS)[: min(met, room)]
    # Of a call and its first part the call comes first, so that its thread is the first row.
    return rows[np.lexsort((-rows[:, 4], rows[:, 3]))], met


def _loops(executable: Executable) -> Mapping[int, str]:
    """Return, for each call in whose place a loop is timed, the kernels of that loop."""
    program = executable.program
    numbers = {id(call): number for number, call in enumerate(program.native_calls)}
    parts = (program.instrs, *(routine.instrs for routine in program.routines))
    loops = (loop for instrs in parts for loop in timed_as_one(instrs))
    found = {}
    for loop in loops:
        calls = list(native_calls_of([loop]))
        found[numbers[id(calls[0])]] = ", ".join(dict.fromkeys(c.name for c in calls))
    return found


def _event(kernels: Kernels, loops: Mapping[int, str], call: int, part: int) -> dict[str, Any]:
    record = kernels[call]
    if part == WHOLE_LOOP:
        return {"name": "loop", "cat": "loop", "args": {"kernels": loops[call], "call": call}}
    if part != WHOLE_CALL:
        first, last = part & 0xFFFFFFFF, (part >> 32) - 1
        which = f"part {first}" if first == last else f"parts {first} to {last}"
        args = {"kernel": record.name, "call": call, "first": first, "last": last}
        return {"name": f"{record.name} {which}", "cat": "part", "args": args}
    args = {
        "call": call,
        "ops": ", ".join(dict.fromkeys(record.ops)),
        "lines": ", ".join(record.lines),
        "name scopes": ", ".join(filter(None, record.scopes)),
        "flops": record.flops,
        "bytes": record.bytes,
    }
    return {"name": f"{record.name} {record.label}", "cat": "kernel", "args": args}


def _named(what: str, row: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": _PROCESS, "tid": row, "args": {"name": name}}
