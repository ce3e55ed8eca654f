"""Tests of arbiters: the masters that feed them, elections with them, and our own."""
