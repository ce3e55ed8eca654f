"""Fixtures that every part of the test suite shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The machine may be busy: a slow example is no failure.
settings.register_profile("jetool", deadline=None)
settings.load_profile("jetool")

TESTS = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The documents and fixtures beside the repository; a failure without them in CI, a skip elsewhere."""
    found = TESTS.parent.parent / "shared"
    if not found.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{found} is missing")
        pytest.skip(f"needs {found}")
    return found


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """Real logs of every version, kept in this repository."""
    return TESTS / "golden"
