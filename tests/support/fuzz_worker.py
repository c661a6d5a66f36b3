"""A process that runs random programs, since a fault between guard pages ends the process.

    python -m tests.support.fuzz_worker control 100 200

prints a line `run 100`, then `wrong 100 <what is wrong, as JSON>` if floors disagree, and so on;
`unstable 100` if they do where the reference jumps when inputs change in their last bits.
A run that ends without `done` was ended by the seed of the last line.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence

from symgrad.codegen.schedule import parallelize as share_work
from symgrad.codegen.schedule import two_stage_reduction as split_folds
from tests.support.floors import Variant, is_unstable, run_variants
from tests.support.fuzz_families import FAMILIES, Family, variant_in_turn, variants

UNSTABLE = "the reference jumps there itself"


def complaint(family: Family, seed: int, ways: Sequence[Variant]) -> str:
    """Return what is wrong with the program of a seed, '' if nothing is."""
    try:
        graph, inputs = family.program(seed)
        different = run_variants(
            graph, inputs, ways, slack=family.slack, interprets=family.interprets
        )
    except Exception:
        return traceback.format_exc()
    if different is None:
        return ""
    if is_unstable(graph, inputs, family.slack):
        return UNSTABLE
    return f"{different}\n{graph}"


def main(name: str, first: str, end: str, *options: str) -> None:
    """Run the programs of the seeds from `first` up to `end`, `--in-turn` one way each."""
    # So that what is small is shared among threads too, and cut finely.
    vars(share_work).update(UNCUT=1)
    vars(split_folds).update(PIECES=2)
    for seed in range(int(first), int(end)):
        print("run", seed, flush=True)
        ways = [variant_in_turn(seed)] if "--in-turn" in options else variants(seed)
        wrong = complaint(FAMILIES[name], seed, ways)
        if wrong == UNSTABLE:
            print("unstable", seed, flush=True)
        elif wrong:
            print("wrong", seed, json.dumps(wrong), flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
