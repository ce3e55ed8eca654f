"""Tests of engine.recovery."""
