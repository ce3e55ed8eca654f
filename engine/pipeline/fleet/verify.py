"""Verifying a fleet: two jobs, and no shuffle, which would cost a small fleet a second.

1. Files. What reads every byte of a log goes file by file (``engine.verify.log.check_one``), so files are shared out
   among tasks: a large environment keeps as many cores busy as many small ones do.
2. Environments. A task gets what was found in all files of some, in order, judges how they hang together, reads their
   rollback periods, and checks their trees where that is wanted. Recovery and the walk over trees are one task: they
   need the whole log. On this machine, with fewer environments than cores, each task takes its share of them for its
   trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from engine.events import SILENT, Listener
from engine.pipeline.failures import explained
from engine.pipeline.fleet.jobs import UNCHANGED, parallel
from engine.pipeline.fleet.verify_tasks import Checked, EnvironmentVerdict, NumberedPart, WholeLog, check_files, judge
from engine.pipeline.inventory import LEAST_TASK_BYTES, EnvironmentListing, pack, parts_of
from engine.pipeline.session import Session
from engine.verify import trees
from engine.verify.environment import files_to_read

# For each core, so that one that is late leaves the others something to do.
_SHARES: Final = 2


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
    work = [[NumberedPart(numbers[part.env], part) for part in task] for task in tasks]
    tally = session.tally()
    by_file = parallel(session, work).flatMap(partial(check_files, tally))
    # Elsewhere a task has the one core that Spark gives it.
    jobs = max(session.cores // max(len(known), 1), 1) if session.local else 1
    with explained("the verification failed", consequence=UNCHANGED):
        checked: list[list[Checked]] = [[] for _ in known]
        for number, result in session.run(by_file.collect, "verify", listener, tally):
            checked[number].append(result)
        whole = [WholeLog(env, files, found) for (env, files), found in zip(known, checked, strict=True)]
        # To judge a log takes a few milliseconds, to walk over trees as long as there are records.
        together = 1 if set(levels) & set(trees.LEVELS) else len(whole) // (_SHARES * session.cores) + 1
        shares = [whole[at : at + together] for at in range(0, len(whole), together)]
        judged = parallel(session, shares).flatMap(partial(judge, tuple(levels), jobs))
        verdicts = {one.env: one for one in session.run(judged.collect, "verify", listener, tally)}
    return [verdicts.get(one.member.env) or EnvironmentVerdict(one.member.env, None, one.error) for one in fleet]
