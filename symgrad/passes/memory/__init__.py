"""Passes that fit a program into a limit of memory: what is kept, and what is computed again."""
