"""Checks that collect findings with stable codes instead of stopping at the first."""
