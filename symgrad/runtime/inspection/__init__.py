"""Introspection: what a compiled step tells of itself, as data that prints as tables."""
