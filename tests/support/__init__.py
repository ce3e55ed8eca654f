"""Storages that fail on purpose, for the tests of what comes after a failure."""
