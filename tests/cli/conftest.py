"""Fixtures for tests of the command line."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from jetool.frame import cli, table
from tests.cli import sample
from tests.support import harness
from tests.support.children import child
from tests.support.waiting import PATIENCE_S

SAMPLE = [sys.executable, "-m", "tests.cli.sample"]


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment of the person who runs the tests must not show; reports of bugs go to the test's directory."""
    for name in ("JETOOL_HOME", "NO_COLOR", "_JETOOL_COMPLETE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture(autouse=True)
def no_ticker_runs() -> Iterator[None]:
    """A bar that a test leaves open would draw, and hold the only timer of the process, in other tests."""
    yield
    if hasattr(signal, "setitimer"):
        left = signal.setitimer(signal.ITIMER_REAL, 0)
        handler = signal.signal(signal.SIGALRM, signal.SIG_DFL)
        assert (left, handler) == ((0.0, 0.0), signal.SIG_DFL)


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of ``sample`` beside the real ones."""
    monkeypatch.setattr(table, "COMMANDS", (*table.COMMANDS, *sample.ROWS))
    monkeypatch.setattr(cli, "load", sample.load)


def started(*words: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """One of the sample commands, in a process of its own."""
    return child([*SAMPLE, *words], cwd=harness.REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a line of bash in which ``$SAMPLE`` calls the sample commands."""
    env = harness.environment(SAMPLE=" ".join(SAMPLE), TMPDIR=str(cwd))
    return subprocess.run(
        ["bash", "-c", line], env=env, cwd=harness.REPOSITORY, capture_output=True, timeout=PATIENCE_S
    )
