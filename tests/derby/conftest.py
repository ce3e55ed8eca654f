"""Fixtures of all tests of this directory."""

from __future__ import annotations

from tests.support.derby_java import classes as classes
