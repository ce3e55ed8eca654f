"""Logs entry by entry: made, read, cut and written in words."""
