"""``jetool doctor``: what a directory is, whether it can start, what is lost, and what to run next."""
