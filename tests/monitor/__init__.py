"""Tests of ``engine.monitor``."""
