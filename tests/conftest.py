"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory with the shared documents and fixtures. Never changed: copy what is to be changed."""
    path = Path(__file__).resolve().parents[2] / "shared"
    if not path.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{path} is missing, and CI is set")
        pytest.skip(f"{path} is missing")
    return path
