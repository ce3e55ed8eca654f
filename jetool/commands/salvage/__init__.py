"""``jetool salvage``: the run, the files that it writes, and its report."""
