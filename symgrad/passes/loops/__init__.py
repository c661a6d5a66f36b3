"""Loop optimisation: deduplication, dead code, invariant code motion, rematerialisation."""
