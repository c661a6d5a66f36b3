"""The command line: `python -m symgrad COMMAND`. What the commands do is in `symgrad/commands`."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from symgrad.commands.caching import ACTIONS, cache_text
from symgrad.commands.examples import epilog
from symgrad.commands.exporting import export_text
from symgrad.commands.inspecting import (
    diff_text,
    inspect_text,
    passes_text,
    profile_text,
    write_page,
    write_timeline,
)
from symgrad.commands.linting import lint_text
from symgrad.commands.loading import load
from symgrad.commands.measuring import bench_text, info_text
from symgrad.commands.op_index import ops_text
from symgrad.commands.planning import plan_text
from symgrad.commands.starting import new_text
from symgrad.errors import SymgradError
from symgrad.runtime.choices import FORMATS, STAGES
from symgrad.runtime.inspection.plan import Network

DESCRIPTION = """\
Show, measure and export what symgrad makes of a program.

A PROGRAM is module:function or file.py:function. The function takes nothing and returns a compiled
step, or a pair of a step and a list of arrays to call it with.
"""
EXIT_CODES = """\
exit codes: 0 all went well, 1 inspect --diff or lint found something, 2 it cannot be done

`symgrad COMMAND` and `python -m symgrad COMMAND` are the same; COMMAND --help has examples.
"""

# How it was called: as what pip installs, or as a module.
_PROGRAM = "symgrad" if Path(sys.argv[0]).name == "symgrad" else "python -m symgrad"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        return int(_COMMANDS[chosen.command](chosen))
    except SymgradError as error:
        if error.source is not None and error.source.file.startswith("<frozen"):
            error.source = None  # the way Python runs a module: no line of the user
        _write(f"error: {error}\n", sys.stderr)
        return 2


def _write(text: str, stream: TextIO | None = None) -> None:
    """Print text as it is; what the stream cannot say, such as half a character, as an escape."""
    stream = stream or sys.stdout
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    new = _add(commands, "new", "write a small project: a model, its training, tests, an export")
    new.add_argument("path", type=_path, metavar="NAME", help="the folder to write")
    _add_inspect(commands)
    profile = _add(commands, "profile", "run a step and show the time of each kernel")
    profile.add_argument("program", metavar="PROGRAM")
    profile.add_argument("--repeat", type=_positive, default=20, help="steps (default: 20)")
    report = _add(commands, "report", "write a page of HTML that shows everything")
    report.add_argument("program", metavar="PROGRAM")
    report.add_argument("path", type=_path, metavar="PAGE", help="the file to write")
    _add_trace(commands)
    _add_export(commands)
    bench = _add(commands, "bench", "time steps, which take turns, against each other")
    bench.add_argument("program", nargs="+", metavar="PROGRAM")
    bench.add_argument("--rounds", type=_positive, default=21, help="turns each (default: 21)")
    bench.add_argument("--seconds", type=_seconds, default=0.05, help="a turn (default: 0.05)")
    _add_plan(commands)
    lint = _add(commands, "lint", "show what a program has that it is unlikely to want")
    lint.add_argument("program", metavar="PROGRAM")
    ops = _add(commands, "ops", "list the ops, or those that a text is in")
    ops.add_argument("text", nargs="?", metavar="TEXT")
    cache = _add(commands, "cache", "show, fill or empty the files that keep machine code")
    cache.add_argument(
        "action", nargs="?", choices=ACTIONS, default=ACTIONS[0], help="(default: show)"
    )
    info = _add(commands, "info", "show versions, the machine and its limits, and settings")
    info.add_argument("--quick", action="store_true", help="leave out what has to be measured")
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=epilog(name, _PROGRAM),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_inspect(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    inspect = _add(commands, "inspect", "show kernels and memory, or the text of a stage")
    inspect.add_argument("program", nargs="?", metavar="PROGRAM")
    inspect.add_argument("--stage", choices=STAGES, help="show the text of this stage")
    inspect.add_argument("--kernel", metavar="NAME", help="only what this kernel is made of")
    inspect.add_argument(
        "--passes",
        action="store_true",
        help="show the graph, its kernels and its program after each pass that changes them",
    )
    inspect.add_argument(
        "--diff", nargs=2, metavar=("A", "B"),
        help="show how two programs differ at a stage (default: loops)",
    )  # fmt: skip
    inspect.set_defaults(usage=inspect.error)


def _add_trace(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    trace = _add(commands, "trace", "write a timeline of one step, which Perfetto draws")
    trace.add_argument("program", metavar="PROGRAM")
    trace.add_argument(
        "-o", "--output", type=_path, default=Path("step.json"), metavar="FILE",
        help="the file to write (default: step.json)",
    )  # fmt: skip


def _add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    export = _add(commands, "export", "write an object, a library and a header for C")
    export.add_argument("program", metavar="PROGRAM")
    export.add_argument("path", type=_path, metavar="PATH", help="the files to write, no suffix")
    export.add_argument(
        "--formats", nargs="+", choices=FORMATS, default=FORMATS, help="(default: all)"
    )
    export.add_argument(
        "--target", nargs="+", metavar="TARGET", help="a machine, or several levels of x86-64"
    )
    export.add_argument(
        "--size", nargs="+", default=[], metavar="NAME=N", help="sizes that the inputs leave open"
    )


def _add_plan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    plan = _add(commands, "plan", "predict what a step takes on more ranks than there are")
    plan.add_argument("program", metavar="PROGRAM")
    plan.add_argument("--ranks", type=_positive, required=True, metavar="N", help="up to so many")
    plan.add_argument(
        "--latency", type=_seconds, required=True, metavar="US",
        help="microseconds until a message begins to arrive",
    )  # fmt: skip
    plan.add_argument(
        "--bandwidth", type=_rate, required=True, metavar="GB",
        help="10**9 bytes a second that a rank sends then",
    )  # fmt: skip
    plan.add_argument(
        "--progress", type=_share, default=1.0, metavar="SHARE",
        help="of a message that moves while a rank computes (default: 1)",
    )  # fmt: skip
    plan.add_argument("--repeat", type=_positive, default=20, help="steps (default: 20)")


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share")
    return share


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no rate")
    return rate


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no time")
    return seconds


def _path(text: str) -> Path:
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is the name of no file") from error
    if "\0" in text or not Path(text).name:
        raise argparse.ArgumentTypeError(f"{text!r} is the name of no file")
    return Path(text)


# ------------------------------------------------------------------------------------- commands


def _inspect(chosen: argparse.Namespace) -> int:
    if (chosen.program is None) == (chosen.diff is None):
        chosen.usage("give one PROGRAM, or two after --diff")
    if chosen.passes and (chosen.stage or chosen.kernel or chosen.diff):
        chosen.usage("--passes stands alone")
    if chosen.diff is not None:
        a, b = map(load, chosen.diff)
        text = diff_text(a, b, chosen.stage, chosen.kernel)
        _write(text)
        return 1 if text else 0
    loaded = load(chosen.program)
    if chosen.passes:
        _write(passes_text(loaded))
    else:
        _write(inspect_text(loaded, chosen.stage, chosen.kernel))
    return 0


def _profile(chosen: argparse.Namespace) -> int:
    _write(profile_text(load(chosen.program), chosen.repeat))
    return 0


def _report(chosen: argparse.Namespace) -> int:
    _write(write_page(load(chosen.program), chosen.path))
    return 0


def _trace(chosen: argparse.Namespace) -> int:
    _write(write_timeline(load(chosen.program), chosen.output))
    return 0


def _export(chosen: argparse.Namespace) -> int:
    step = load(chosen.program)
    _write(export_text(step, chosen.path, chosen.formats, chosen.target, chosen.size))
    return 0


def _bench(chosen: argparse.Namespace) -> int:
    _write(bench_text([load(p) for p in chosen.program], chosen.rounds, chosen.seconds))
    return 0


def _plan(chosen: argparse.Namespace) -> int:
    network = Network(chosen.latency * 1e-6, chosen.bandwidth * 1e9, chosen.progress)
    _write(plan_text(load(chosen.program), chosen.ranks, network, chosen.repeat))
    return 0


def _cache(chosen: argparse.Namespace) -> int:
    _write(cache_text(chosen.action))
    return 0


def _info(chosen: argparse.Namespace) -> int:
    _write(info_text(is_measured=not chosen.quick))
    return 0


def _lint(chosen: argparse.Namespace) -> int:
    text = lint_text(load(chosen.program))
    _write(text)
    return 1 if text else 0


def _new(chosen: argparse.Namespace) -> int:
    _write(new_text(chosen.path))
    return 0


def _ops(chosen: argparse.Namespace) -> int:
    _write(ops_text(chosen.text))
    return 0


_COMMANDS = {
    "inspect": _inspect,
    "profile": _profile,
    "report": _report,
    "trace": _trace,
    "export": _export,
    "bench": _bench,
    "plan": _plan,
    "lint": _lint,
    "new": _new,
    "ops": _ops,
    "cache": _cache,
    "info": _info,
}

if __name__ == "__main__":
    sys.exit(main())
