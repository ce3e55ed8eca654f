"""Fixtures for all tests; the functions behind them are in ``tests.support.harness``."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from engine.storage.disk import DiskStorage
from tests.support import corpus as archived
from tests.support import tools

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# What a shell starts in the background ignores SIGINT, and so would every command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Spark starts as on a machine that has never started it, and leaves nothing in the cache of whoever runs the tests.
os.environ["JETOOL_CACHE"] = ""

# The collector would go through thousands of collected tests again and again: a sixth of the time of a run.
_GC_THRESHOLDS: Final = (5_000, 10, 10)
gc.disable()

_LONGEST_ID: Final = 60

# The same examples in every run, and the machine may be busy: a slow example is no failure. New examples come with
# ``--hypothesis-profile=explore``.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("jetool", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("jetool")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores (``-n auto``): some tests wait for clocks and processes."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A long value is named by its length: the name of a test is one line of a report."""
    return f"{argname}-{len(val)}" if isinstance(val, str | bytes) and len(val) > _LONGEST_ID else None


def pytest_collection_finish() -> None:
    """Leave what was collected out of later collections of garbage."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The real environments of ``tests.support.corpus``. Never changed: copy what is to be changed."""
    return archived.path()


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """Real logs of every version, kept in this repository."""
    return Path(__file__).resolve().parent / "golden"


@pytest.fixture(scope="session", autouse=True)
def corpus_is_never_written() -> Iterator[None]:
    """No test writes to the corpus: refused in this process, and noticed at the end from any other.

    File modes do not protect it, since the tests may run as root.
    """
    kept = archived.path()
    before = archived.snapshot(kept)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("open_rw", "make_directory", "rename", "remove"):
            patch.setattr(DiskStorage, name, _refusing(getattr(DiskStorage, name), kept))
        yield
    assert archived.snapshot(kept) == before, f"a test has changed the corpus in {kept}; the next run unpacks it again"


def _refusing(method: Callable[..., Any], kept: Path) -> Callable[..., Any]:
    def refuse(self: DiskStorage, *args: Any, **kwargs: Any) -> Any:
        root = Path(self.root).resolve()
        assert not root.is_relative_to(kept), f"a test writes to {root}: copy the fixture first"
        return method(self, *args, **kwargs)

    return refuse


def pytest_runtest_setup(item: pytest.Item) -> None:
    """An exhaustive test runs in ``.ci/run``, or with JETOOL_EXHAUSTIVE=1."""
    if item.get_closest_marker("exhaustive"):
        tools.needs(f"{tools.EXHAUSTIVE}=1")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _only_for_a_tool((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = _only_for_a_tool((yield))
    if report.skipped and isinstance(report.longrepr, tuple):
        # The place is that of ``needs`` for every module, and xdist passes on one report for each place.
        report.longrepr = (str(collector.path), 1, report.longrepr[2])
    return report


def _only_for_a_tool(report: Report) -> Report:
    """What was skipped without the name of a tool has failed."""
    if report.skipped and not hasattr(report, "wasxfail") and tools.named_in(report) is None:
        report.outcome = "failed"
        report.longrepr = f"skipped for something that is no tool of tests.support.tools: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.write_line(f"skipped: {tools.summary(skipped)}")
    # For a run on a machine that has more tools: pytest @FILE.
    if listed := os.environ.get("JETOOL_SKIPPED_TESTS"):
        Path(listed).write_text("".join(f"{name}\n" for name in sorted({report.nodeid for report in skipped})))
