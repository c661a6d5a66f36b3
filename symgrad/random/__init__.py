"""Random numbers as graph, and their state in variables."""

from symgrad.random.generator import Generator

__all__ = ["Generator"]
