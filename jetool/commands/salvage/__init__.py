"""``jetool salvage``: the run, its output files, and its report."""
