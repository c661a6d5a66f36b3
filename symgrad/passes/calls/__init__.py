"""Interprocedural passes: which calls of functions are inlined and which share code."""
