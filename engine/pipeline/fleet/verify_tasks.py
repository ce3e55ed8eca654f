"""What executors do to verify a fleet. Every worker imports this before its first task, so it imports little."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import JetoolError
from engine.log.files import LogFiles
from engine.pipeline.inventory import LogPart
from engine.pipeline.worker import settle_worker
from engine.storage.disk import DiskStorage
from engine.verify.log import FileResult, check_one

if TYPE_CHECKING:
    from engine.pipeline.running import Tally
    from engine.verify.report import Report

Checked = FileResult | JetoolError


class NumberedPart(NamedTuple):
    """A part of the environment of a number."""

    number: int
    part: LogPart


class WholeLog(NamedTuple):
    """An environment, and what was found in its files."""

    env: str
    files: LogFiles
    checked: list[Checked]


class EnvironmentVerdict(NamedTuple):
    """What ``verify`` says of one environment, or why it could not be verified."""

    env: str
    report: Report | None
    error: JetoolError | None


def check_files(tally: Tally, parts: Sequence[NumberedPart]) -> Iterator[tuple[int, Checked]]:
    """Check each file alone; the number of its environment with what was found, or why it cannot be checked."""
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


def judge(levels: tuple[str, ...], jobs: int, logs: Sequence[WholeLog]) -> Iterator[EnvironmentVerdict]:
    """Judge how the files of each log hang together; check its trees where that is wanted, in so many processes."""
    # All of recovery comes with it, and by now every file is checked.
    from engine.verify.environment import verify_environment

    settle_worker()
    for one in logs:
        results: list[FileResult] = []
        try:
            for found in one.checked:
                if isinstance(found, JetoolError):
                    raise found
                results.append(found)
            # Tasks share the files of an environment.
            results.sort(key=lambda result: result.file.number)
            report = verify_environment(DiskStorage(one.env), one.files, levels, jobs=jobs, results=results)
            yield EnvironmentVerdict(one.env, report, None)
        except JetoolError as error:
            yield EnvironmentVerdict(one.env, None, error)
