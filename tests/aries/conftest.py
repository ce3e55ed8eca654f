"""Fixtures of all tests of this directory."""

from __future__ import annotations

from tests.aries.derby_java import classes as classes
