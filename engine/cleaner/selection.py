"""The choice of the next file to clean (R-CLN-18 to R-CLN-22): computed from counters only; no file is read.

Expired bytes may also have been counted as obsolete, so utilization is a range. The upper bound assumes that the
smaller count is part of the larger one; the lower bound takes both as separate.

Example, minUtilization 50, four files of 100 bytes with 90, 40, 0 and 0 obsolete bytes: together 67 % are in use, so
nothing is chosen. With 90, 80, 60 and 0 it is 43 %: the first file is chosen. While it is in progress it counts as its
10 bytes in use: 170 of 310, 55 %, and no other file is chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from engine.errors import UsageError

_TWO_PASS_MARGIN: Final = 5


class CleaningLimits(NamedTuple):
    """The limits that decide when files are cleaned.

    Attributes:
        min_utilization, min_file_utilization: je.cleaner.minUtilization and minFileUtilization, in per cent.
        min_age: je.cleaner.minAge: the number of newest files that are excluded.
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
        """The maximum utilization, found in the first pass, at which a file is still cleaned."""
        return self.two_pass_threshold or max(self.min_utilization - _TWO_PASS_MARGIN, 0)


class FileUsage(NamedTuple):
    """The counts for one file of the live log.

    Attributes:
        total, obsolete: numbers of bytes.
        expired, gradual: bytes that have expired; and the gradual count, which includes those of the last interval only
            in part (R-CLN-51).
        in_progress: the file is being cleaned, or waits for a checkpoint.
    """

    number: int
    total: int
    obsolete: int
    expired: int = 0
    gradual: int = 0
    in_progress: bool = False

    @property
    def max_utilization(self) -> int:
        """Percentage, if all expired bytes were also counted as obsolete."""
        return percent(max(self.obsolete, self.expired), self.total)

    @property
    def min_utilization(self) -> int:
        """Percentage, if no expired bytes were also counted as obsolete."""
        return percent(min(self.obsolete + self.expired, self.total), self.total)

    @property
    def average_utilization(self) -> int:
        """The mean of the two."""
        return (self.min_utilization + self.max_utilization) // 2


class Choice(NamedTuple):
    """A file to clean.

    Attributes:
        required: percentage; a first pass determines the utilization, and the file is skipped if it is higher. None
            cleans at once.
        reason: why this file was chosen.
    """

    number: int
    required: int | None
    reason: str


class FileChoice(NamedTuple):
    """The choice, and the utilization of the log as a percentage: now, and after the files in progress are done."""

    choice: Choice | None
    current_min: int
    current_max: int
    predicted_min: int
    predicted_max: int


def percent(obsolete: int, total: int) -> int:
    """Utilization as a percentage, rounded half up; 0 if the total is 0 (R-CLN-4)."""
    return int(100 * (total - obsolete) / total + 0.5) if total > 0 else 0


def last_candidate(last_file: int, first_active_file: int, min_age: int) -> int:
    """The newest file that may be cleaned (R-CLN-18).

    Arguments:
        last_file: number of the last file.
        first_active_file: file in which the oldest open transaction begins, or ``last_file``.
    """
    return min(last_file, first_active_file) - min_age


def parse_file_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """The first and last number of each range of je.cleaner.forceCleanFiles: ``8,a0-a9``, in hexadecimal.

    Raises:
        UsageError: the text has another form.
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
        forced: files to clean whatever their contents (je.cleaner.forceCleanFiles).
        anything: choose the best file even if enough of the log is in use.
        excluded: files that must not be chosen.
    """
    free = [file for file in files if not file.in_progress]
    candidates = [file for file in free if file.number <= newest and file.number not in excluded]
    # Only the used part of files in progress will remain, in new files.
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


def backlog(files: Sequence[FileUsage], limits: CleaningLimits, newest: int, most: int = 1000) -> int:
    """The number of files that the cleaner would choose one after another; counting ends at ``most``."""
    rest, found = list(files), 0
    while found < most:
        choice = choose(rest, limits, newest).choice
        if choice is None:
            break
        rest = [file._replace(in_progress=True) if file.number == choice.number else file for file in rest]
        found += 1
    return found


def _gradual_maximum(file: FileUsage) -> int:
    return percent(max(file.obsolete, file.gradual), file.total)


def _required(chosen: FileUsage, best: FileUsage | None, limits: CleaningLimits) -> int | None:
    """The utilization required of the first pass, if the range is wide enough to justify one (R-CLN-22)."""
    low, high = chosen.min_utilization, chosen.max_utilization
    if chosen is best and high > limits.required and high - low >= limits.two_pass_gap:
        return limits.required
    return None
