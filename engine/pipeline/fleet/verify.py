"""Verifying a fleet: one job of two stages.

1. Files. What reads every byte of a log goes file by file (``engine.verify.log.check_one``), so files are shared out
   among tasks: a large environment keeps as many cores busy as many small ones do.
2. Environments. A task gets what was found in all files of one, in order, judges how they hang together, reads its
   rollback periods, and checks its trees where that is wanted. Recovery and the walk over trees are one task: they need
   the whole log. On this machine, with fewer environments than cores, each task takes its share of them for its trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from engine.errors import JetoolError
from engine.events import SILENT, Listener
from engine.log.files import LogFiles
from engine.pipeline.failures import explained
from engine.pipeline.fleet.jobs import UNCHANGED, parallel
from engine.pipeline.inventory import LEAST_TASK_BYTES, EnvironmentListing, LogPart, pack, parts_of
from engine.pipeline.running import Tally
from engine.pipeline.session import Session
from engine.pipeline.worker import settle_worker
from engine.storage.disk import DiskStorage
from engine.verify.environment import files_to_read, verify_environment
from engine.verify.log import FileResult, check_one
from engine.verify.report import Report

_Checked = FileResult | JetoolError


class EnvironmentVerdict(NamedTuple):
    """What ``verify`` says of one environment, or why it could not be verified."""

    env: str
    report: Report | None
    error: JetoolError | None


class _NumberedPart(NamedTuple):
    """A part of the environment of a number."""

    number: int
    part: LogPart


def verify_fleet(
    session: Session, fleet: Sequence[EnvironmentListing], levels: Sequence[str], listener: Listener = SILENT
) -> list[EnvironmentVerdict]:
    """Check every environment.

    Arguments:
        session, listener: Spark, and who hears the step ``verify``.
        fleet: the environments.
        levels: of ``engine.verify.environment.LEVELS``.

    Returns:
        What was found, in the order of ``fleet``.

    Raises:
        JobError: Spark gave up.
    """
    known = [(one.member.env, one.files) for one in fleet if one.files is not None]
    numbers = {env: number for number, (env, _) in enumerate(known)}
    tasks = pack([parts_of(env, files_to_read(files, levels)) for env, files in known], LEAST_TASK_BYTES)
    work = [[_NumberedPart(numbers[part.env], part) for part in task] for task in tasks]
    tally = session.tally()
    checked = parallel(session, work).flatMap(partial(_check_task, tally))
    # All that was found in the files of one environment goes to one task.
    whole = parallel(session, list(enumerate(known))).cogroup(checked, max(1, len(known)))
    with explained("the verification failed", consequence=UNCHANGED):
        # Elsewhere a task has the one core that Spark gives it.
        jobs = max(session.cores // max(len(known), 1), 1) if session.local else 1
        job = whole.map(partial(_judge_task, tuple(levels), jobs))
        found = {one.env: one for one in session.run(job.collect, "verify", listener, tally)}
    return [found.get(one.member.env) or EnvironmentVerdict(one.member.env, None, one.error) for one in fleet]


def _check_task(tally: Tally, parts: Sequence[_NumberedPart]) -> Iterator[tuple[int, _Checked]]:
    settle_worker()
    for number, part in parts:
        storage = DiskStorage(part.env)
        for file in part.files:
            try:
                result = check_one(storage, part.end_file, file)
            except JetoolError as error:
                yield number, error
                continue
            tally.add(0 if result.check is None else result.check.entries)
            yield number, result


def _judge_task(
    levels: tuple[str, ...], jobs: int, found: tuple[int, tuple[Iterable[tuple[str, LogFiles]], Iterable[_Checked]]]
) -> EnvironmentVerdict:
    settle_worker()
    ((env, files),), checked = found[1]
    results: list[FileResult] = []
    for one in checked:
        if isinstance(one, JetoolError):
            return EnvironmentVerdict(env, None, one)
        results.append(one)
    # A shuffle keeps no order.
    results.sort(key=lambda result: result.file.number)
    try:
        report = verify_environment(DiskStorage(env), files, levels, jobs=jobs, results=results)
        return EnvironmentVerdict(env, report, None)
    except JetoolError as error:
        return EnvironmentVerdict(env, None, error)
