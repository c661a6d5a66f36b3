"""Run benchmarks, one after another: `python -m benchmarks [--quick] [--json PATH] [--only ...]`.

After `--only` come names of them, such as `overhead loops`; without it all run.
"""

from __future__ import annotations

from benchmarks import (
    arrays,
    attention,
    calls,
    compile_memory,
    convolution,
    distributed,
    fft,
    first_step,
    functional_calls,
    gradbench,
    linalg,
    loops,
    lstm,
    matmul,
    networks,
    optimizer,
    overhead,
    plan,
    profiles,
    random_numbers,
    rows,
    scaling,
    sparse,
    threads,
    train_step,
    update_rules,
    workloads,
)
from benchmarks.report import options, write_json

# Each in the state it would find on its own: those that fill memory and caches come last, and what
# needs two cores comes before those that keep to one.
BENCHMARKS = (
    threads,
    distributed,
    plan,
    networks,
    workloads,
    gradbench,
    convolution,
    attention,
    rows,
    linalg,
    fft,
    sparse,
    overhead,
    functional_calls,
    train_step,
    profiles,
    update_rules,
    random_numbers,
    arrays,
    loops,
    lstm,
    matmul,
    calls,
    optimizer,
    first_step,
    scaling,
    compile_memory,
)
NAMES = {benchmark.__name__.rpartition(".")[2]: benchmark for benchmark in BENCHMARKS}


def main() -> None:
    """Print each report as it is ready, and write all of them at the end."""
    parser = options(__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME")
    chosen = parser.parse_args()
    reports = []
    for benchmark in (NAMES[name] for name in NAMES if name in chosen.only):
        reports.append(benchmark.measure(chosen.quick))
        print(reports[-1], flush=True)
    if chosen.json is not None:
        write_json(chosen.json, reports)


if __name__ == "__main__":
    main()
