"""Verifies a fleet in two jobs without a shuffle, which would cost a small fleet on Spark a second.

1. Files. Checks that read every byte of a log work file by file (``engine.verify.log.check_one``), so files are divided
   among tasks: a large environment keeps as many cores busy as many small ones. On a cluster with more cores than
   environments, the trees of large environments are divided too: each of n tasks recovers the environment in memory,
   walks over every n-th branch of its trees and reads the records below these branches.
2. Environments. A task takes the results for all files of some environments, in order, checks that the files fit
   together, reads their rollback periods, and checks the part of their trees that no other task has read, if requested.
   On one machine with fewer environments than cores, each task uses several cores for the trees of its environment,
   which is then recovered once.

Example: one environment of 1 GB on eight executors with a core each has 16 tasks of files and 16 shares of its trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from engine.events import SILENT, Listener
from engine.log.files import LogFiles
from engine.pipeline.failures import explained
from engine.pipeline.fleet.backends import UNCHANGED, FleetBackend
from engine.pipeline.fleet.verify_tasks import EnvironmentVerdict, NumberedPart, TreeShare, WholeLog, check_parts, judge
from engine.pipeline.inventory import EnvironmentListing, pack, parts_of
from engine.verify import trees
from engine.verify.environment import files_to_read
from engine.verify.tree import ShareOfTrees

# Make several shares for each core, so that a slow share does not leave the other cores idle.
_SHARES: Final = 2
# Each share of trees costs a recovery and a walk over the roots.
LEAST_SHARE_BYTES: Final = 64 << 20


def verify_fleet(
    backend: FleetBackend, fleet: Sequence[EnvironmentListing], levels: Sequence[str], listener: Listener = SILENT
) -> list[EnvironmentVerdict]:
    """Check every environment.

    Arguments:
        backend: where the tasks run.
        fleet: the environments.
        levels: of ``engine.verify.environment.LEVELS``.
        listener: receives progress of the step ``verify``.

    Returns:
        The findings, in the order of ``fleet``.

    Raises:
        JobError: Spark gave up.
    """
    known = [(one.member.env, one.files) for one in fleet if one.files is not None]
    numbers = {env: number for number, (env, _) in enumerate(known)}
    packed = pack([parts_of(env, files_to_read(files, levels)) for env, files in known], backend.task_bytes)
    work: list[list[NumberedPart | TreeShare]] = [
        [NumberedPart(numbers[part.env], part) for part in task] for task in packed
    ]
    cores, alone = backend.cores, backend.on_this_machine
    shares = tree_shares(known, 1 if alone else cores) if set(levels) & set(trees.LEVELS) else []
    # On a cluster a task has one core.
    jobs = max(cores // max(len(known), 1), 1) if alone else 1
    with explained("the verification failed", consequence=UNCHANGED):
        whole = [WholeLog(env, files, [], []) for env, files in known]
        # Shares of trees take longest, so they are first.
        tasks = [*([share] for share in shares), *work]
        for number, result in backend.results(partial(check_parts, tuple(levels)), tasks, "verify", listener):
            if isinstance(result, ShareOfTrees):
                whole[number].shares.append(result)
            else:
                whole[number].checked.append(result)
        # Judging a log takes a few milliseconds; walking over trees takes time for every record.
        together = 1 if set(levels) & set(trees.LEVELS) else len(whole) // (_SHARES * cores) + 1
        judging = [whole[at : at + together] for at in range(0, len(whole), together)]
        judged = backend.results(partial(judge, tuple(levels), jobs), judging, "judge", listener)
        verdicts = {one.env: one for one in judged}
    return [verdicts.get(one.member.env) or EnvironmentVerdict(one.member.env, None, one.error) for one in fleet]


def tree_shares(known: Sequence[tuple[str, LogFiles]], cores: int) -> list[TreeShare]:
    """The trees of large environments as shares, enough for all cores."""
    most = -(-cores * _SHARES // max(len(known), 1))
    found = []
    for environment, (env, files) in enumerate(known):
        count = min(most, sum(file.size_bytes for file in files.files) // LEAST_SHARE_BYTES)
        if cores > len(known) and count > 1:
            found += [TreeShare(environment, env, files, number, count) for number in range(count)]
    return found
