"""Which file is cleaned next (R-CLN-18 to R-CLN-22): arithmetic on counters, no file is looked at.

Bytes that have expired may have been counted as obsolete too, so utilization is a range: at most everything but the
larger of the two counts, at least everything but their sum.

Example, minUtilization 50, four files of 100 bytes with 90, 40, 0 and 0 obsolete ones: together 67 % are in use, so
nothing is chosen. With 90, 80, 60 and 0 it is 43 %: the first file. While that is in progress it counts as its 10 bytes
in use: 170 of 310, 55 %, and nothing more is chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from engine.errors import UsageError

_TWO_PASS_MARGIN: Final = 5


class CleaningLimits(NamedTuple):
    """When files are cleaned.

    Attributes:
        min_utilization, min_file_utilization: je.cleaner.minUtilization and minFileUtilization, in per cent.
        min_age: je.cleaner.minAge: the number of newest files that are left alone.
        two_pass_gap, two_pass_threshold: je.cleaner.twoPassGap and twoPassThreshold; threshold 0 is five per cent below
            ``min_utilization``.
    """

    min_utilization: int = 50
    min_file_utilization: int = 5
    min_age: int = 2
    two_pass_gap: int = 10
    two_pass_threshold: int = 0

    @property
    def required(self) -> int:
        """What a file's utilization may be at most, when its first pass has found it out."""
        return self.two_pass_threshold or max(self.min_utilization - _TWO_PASS_MARGIN, 0)


class FileUsage(NamedTuple):
    """What is counted of one file of the live log.

    Attributes:
        total, obsolete: bytes.
        expired, gradual: bytes that have expired; and the same with a part of those that are about to (R-CLN-51).
        in_progress: it is being cleaned, or waits for a checkpoint.
    """

    number: int
    total: int
    obsolete: int
    expired: int = 0
    gradual: int = 0
    in_progress: bool = False

    @property
    def max_utilization(self) -> int:
        """Per cent, when what has expired was counted as obsolete already."""
        return percent(max(self.obsolete, self.expired), self.total)

    @property
    def min_utilization(self) -> int:
        """Per cent, when none of it was."""
        return percent(min(self.obsolete + self.expired, self.total), self.total)

    @property
    def average_utilization(self) -> int:
        """The mean of the two."""
        return (self.min_utilization + self.max_utilization) // 2


class Choice(NamedTuple):
    """A file to be cleaned.

    Attributes:
        required: per cent; its utilization is found out first, and the file is left alone when it is above. None cleans
            it at once.
        reason: why this one.
    """

    number: int
    required: int | None
    reason: str


class FileChoice(NamedTuple):
    """What was chosen, and the utilization of the log in per cent: as it is, and when what is in progress is done."""

    choice: Choice | None
    current_min: int
    current_max: int
    predicted_min: int
    predicted_max: int


def percent(obsolete: int, total: int) -> int:
    """Utilization in per cent, rounded half up; 0 of nothing (R-CLN-4)."""
    return int(100 * (total - obsolete) / total + 0.5) if total > 0 else 0


def last_candidate(last_file: int, first_active_file: int, min_age: int) -> int:
    """The newest file that may be cleaned (R-CLN-18).

    Arguments:
        last_file: where the log ends.
        first_active_file: where the oldest open transaction begins, or ``last_file``.
    """
    return min(last_file, first_active_file) - min_age


def parse_file_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """First and last number of each range of je.cleaner.forceCleanFiles: ``8,a0-a9``, in hexadecimal.

    Raises:
        UsageError: it is something else.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, _, last = part.partition("-")
        try:
            found.append((int(first, 16), int(last or first, 16)))
        except ValueError:
            raise UsageError("je.cleaner.forceCleanFiles is a list of files and ranges", found=part) from None
    return tuple(found)


def choose(
    files: Sequence[FileUsage],
    limits: CleaningLimits,
    newest: int,
    *,
    forced: Collection[int] = (),
    anything: bool = False,
    excluded: Collection[int] = (),
) -> FileChoice:
    """Choose a file (R-CLN-20 to R-CLN-22).

    Arguments:
        files: the live log, ascending.
        newest: from ``last_candidate``.
        forced: files to be cleaned whatever is in them (je.cleaner.forceCleanFiles).
        anything: choose the best file although enough of the log is in use.
        excluded: files that have to stay.
    """
    free = [file for file in files if not file.in_progress]
    candidates = [file for file in free if file.number <= newest and file.number not in excluded]
    # Of files in progress only what is in use will be left, in new files.
    left = sum(file.total - max(file.obsolete, file.expired) for file in files if file.in_progress)
    predicted = left + sum(file.total for file in free)
    predicted_min = percent(sum(min(f.obsolete + f.gradual, f.total) for f in free), predicted)
    predicted_max = percent(sum(max(f.obsolete, f.gradual) for f in free), predicted)
    total = sum(file.total for file in files)
    best = min(candidates, key=lambda file: file.average_utilization, default=None)
    gradual = min(candidates, key=_gradual_maximum, default=None)
    forced_now = [file for file in candidates if file.number in forced]
    chosen, reason = None, ""
    if predicted_min < limits.min_utilization and best is not None:
        chosen, reason = best, "too little of the log is in use"
    elif gradual is not None and _gradual_maximum(gradual) < limits.min_file_utilization:
        chosen, reason = gradual, "too little of the file is in use"
    elif forced_now:
        chosen, reason = forced_now[0], "cleaning of the file was forced"
    elif anything and best is not None:
        chosen, reason = best, "space is needed"
    return FileChoice(
        None if chosen is None else Choice(chosen.number, _required(chosen, best, limits), reason),
        percent(sum(min(f.obsolete + f.expired, f.total) for f in files), total),
        percent(sum(max(f.obsolete, f.expired) for f in files), total),
        predicted_min,
        predicted_max,
    )


def _gradual_maximum(file: FileUsage) -> int:
    return percent(max(file.obsolete, file.gradual), file.total)


def _required(chosen: FileUsage, best: FileUsage | None, limits: CleaningLimits) -> int | None:
    """What the first pass has to find, where the range is so wide that one is worth it (R-CLN-22)."""
    low, high = chosen.min_utilization, chosen.max_utilization
    if chosen is best and high > limits.required and high - low >= limits.two_pass_gap:
        return limits.required
    return None
