"""The verification code that runs on executors.

Every worker imports this before its first task, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import JetoolError
from engine.log.files import LogFiles
from engine.pipeline.inventory import LogPart
from engine.pipeline.python_side import settle_worker
from engine.storage.disk import DiskStorage
from engine.verify.log import FileResult, check_one

if TYPE_CHECKING:
    from engine.pipeline.job_run import Tally
    from engine.verify.report import Report
    from engine.verify.tree import ShareOfTrees

Checked = FileResult | JetoolError


class NumberedPart(NamedTuple):
    """A part of a numbered environment."""

    number: int
    part: LogPart


class TreeShare(NamedTuple):
    """One share of the trees of a numbered environment."""

    environment: int
    env: str
    files: LogFiles
    number: int
    of: int


class WholeLog(NamedTuple):
    """An environment, the results for its files, and the results for shares of its trees."""

    env: str
    files: LogFiles
    checked: list[Checked]
    shares: list[ShareOfTrees]


class EnvironmentVerdict(NamedTuple):
    """The findings on one environment, or why it could not be verified."""

    env: str
    report: Report | None
    error: JetoolError | None


def check_parts(
    levels: tuple[str, ...], tally: Tally, parts: Sequence[NumberedPart | TreeShare]
) -> Iterator[tuple[int, Checked | ShareOfTrees]]:
    """Check each file and each share of trees separately; return each result with the number of its environment."""
    settle_worker()
    for part in parts:
        if isinstance(part, TreeShare):
            yield from _walk(levels, part)
        else:
            yield from _check_files(tally, part)


def _check_files(tally: Tally, part: NumberedPart) -> Iterator[tuple[int, Checked]]:
    """The result for each file, or why it cannot be checked."""
    number, log = part
    storage = DiskStorage(log.env)
    for file in log.files:
        try:
            result = check_one(storage, log.end_file, file)
        except JetoolError as error:
            yield number, error
            continue
        tally.add(0 if result.check is None else result.check.entries)
        yield number, result


def _walk(levels: tuple[str, ...], part: TreeShare) -> Iterator[tuple[int, ShareOfTrees]]:
    from engine.verify.environment import share_of_trees

    try:
        found = share_of_trees(DiskStorage(part.env), part.files, levels, part.number, part.of)
    except JetoolError:
        # The task that judges the environment meets the same error and reports it.
        return
    if found is not None:
        yield part.environment, found


def judge(levels: tuple[str, ...], jobs: int, _: Tally, logs: Sequence[WholeLog]) -> Iterator[EnvironmentVerdict]:
    """Check that the files of each log fit together; if requested check its trees, in several processes."""
    # This import loads all of recovery; by now every file has been checked.
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
            report = verify_environment(
                DiskStorage(one.env), one.files, levels, jobs=jobs, results=results, shares=one.shares
            )
            yield EnvironmentVerdict(one.env, report, None)
        except JetoolError as error:
            yield EnvironmentVerdict(one.env, None, error)
