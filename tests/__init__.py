"""Tests of the project, by package; ``harness`` and ``conftest`` hold what they share."""
