"""Data compression: what a page shows on demand is in it deflated, and the browser inflates it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable

from symgrad.runtime.stages import Part


def packed(value: object) -> str:
    """Return `value` as JSON, deflated, in the letters of base64."""
    text = json.dumps(value, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def packed_parts(parts: Iterable[Part]) -> str:
    """Return the parts of a stage: of each its text, its calls and its place, "" for none."""
    return packed([(part.text, ranges(part.calls), part.place or "") for part in parts])


def ranges(calls: Iterable[int]) -> str:
    """Return numbers in order as "0-3 7"."""
    spans: list[list[int]] = []
    for call in sorted(set(calls)):
        if spans and call == spans[-1][1] + 1:
            spans[-1][1] = call
        else:
            spans.append([call, call])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
