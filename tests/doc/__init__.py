"""Tests of engine/doc, and of what cites it."""
