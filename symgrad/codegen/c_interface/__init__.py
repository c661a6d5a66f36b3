"""C ABI of an exported step: its memory layout and its code."""
