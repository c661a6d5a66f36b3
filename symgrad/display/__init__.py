"""Rendering primitives: markup, units, bars and layered drawings, of numbers and texts alone."""
