"""Fixtures for all tests; the functions behind them are in ``tests.harness``."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from engine.storage.disk import DiskStorage
from tests import harness

# What a shell starts in the background ignores SIGINT, and so would every command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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


def _snapshot(path: Path) -> dict[str, tuple[int, int]]:
    found = (p for p in path.rglob("*") if p.is_file()) if path.is_dir() else ()
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in found}


@pytest.fixture(scope="session", autouse=True)
def shared_is_never_written() -> Iterator[None]:
    """No test writes to the shared fixtures: refused in this process, and noticed at the end from any other.

    File modes do not protect them, since the tests may run as root.
    """
    shared = harness.REPOSITORY.parent / "shared"
    before = _snapshot(shared)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("open_rw", "make_directory", "rename", "remove"):
            patch.setattr(DiskStorage, name, _refusing(getattr(DiskStorage, name), shared))
        yield
    assert _snapshot(shared) == before, "a test has changed the shared fixtures: restore them from their manifests"


def _refusing(method: Callable[..., Any], shared: Path) -> Callable[..., Any]:
    def refuse(self: DiskStorage, *args: Any, **kwargs: Any) -> Any:
        root = Path(self.root).resolve()
        assert not root.is_relative_to(shared), f"a test writes to {root}: copy the fixture first"
        return method(self, *args, **kwargs)

    return refuse
