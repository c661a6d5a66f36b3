"""Textual IR of graphs: printing, and parsing what was printed."""
