"""Fixtures of all tests of this directory."""

from __future__ import annotations

from tests.derby.derby_java import classes as classes
