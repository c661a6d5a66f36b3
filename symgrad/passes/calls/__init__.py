"""Calls of functions: which are inlined and which share code."""
