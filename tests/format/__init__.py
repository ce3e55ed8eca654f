"""Tests of engine.format."""
