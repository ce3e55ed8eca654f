"""Fixtures for all tests; the functions behind them are in ``tests.harness``."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests import harness

# The machine may be busy: a slow example is no failure.
settings.register_profile("jetool", deadline=None)
settings.load_profile("jetool")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory with the shared documents and fixtures. Never changed: copy what is to be changed."""
    return harness.shared_path()


@pytest.fixture(scope="session")
def shared_dir(shared: Path) -> Path:
    """The same."""
    return shared


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """Real logs of every version, kept in this repository."""
    return Path(__file__).resolve().parent / "golden"
