"""Units for people: three digits and a prefix, of bytes, seconds and counts."""

from __future__ import annotations

_LARGE = ("", "k", "M", "G", "T", "P")
_SMALL = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (0.0, "ns"))


def bytes_text(count: float) -> str:
    """Return "320 B", "1.25 MB": a thousand bytes are a kB."""
    return _scaled(count, "B")


def count_text(count: float) -> str:
    """Return "320", "1.25 M"."""
    return _scaled(count, "").strip()


def rate_text(amount: float, unit: str) -> str:
    """Return "98.1 GFLOP/s" of 98.1e9 and "FLOP/s"."""
    return _scaled(amount, unit)


def seconds_text(seconds: float) -> str:
    """Return "18.5 ms", "3.42 µs"."""
    step, unit = next((s, u) for s, u in _SMALL if seconds >= 0.9995 * s)
    return f"{_digits(seconds / (step or 1e-9))} {unit}"


def share_text(share: float) -> str:
    """Return "8.8%", and "83%" from a tenth on."""
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def _scaled(amount: float, unit: str) -> str:
    power = 0
    while amount >= 999.5 and power < len(_LARGE) - 1:
        amount, power = amount / 1000, power + 1
    return f"{_digits(amount)} {_LARGE[power]}{unit}"


def _digits(value: float) -> str:
    """Return `value` with three digits, whole numbers below a thousand as they are."""
    if value == int(value) or value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
