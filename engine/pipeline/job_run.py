"""Running one job: progress while it runs, and an interrupt that cancels it.

The job runs in a thread; this thread asks Spark for its stages five times a second. So an interrupt arrives here and
not in the middle of a conversation with the JVM, and the jobs can be cancelled over a connection of our own.

Progress is in tasks, since the number of records is not known in advance, and in records so far: those that tasks have
added to a tally, or that Spark's own readers and writers count.
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
    """A counter that tasks add to. A task that Spark repeats adds twice: it is for eyes, not for results."""

    @property
    def value(self) -> int:
        """The sum so far, on the driver."""

    def add(self, term: int) -> None:
        """Add, in a task."""


class _Outcome(Generic[T]):
    """What an action came to."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.error: BaseException | None = None
        # Not the end of the thread: an interrupted ``join`` makes Python 3.11 believe that a thread has ended.
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
            # The group belongs to the thread, so it is set in here and not by the caller.
            context.setJobGroup(group, step, interruptOnCancel=True)
            outcome.values.append(action())
        except BaseException as error:
            # Also what is no Exception: the waiting thread raises it again.
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
    """Tell a step of unknown length again and again while something is waited for, so that a bar can be drawn."""
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
        # Spark forgets finished stages; what was seen of them stays.
        seen |= {stage: found for stage in _stages(context, group) if (found := _seen(context, stage)) is not None}
        done, total = sum(stage.done for stage in seen.values()), sum(stage.total for stage in seen.values())
        count = sum(stage.records for stage in seen.values()) if records is None else records.value
        # Between two stages everything known is done, and yet the job is not.
        done, total = (total, total) if ended else (done, max(total, done + 1))
        if count:
            counted(listener, step, done, total, count)
        else:
            listener.step(step, done, total)


def _seen(context: SparkContext, stage: int) -> _StageProgress | None:
    """What Spark knows of a stage; None of one that has not begun. Its readers and its writers both count."""
    information = context.statusTracker().getStageInfo(stage)
    if information is None:
        return None
    # pyspark's tracker has tasks only; records are in the JVM's own store.
    found = context._jsc.sc().statusStore().lastStageAttempt(stage)
    records = max(int(found.inputRecords()), int(found.outputRecords()))
    return _StageProgress(information.numCompletedTasks, information.numTasks, records)


def _stages(context: SparkContext, group: str) -> list[int]:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    return [stage for job in jobs if job is not None for stage in job.stageIds]


def _cancel(context: SparkContext, job_ended: threading.Event, group: str) -> None:
    deadline = time.monotonic() + _CANCEL_WAIT_S
    # Tasks must stop writing before the caller removes their directory. Again and again: a job that was about to begin
    # was not in the group yet.
    while not job_ended.is_set() and time.monotonic() < deadline:
        with contextlib.suppress(Exception):  # the JVM may be gone
            context.cancelJobGroup(group)
        job_ended.wait(_POLL_S)
