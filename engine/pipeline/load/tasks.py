"""What runs on executors: step 2, from runs to log files. Step 1 is in ``reading``."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from engine.pipeline.load.log_output import LogOutput
from engine.pipeline.load.merge import Merge
from engine.pipeline.load.plan import Target, TaskOutput
from engine.pipeline.worker import settle_worker


class Share(NamedTuple):
    """One part of all runs.

    Attributes:
        number: of the part.
        paths: of the runs.
        low, high: its keys, from ``low`` on, below ``high``; None for no limit.
        keep: which of equal keys stays.
    """

    number: int
    paths: tuple[str, ...]
    low: bytes | None
    high: bytes | None
    keep: str


def write_share(target: Target, share: Share) -> TaskOutput:
    """Merge one part and write its log files.

    Raises:
        JobError: equal keys, where none may be dropped. OSError: the disk is full.
    """
    settle_worker()
    merge = Merge(list(share.paths), share.low, share.high, share.keep)
    output = LogOutput(target, share.number)
    try:
        for table in merge.tables():
            output.add(table)
        return output.finish(merge.duplicates)
    except BaseException:
        output.abandon()
        raise


def shares(paths: list[str], cuts: list[bytes], keep: str) -> list[Share]:
    """The parts between the cuts."""
    limits = [None, *cuts, None]
    return [Share(number, tuple(paths), low, high, keep) for number, (low, high) in enumerate(pairwise(limits))]
