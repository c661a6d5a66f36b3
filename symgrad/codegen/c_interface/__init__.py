"""The C interface of an exported step: its layout and its code."""
