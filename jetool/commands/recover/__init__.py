"""``jetool recover``: the interlock, saved bytes, the run and its report."""
