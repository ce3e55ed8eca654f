"""Where the tasks of a fleet job run: on Spark, or in processes of this machine.

Both run the same functions on the same parts of logs, and the driver joins the results in the same order. So the result
of a job does not depend on where it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from engine.errors import JobError
from engine.events import Listener, counted
from engine.pipeline.inventory import LEAST_TASK_BYTES, EnvironmentListing
from engine.pipeline.job_run import waiting
from engine.workers.process import MOST_NUMBERS, WorkerProcess, WorkQueue, can_fork, readable

if TYPE_CHECKING:
    from engine.pipeline.job_run import Tally
    from engine.pipeline.session import Session

Task = TypeVar("Task")
Result = TypeVar("Result")
# The work of one task: adds the records that it has read to the tally, and gives its results.
TaskWork = Callable[["Tally", Task], Iterable[Result]]

UNCHANGED: Final = "no environment was changed"
# Smaller than on Spark, where a task costs tens of milliseconds: more tasks keep processes busy, and show progress.
_LOCAL_TASK_BYTES: Final = 8 << 20
# A smaller fleet is read before a second process has begun.
_FORKED_BYTES: Final = 1 << 20
_TOLD_MS: Final = 200


class FleetBackend(Protocol):
    """Runs the tasks of a fleet job.

    Attributes:
        cores: tasks that run at a time.
        on_this_machine: tasks may use further processes, since all cores are those of this machine.
        task_bytes: least size of the log that one task reads.
    """

    @property
    def cores(self) -> int: ...  # noqa: D102 - see the class docstring, here and below
    @property
    def on_this_machine(self) -> bool: ...  # noqa: D102
    @property
    def task_bytes(self) -> int: ...  # noqa: D102

    def results(
        self, work: TaskWork[Task, Result], tasks: Sequence[Task], step: str, listener: Listener
    ) -> list[Result]:
        """The results of all tasks, in the order of the tasks.

        Arguments:
            work: a function of a module, or a ``partial`` of one: executors import it.
            step: name of the step; ``done`` and ``total`` count tasks.

        Raises:
            JobError: Spark gave up, or a process was killed.
        """


class SparkFleet:
    """Tasks of Spark.

    Attributes:
        session: Spark.
    """

    task_bytes = LEAST_TASK_BYTES

    def __init__(self, session: Session) -> None:
        self.session = session
        self.cores = session.cores
        self.on_this_machine = session.local

    def results(
        self, work: TaskWork[Task, Result], tasks: Sequence[Task], step: str, listener: Listener
    ) -> list[Result]:
        """The results of all tasks: one partition for each."""
        with waiting(step, listener):
            tally = self.session.tally()
            parts = self.session.context.parallelize(tasks, max(1, len(tasks))).flatMap(partial(work, tally))
        found: list[Result] = self.session.run(parts.collect, step, listener, tally)
        return found


class LocalFleet:
    """Processes of this machine, forked for each job.

    Arguments:
        jobs: how many.
        forks: whether there are processes; otherwise this one does the work.
    """

    on_this_machine = True
    task_bytes = _LOCAL_TASK_BYTES

    def __init__(self, jobs: int, *, forks: bool) -> None:
        self.cores = jobs
        self._forks = forks

    def results(
        self, work: TaskWork[Task, Result], tasks: Sequence[Task], step: str, listener: Listener
    ) -> list[Result]:
        """The results of all tasks."""
        listener.step(step, 0, len(tasks))
        if not self._forks or not tasks:
            return self._here(work, tasks, step, listener)
        return _Pool(work, tasks, min(self.cores, len(tasks))).results(step, listener)

    def _here(self, work: TaskWork[Task, Result], tasks: Sequence[Task], step: str, listener: Listener) -> list[Result]:
        found: list[Result] = []
        tally = LocalTally()
        for done, task in enumerate(tasks, 1):
            found.extend(work(tally, task))
            _report_step(listener, step, done, len(tasks), tally.value)
        return found


class LocalTally:
    """A counter of one process."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, term: int) -> None:
        """Add."""
        self.value += term


class _Pool:
    """Workers that take tasks by number; this process only waits, so that it can show progress."""

    def __init__(self, work: TaskWork[Task, Result], tasks: Sequence[Task], count: int) -> None:
        import pickle

        self._work, self._tasks, self._count = work, tasks, count
        # One number of the queue stands for several tasks if there are very many.
        self._stride = -(-len(tasks) // MOST_NUMBERS)
        self._queue = WorkQueue(range(0, len(tasks), self._stride))
        self._dumps = partial(pickle.dumps, protocol=pickle.HIGHEST_PROTOCOL)
        # Safe to unpickle: only a fork of this process can write to the pipe.
        self._loads = pickle.loads

    def results(self, step: str, listener: Listener) -> list[Any]:
        """Start the workers, and collect their results."""
        arrived: dict[int, list[Any]] = {}
        records = 0
        workers: list[WorkerProcess] = []
        try:
            for _ in range(self._count):
                workers.append(WorkerProcess(self._produce, self._loads, workers))
            alive = list(workers)
            while alive:
                for worker in readable(alive, wait=True, longest_ms=_TOLD_MS):
                    if not worker.read():
                        alive.remove(worker)
                    for number, count, found in worker.take():
                        if isinstance(found, Exception):
                            raise found
                        arrived[number] = found
                        records += count
                _report_step(listener, step, len(arrived), len(self._tasks), records)
        finally:
            self._queue.close()
            for worker in workers:
                worker.end()
        if len(arrived) < len(self._tasks):
            raise JobError(
                "a process of the job was killed",
                consequence=UNCHANGED,
                hint="see whether memory ran out (dmesg); with --jobs 1 one task at a time needs it; then run it again",
            )
        return [one for number in range(len(self._tasks)) for one in arrived[number]]

    def _produce(self) -> Iterable[bytes]:
        """Runs in a worker: number, records and results of each task, or its error."""
        while (first := self._queue.take()) is not None:
            for number in range(first, min(first + self._stride, len(self._tasks))):
                tally = LocalTally()
                try:
                    found: Any = list(self._work(tally, self._tasks[number]))
                except Exception as error:
                    # The parent raises it.
                    found = error
                yield self._dumps((number, tally.value, found))


def _report_step(listener: Listener, step: str, done: int, total: int, records: int) -> None:
    # Not every step counts records.
    if records:
        counted(listener, step, done, total, records)
    else:
        listener.step(step, done, total)


def pays_to_fork(size: int) -> bool:
    """Whether a job over logs of ``size`` bytes is quicker in several processes, and this process may fork."""
    return size >= _FORKED_BYTES and can_fork()


def log_bytes(fleet: Iterable[EnvironmentListing]) -> int:
    """Size of the logs of a fleet."""
    return sum(file.size_bytes for one in fleet if one.files is not None for file in one.files.files)
