"""Runs one job, with progress, and cancels it on an interrupt.

The job runs in a second thread; this thread polls Spark for its stages five times a second. So an interrupt arrives
here and not during a call to the JVM, and the jobs can be cancelled over a separate connection.

Progress is in tasks, since the number of records is not known in advance, and in records so far: the records that tasks
add to a tally, or that Spark's own readers and writers count.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from engine.errors import JetoolError
from engine.events import Listener, counted
from engine.pipeline.executors import ExecutorWatch, stopped

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")

_POLL_S: Final = 0.2
_CANCEL_WAIT_S: Final = 30.0
_numbers = itertools.count(1)


class Tally(Protocol):
    """A counter that tasks add to.

    A task that Spark repeats adds twice, so use it for display only, not for results.
    """

    @property
    def value(self) -> int:
        """The sum so far, on the driver."""

    def add(self, term: int) -> None:
        """Add, in a task."""


class _Outcome(Generic[T]):
    """The outcome of an action."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.error: BaseException | None = None
        # Set when the thread ends; ``join`` cannot be used, since in Python 3.11 an interrupted ``join`` marks the
        # thread as ended.
        self.ended = threading.Event()


def run(
    context: SparkContext, action: Callable[[], T], step: str, listener: Listener, records: Tally | None = None
) -> T:
    """Run an action that starts Spark jobs; see ``Session.run``."""
    from pyspark import InheritableThread

    group = f"jetool-{next(_numbers)}"
    outcome: _Outcome[T] = _Outcome()

    def work() -> None:
        try:
            # A job group belongs to its thread, so it is set here and not by the caller.
            context.setJobGroup(group, step, interruptOnCancel=True)
            outcome.values.append(action())
        except BaseException as error:
            # Catch every exception: the waiting thread raises it again.
            outcome.error = error
        finally:
            outcome.ended.set()

    executors = ExecutorWatch(context)
    thread = InheritableThread(target=work, name=step)
    # A JVM that never answers must not keep this process from ending.
    thread.daemon = True
    thread.start()
    try:
        _watch(context, outcome.ended, group, step, listener, records, executors)
    except JetoolError:
        _cancel(context, outcome.ended, group)
        raise
    except Exception as error:
        _cancel(context, outcome.ended, group)
        told = stopped(context, error)
        if told is None:
            raise
        raise told from error
    except BaseException:
        _cancel(context, outcome.ended, group)
        raise
    failed = outcome.error
    if failed is not None:
        foreign = isinstance(failed, Exception) and not isinstance(failed, JetoolError)
        told = stopped(context, failed) if foreign else None
        if told is None:
            raise failed
        raise told from failed
    return outcome.values[0]


@contextmanager
def waiting(step: str, listener: Listener) -> Iterator[None]:
    """Report a step of unknown length repeatedly during a wait, so that a progress bar can be drawn."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(_POLL_S):
            listener.step(step, 0, 0)

    listener.step(step, 0, 0)
    thread = threading.Thread(target=tell, name=step, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class _StageProgress(NamedTuple):
    """A stage: finished tasks, all tasks, records."""

    done: int
    total: int
    records: int


def _watch(
    context: SparkContext,
    job_ended: threading.Event,
    group: str,
    step: str,
    listener: Listener,
    records: Tally | None,
    executors: ExecutorWatch,
) -> None:
    """Report finished tasks until the job has ended. The total grows as Spark plans more stages."""
    seen: dict[int, _StageProgress] = {}
    ended = False
    listener.step(step, 0, 0)
    while not ended:
        ended = job_ended.wait(_POLL_S)
        if not ended:
            executors.check()
        # Spark forgets finished stages, so their last state is kept.
        seen |= {stage: found for stage in _stages(context, group) if (found := _seen(context, stage)) is not None}
        done, total = sum(stage.done for stage in seen.values()), sum(stage.total for stage in seen.values())
        count = sum(stage.records for stage in seen.values()) if records is None else records.value
        # Between two stages all known tasks are finished although the job is not.
        done, total = (total, total) if ended else (done, max(total, done + 1))
        if count:
            counted(listener, step, done, total, count)
        else:
            listener.step(step, done, total)


def _seen(context: SparkContext, stage: int) -> _StageProgress | None:
    """The state of a stage; None if it has not begun. Spark's readers and writers both count records."""
    information = context.statusTracker().getStageInfo(stage)
    if information is None:
        return None
    # pyspark's tracker has only tasks; records are in the JVM's own store.
    found = context._jsc.sc().statusStore().lastStageAttempt(stage)
    records = max(int(found.inputRecords()), int(found.outputRecords()))
    return _StageProgress(information.numCompletedTasks, information.numTasks, records)


def _stages(context: SparkContext, group: str) -> list[int]:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    return [stage for job in jobs if job is not None for stage in job.stageIds]


def _cancel(context: SparkContext, job_ended: threading.Event, group: str) -> None:
    deadline = time.monotonic() + _CANCEL_WAIT_S
    # Tasks must stop writing before the caller removes their directory. Cancel repeatedly, since a job that was about
    # to begin was not in the group yet.
    while not job_ended.is_set() and time.monotonic() < deadline:
        with contextlib.suppress(Exception):  # the JVM may be gone
            context.cancelJobGroup(group)
        job_ended.wait(_POLL_S)
