"""Tests of engine.txn."""
