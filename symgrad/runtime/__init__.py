"""Runtime: machine code in memory and on disk, and the buffers and threads it runs with."""
