"""Running one job: progress while it runs, and an interrupt that cancels it.

The job runs in a thread; this thread asks Spark for its stages five times a second. So an interrupt arrives here and
not in the middle of a conversation with the JVM, and the jobs can be cancelled over a connection of our own.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from engine.events import Listener

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")

_POLL_S: Final = 0.2
_CANCEL_WAIT_S: Final = 30.0
_numbers = itertools.count(1)


class _Outcome(Generic[T]):
    """What an action came to."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.error: BaseException | None = None


def run(context: SparkContext, action: Callable[[], T], step: str, listener: Listener) -> T:
    """Run an action that starts Spark jobs; see ``Session.run``."""
    from pyspark import InheritableThread

    group = f"jetool-{next(_numbers)}"
    outcome: _Outcome[T] = _Outcome()

    def work() -> None:
        try:
            context.setJobGroup(group, step, interruptOnCancel=True)
            outcome.values.append(action())
        except BaseException as error:
            outcome.error = error

    thread = InheritableThread(target=work, name=step)
    thread.daemon = True
    thread.start()
    try:
        _watch(context, thread, group, step, listener)
    except BaseException:
        _cancel(context, thread, group)
        raise
    if outcome.error is not None:
        raise outcome.error
    return outcome.values[0]


def _watch(context: SparkContext, thread: threading.Thread, group: str, step: str, listener: Listener) -> None:
    """Report finished tasks until the thread is done. The total grows as Spark plans more stages."""
    seen: dict[int, tuple[int, int]] = {}
    total = 0
    while thread.is_alive():
        thread.join(_POLL_S)
        for stage in _stages(context, group):
            information = context.statusTracker().getStageInfo(stage)
            if information is not None:
                seen[stage] = (information.numCompletedTasks, information.numTasks)
        done, total = (sum(column) for column in zip(*seen.values(), strict=True)) if seen else (0, 0)
        listener.step(step, done, max(total, done + 1))
    listener.step(step, total, total)


def _stages(context: SparkContext, group: str) -> list[int]:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    return [stage for job in jobs if job is not None for stage in job.stageIds]


def _cancel(context: SparkContext, thread: threading.Thread, group: str) -> None:
    with contextlib.suppress(Exception):  # the JVM may be gone
        context.cancelJobGroup(group)
    thread.join(_CANCEL_WAIT_S)
