"""Loop passes: merging, pruning, invariant code motion, rematerialisation."""
