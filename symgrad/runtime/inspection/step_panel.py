"""Rich display of a compiled step: what notebooks show of it."""

from __future__ import annotations

from symgrad.display.panels import facts, panel
from symgrad.display.units import bytes_text
from symgrad.graph.graph import Graph
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.memory import describe_memory


def step_panel(name: str, graph: Graph, executable: Executable | None) -> str:
    """Return what a step takes and gives, and of how many kernels and how much memory it is."""
    rows: list[tuple[object, object]] = [
        ("inputs", ", ".join(f"{t.name or t.node.op}: {t.type}" for t in graph.inputs)),
        ("outputs", ", ".join(str(t.type) for t in graph.outputs)),
        ("updates", f"{len(graph.updates)} variables" if graph.updates else ""),
    ]
    if executable is None:
        rows.append(("kernels", "sizes are not known yet: call the step once"))
    else:
        program, memory = executable.program, describe_memory(executable)
        calls = f"{len(program.native_calls)} calls" if program.native_calls else "no calls"
        rows += [
            ("kernels", f"{len(program.kernels)}, {calls}"),
            ("memory", f"{bytes_text(memory.peak_bytes)}, of which the arena is "
                       f"{bytes_text(memory.arena_bytes)}"),
            ("target", executable.options.target.name),
        ]  # fmt: skip
    shown = [(key, value) for key, value in rows if value]
    more = "more: .kernels, .memory, .profile(...), .report(path, ...), .ir(stage)"
    return panel(f"Step {name}", facts(shown), more)
