"""Tests of engine.vlsn."""
