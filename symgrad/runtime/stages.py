"""IR dumps: the text of every stage of a step, in parts that know which kernels they belong to.

    graph       what the user built
    optimized   the same after the passes, in groups: each becomes a kernel
    loops       kernels in the loop language, and the program that calls them
    llvm        LLVM IR as it is emitted
    llvm-opt    LLVM IR as LLVM's passes leave it
    asm         machine code

Kernels carry comments that say what they compute and which lines of the user they come from.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from symgrad.codegen.llvm.module import loop_function
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.program.print import print_instrs
from symgrad.codegen.program.registers import written_out
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node
from symgrad.graph.text.print import ELIDED, graph_lines
from symgrad.records import dataclass
from symgrad.runtime.executable import Executable
from symgrad.runtime.provenance import Provenance, lines_of, source_of

_NAMED = 6  # ops, and lines, that the comment of a kernel names
_FUNCTION = re.compile(r'^define .*?@"?([\w.$-]+)"?\(')
_CALL = re.compile(r'^ +(?:launch @([\w.]+)|extern "([^"]*)")\(')
_SYMBOL = re.compile(r'@"?([\w.$-]+)')  # in LLVM IR
# In assembly: what is called, and what is handed to the team of threads by its address.
_CALLEE = re.compile(r"\t(?:callq?\t|jmp\t|bl?\t|leaq\t|adrp\t\w+, )([\w.$-]+)")
_SIZE = re.compile(r"^\t\.size\t([\w.$-]+),")  # the end of a function in assembly


_Function = tuple[str | None, str]  # name and text; None for text between functions


@dataclass(frozen=True, slots=True)
class Part:
    """Some lines of a stage.

    `kernels` are those that the lines are part of: none for what surrounds them all. `place` is
    the user's line, where one line of text comes from one. `calls` are the numbers of the calls
    that the lines are part of: of the many of a kernel, where one line tells them apart.
    """

    text: str
    kernels: tuple[str, ...] = ()
    place: str | None = None
    calls: tuple[int, ...] = ()


def graph_parts(graph: Graph, provenance: Provenance | None = None) -> list[Part]:
    """Return the parts of the graph as it was built, a line each."""
    return [
        _line_of_node(f"{line}\n", n, provenance) for line, n in graph_lines(graph, elide=ELIDED)
    ]


def _line_of_node(text: str, node: Node | None, provenance: Provenance | None) -> Part:
    if node is None:
        return Part(text)
    source = source_of(node)
    place = None if source is None else str(source)
    if provenance is None:
        return Part(text, place=place)
    return Part(text, provenance.kernels_of(node), place, provenance.calls_of(node))


def parts_of_step(stage: str, graph: Graph, executable: Executable) -> list[Part]:
    """Return the parts of a stage of a step, which say what kernels they belong to.

    `graph` is what the user built, of which `executable` was made.
    """
    match stage:
        case "graph":
            provenance = Provenance(executable.program.native_calls, executable.sources, graph)
            return graph_parts(graph, provenance)
        case "optimized":
            return _optimized_parts(executable)
        case "loops":
            return _loops_parts(executable)
        case "llvm":
            return _function_parts(_llvm_functions(executable.llvm), _SYMBOL, executable, ";")
        case "llvm-opt":
            return _function_parts(
                _llvm_functions(executable.optimized_llvm), _SYMBOL, executable, ";"
            )
        case "asm":
            mark = "//" if executable.options.target.triple.startswith("aarch64") else "#"
            return _function_parts(
                _assembly_functions(executable.assembly), _CALLEE, executable, mark
            )
        case _:
            raise AssertionError(f"{stage} is no stage")


def kernel_comment(nodes: Iterable[Node], mark: str) -> str:
    """Return lines of comment: the ops that a kernel computes, and where they come from."""
    nodes = list(nodes)
    ops = list(dict.fromkeys(node.op for node in nodes))
    if not nodes:
        return ""
    text = f"{mark} computes {_listed(ops)}\n"
    lines = lines_of(nodes)
    return text + (f"{mark} from {_listed(list(lines))}\n" if lines else "")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


# -------------------------------------------------------------------------------------- stages


def _optimized_parts(executable: Executable) -> list[Part]:
    """Return the groups of the program, then those of the graphs nested in it."""
    sources = executable.sources
    numbered = executable.program.native_calls
    calls = {
        group: number for number, call in enumerate(numbered) for group in sources.groups_of(call)
    }
    parts = []
    for number, partition in enumerate(sources.partitions):
        if number:
            parts.append(Part("\n"))
        for line, group in partition.lines():
            if group is None or group not in calls:
                parts.append(Part(f"{line}\n"))
            else:
                number = calls[group]
                name = numbered[number].name
                parts.append(Part(f"{line}\n", (name,), calls=(number,)))
    return parts


def _loops_parts(executable: Executable) -> list[Part]:
    program = executable.program
    provenance = Provenance(program.native_calls, executable.sources)
    parts = []
    for kernel in program.kernels:
        name = kernel.name
        comment = kernel_comment(provenance.nodes_of(name), "//")
        text = f"{comment}{print_kernel(kernel)}"
        parts += [Part(text, (name,), calls=provenance.calls_of_kernel(name)), Part("\n")]
    numbers = itertools.count()
    for line in print_instrs(program, elide=ELIDED).splitlines(keepends=True):
        called = _CALL.search(line)
        own = () if called is None else (called[1] or f"{called[2]}()",)
        parts.append(Part(line, own, calls=(next(numbers),) if own else ()))
    return parts


def _llvm_functions(text: str) -> Iterator[_Function]:
    """Yield the functions of LLVM IR with their names, and what is between them."""
    name: str | None = None
    lines = ""
    for line in text.splitlines(keepends=True):
        found = _FUNCTION.match(line)
        if found is not None:
            yield None, lines
            name, lines = found[1], ""
        lines += line
        if line.startswith("}"):
            yield name, lines
            name, lines = None, ""
    yield None, lines


def _assembly_functions(text: str) -> Iterator[_Function]:
    """Yield the functions of ELF assembly with their names, each after the constants it loads."""
    lines = ""
    for line in text.splitlines(keepends=True):
        lines += line
        found = _SIZE.match(line)
        if found is not None:
            yield found[1], lines
            lines = ""
    yield None, lines


def _function_parts(
    functions: Iterable[_Function], called: re.Pattern[str], executable: Executable, mark: str
) -> list[Part]:
    """Return a part for each function, which belongs to the kernels that reach it or are in it.

    `called` finds the functions that a function names, `mark` begins a comment.
    """
    listed = [(name, text) for name, text in functions if text]
    texts = {name: text for name, text in listed if name is not None}
    calls = {name: set(called.findall(text)) & texts.keys() for name, text in texts.items()}
    provenance = Provenance(executable.program.native_calls, executable.sources)
    users: dict[str, list[str]] = {}
    contents: dict[str, tuple[str, ...]] = {}
    linkable = executable.linkable
    for kernel in (k.name for k in executable.program.kernels):
        code = kernel if kernel in texts else linkable.same_code.get(kernel, "")
        if code in texts:
            contents[code] = (*contents.get(code, ()), kernel)
            for name in _reached([code, *linkable.passed(kernel)], calls):
                users.setdefault(name, []).append(kernel)
    contents |= _loops(executable)
    for loop, inside in _loops(executable).items():
        users.setdefault(loop, []).extend(inside)
    parts = []
    for function, text in listed:
        known = function or ""
        nodes = [n for kernel in contents.get(known, ()) for n in provenance.nodes_of(kernel)]
        own = tuple(users.get(known, ()))
        numbers = tuple(i for kernel in own for i in provenance.calls_of_kernel(kernel))
        parts.append(Part(kernel_comment(nodes, mark) + text, own, calls=numbers))
    return parts


def _loops(executable: Executable) -> dict[str, tuple[str, ...]]:
    """Return the functions that are loops, and the kernels whose code is in each."""
    width = executable.options.target.vector_bytes
    loops = written_out(executable.program.all_instrs, width)
    return {loop_function(number): kernels for number, kernels in loops.items()}


def _reached(starts: Sequence[str], calls: Mapping[str, set[str]]) -> set[str]:
    """Return `starts` and the functions that they call at any distance."""
    reached, pending = set(starts), list(starts)
    while pending:
        new = calls[pending.pop()] - reached
        reached |= new
        pending += new
    return reached
