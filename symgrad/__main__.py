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
from symgrad.commands.exporting import export_text
from symgrad.commands.inspecting import (
    diff_text,
    inspect_text,
    passes_text,
    profile_text,
    write_page,
)
from symgrad.commands.loading import load
from symgrad.commands.measuring import bench_text, info_text
from symgrad.errors import SymgradError
from symgrad.runtime.aot import FORMATS
from symgrad.runtime.stages import STAGES

DESCRIPTION = """\
Show, measure and export what symgrad makes of a program.

A PROGRAM is module:function or file.py:function. The function takes nothing and returns a compiled
step, or a pair of a step and a list of arrays to call it with.
"""
CACHE_EXAMPLES = """\
examples:
  python -m symgrad cache                          what is in it, and its limit
  python -m symgrad cache path                     the folder it is in
  python -m symgrad cache clear                    remove all of it
  SYMGRAD_CACHE=off python train.py                neither read nor write it
  SYMGRAD_CACHE_DIR=/scratch/me python train.py    keep it elsewhere
  SYMGRAD_CACHE_MEGABYTES=100 python train.py      keep less
"""
EXIT_CODES = """\
exit codes: 0 all went well, 1 inspect --diff found differences, 2 what was asked cannot be done
"""


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
        prog="python -m symgrad",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_inspect(commands)
    profile = commands.add_parser("profile", help="run a step and show the time of each kernel")
    profile.add_argument("program", metavar="PROGRAM")
    profile.add_argument("--repeat", type=_positive, default=20, help="steps (default: 20)")
    report = commands.add_parser("report", help="write a page of HTML that shows everything")
    report.add_argument("program", metavar="PROGRAM")
    report.add_argument("path", type=_path, metavar="PAGE", help="the file to write")
    _add_export(commands)
    bench = commands.add_parser("bench", help="time steps, which take turns, against each other")
    bench.add_argument("program", nargs="+", metavar="PROGRAM")
    bench.add_argument("--rounds", type=_positive, default=21, help="turns each (default: 21)")
    bench.add_argument("--seconds", type=_seconds, default=0.05, help="a turn (default: 0.05)")
    _add_cache(commands)
    commands.add_parser("info", help="show versions, targets and settings")
    return parser


def _add_inspect(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    inspect = commands.add_parser("inspect", help="show kernels and memory, or the text of a stage")
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


def _add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    export = commands.add_parser("export", help="write an object, a library and a header for C")
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


def _add_cache(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    cache = commands.add_parser(
        "cache",
        help="show or empty the files that keep machine code for other processes",
        epilog=CACHE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cache.add_argument(
        "action", nargs="?", choices=ACTIONS, default=ACTIONS[0], help="(default: show)"
    )


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


def _export(chosen: argparse.Namespace) -> int:
    step = load(chosen.program)
    _write(export_text(step, chosen.path, chosen.formats, chosen.target, chosen.size))
    return 0


def _bench(chosen: argparse.Namespace) -> int:
    _write(bench_text([load(p) for p in chosen.program], chosen.rounds, chosen.seconds))
    return 0


def _cache(chosen: argparse.Namespace) -> int:
    _write(cache_text(chosen.action))
    return 0


def _info(_chosen: argparse.Namespace) -> int:
    _write(info_text())
    return 0


_COMMANDS = {
    "inspect": _inspect,
    "profile": _profile,
    "report": _report,
    "export": _export,
    "bench": _bench,
    "cache": _cache,
    "info": _info,
}

if __name__ == "__main__":
    sys.exit(main())
