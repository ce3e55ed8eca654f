"""A deadline for clusters that provide no executors.

Spark itself waits forever: for workers with the requested cores and memory, and for executors that end as soon as they
start, which a master restarts endlessly. So a job whose cluster has had no executor for ``TIMEOUT`` is cancelled, with
advice on what to check. Executors that run have no deadline.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from engine.errors import JobError, UsageError
from engine.pipeline import failures, settings

if TYPE_CHECKING:
    from pyspark import SparkContext

# An option of jetool; Spark passes on unknown options. The value is a number of seconds, or a time with a unit as in
# Spark.
TIMEOUT: Final = "spark.jetool.executorTimeout"
_TIMEOUT_S: Final = 120


class ExecutorWatch:
    """Looks after one job."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        # In local mode the driver does the work.
        self._needed = settings.needs_package(context.master or "")
        self._timeout_s = _timeout(context) if self._needed else 0
        self._seen = time.monotonic()

    def check(self) -> None:
        """Call this repeatedly while the job runs.

        Raises:
            JobError: there was no executor for too long.
        """
        now = time.monotonic()
        # Spark's list of executors includes the driver.
        if not self._needed or len(self._context._jsc.sc().statusTracker().getExecutorInfos()) > 1:
            self._seen = now
            return
        if now - self._seen < self._timeout_s:
            return
        asked = self._context.getConf()
        memory, cores = asked.get("spark.executor.memory", "1g"), asked.get("spark.executor.cores", "all")
        raise JobError(
            "the cluster has started no executor",
            expected=f"at least one within {self._timeout_s} s, with {memory} of memory (spark.executor.memory) "
            f"and cores: {cores} (spark.executor.cores)",
            found=f"none, at {self._context.master}",
            hint="see on the master's page whether there are workers that have as much to give, and in the executors' "
            f"logs why they end; ask for less with --conf, or wait longer: --conf {TIMEOUT}=600s",
        )


def stopped(context: SparkContext, error: BaseException) -> JobError | None:
    """The error for a job whose Spark context has ended; None while Spark runs.

    A master that removes an application stops its context; a killed driver no longer answers.
    """
    try:
        if not context._jsc.sc().isStopped():
            return None
    except Exception:
        # The driver no longer answers.
        return JobError(
            "Spark's driver has ended before the job was done", found=failures.summary(str(error)), hint=_LOGS
        )
    return JobError(
        "the cluster has ended the application before the job was done",
        found=failures.summary(failures.story(error)),
        hint=_LOGS,
    )


_LOGS: Final = "the logs of the cluster's master and of the executors tell why; see also whether memory ran out (dmesg)"


def _timeout(context: SparkContext) -> int:
    text = context.getConf().get(TIMEOUT)
    if text is None:
        return _TIMEOUT_S
    try:
        found = int(context._jsc.sc().conf().getTimeAsSeconds(TIMEOUT))
    except Exception as error:
        raise UsageError("a setting has no time", expected=f"{TIMEOUT}=600s", found=text) from error
    if found < 1:
        raise UsageError("a setting has no time", expected=f"{TIMEOUT}=600s", found=text)
    return found
