"""``jetool recover``: safety checks, saved bytes, the run and its report."""
