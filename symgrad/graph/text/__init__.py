"""The text of graphs: printing, and parsing what was printed."""
