"""Examples of the command line: what `--help` of each subcommand shows.

They are written for the project that `new` makes, in whose folder tests run all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

# A command line: what it does.
EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "new": {
        "symgrad new demo": "a model, its training, tests, an export, and a Makefile",
    },
    "inspect": {
        "symgrad inspect model.py:training_step": "kernels and memory",
        "symgrad inspect model:training_step --stage loops": "what is computed, as loops",
        "symgrad inspect model.py:training_step --stage asm --kernel k0": "one kernel",
        "symgrad inspect model.py:training_step --passes": "what each pass changes",
        "symgrad inspect --diff model.py:prediction_step model.py:prediction_step":
            "how two programs differ",
    },
    "profile": {
        "symgrad profile model.py:training_step": "the time of each kernel and line",
    },
    "report": {
        "symgrad report model.py:training_step step.html": "all of it on one page",
    },
    "trace": {
        "symgrad trace model.py:training_step -o step.json": "a timeline, for ui.perfetto.dev",
    },
    "export": {
        "symgrad export model.py:training_step build_train": "for this machine",
        "symgrad export model.py:prediction_step predict --size rows=1 --target x86-64-v3":
            "with an open size, for another machine",
    },
    "bench": {
        "symgrad bench model.py:training_step model.py:prediction_step --rounds 3": "in turns",
    },
    "plan": {
        "symgrad plan model.py:training_step --ranks 1024 --latency 2 --bandwidth 12":
            "on a network of 2 us and 12 GB/s",
    },
    "lint": {
        "symgrad lint model.py:training_step": "exit code 1 if there is something",
    },
    "ops": {
        "symgrad ops": "all of them, as in docs/ops.md",
        "symgrad ops logsumexp": "one in full, and those that mention it",
        "symgrad ops np.concatenate": "what stands for a function of NumPy's",
    },
    "cache": {
        "symgrad cache": "what is in it, and its limit",
        "symgrad cache path": "the folder it is in",
        "symgrad cache precompile": "compile what most products need, once for a machine",
        "symgrad cache clear": "remove all of it",
    },
    "info": {
        "symgrad info": "what a report of a fault needs",
        "symgrad info --quick": "without the limits, which take a second to measure",
    },
}  # fmt: skip

# What else the help of a subcommand says.
_MORE: Mapping[str, str] = {
    "cache": """
environment:
  SYMGRAD_CACHE=off python train.py                neither read nor write it
  SYMGRAD_CACHE_DIR=/scratch/me python train.py    keep it elsewhere
  SYMGRAD_CACHE_MEGABYTES=100 python train.py      keep less
""",
}


def epilog(command: str, program: str) -> str:
    """Return what the help of `command` ends with, of a command line that begins with `program`."""
    lines = {f"{program}{line.removeprefix('symgrad')}": p for line, p in EXAMPLES[command].items()}
    width = min(60, max(map(len, lines)))
    shown = (f"  {line:<{width}}  {purpose}\n" for line, purpose in lines.items())
    return f"examples:\n{''.join(shown)}{_MORE.get(command, '')}"
