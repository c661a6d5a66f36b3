"""Subcommand `plan`: what a step takes on more ranks than there are."""

from __future__ import annotations

from collections.abc import Iterator

from tabulate import tabulate

from symgrad.commands.loading import Loaded
from symgrad.display.units import bytes_text, seconds_text, share_text
from symgrad.runtime.inspection.plan import Network, Plan, Prediction, make_plan

_HEAD = ("ranks", "step", "efficiency", "messages", "hidden", "memory of a rank")


def plan_text(loaded: Loaded, ranks: int, network: Network, repeat: int) -> str:
    """Return a table of predictions for up to `ranks` ranks; all ranks that there are call it."""
    profile = loaded.step.profile(*loaded.arguments(), repeat=repeat)
    plan = make_plan(loaded.step.executable, profile)
    if plan.rank:
        return ""
    rows = [_row(plan.predict(network, count)) for count in _counts(ranks)]
    table = tabulate(rows, _HEAD, colalign=("right",) * len(_HEAD), disable_numparse=True)
    return f"{table}\n\n{_told(plan, network)}\n"


def _counts(ranks: int) -> Iterator[int]:
    """Yield the powers of two up to `ranks`, and it."""
    count = 1
    while count < ranks:
        yield count
        count *= 2
    yield ranks


def _row(prediction: Prediction) -> tuple[str, ...]:
    return (
        f"{prediction.ranks:,}",
        seconds_text(prediction.seconds),
        share_text(prediction.efficiency),
        seconds_text(prediction.message_seconds),
        share_text(prediction.hidden),
        bytes_text(prediction.memory_bytes),
    )


def _told(plan: Plan, network: Network) -> str:
    sent = sum(message.bytes for message in plan.messages)
    latency, bandwidth = seconds_text(network.latency), bytes_text(network.bandwidth)
    told = f"a step sends {bytes_text(sent)} in {len(plan.messages)} calls"
    if not plan.messages:
        gradients = bytes_text(plan.assumed_bytes)
        told = f"it sends nothing, and is taken to average its gradients, {gradients}, at its end"
    shared = plan.shared
    turns = ""
    if shared.slowdown(plan.measured) > 1:
        threads = shared.ranks * shared.threads
        turns = f"\nRanks take turns: {threads} threads share {shared.cores} cores of a machine."
    return (
        f"Each rank has a batch of its own; {told}.\n"
        f"Calls took what they took on {plan.measured} of the ranks; "
        f"messages take {latency} and {bandwidth} a second.{turns}"
    )
