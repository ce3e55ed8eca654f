"""Which backups are kept, and removing the others.

A rule is written as numbers with units, ``7d4w``: the last backup of each of the last 7 days that have one, and of each
of the last 4 weeks; ``l`` counts the latest backups whatever their age, ``h d w m y`` for hours, days, weeks, months
and years, in UTC. The rule applies to each environment in the directory separately, and its newest backup is always
kept.

Manifests are removed first, durably; then the stored files that no manifest names. So if a run is killed, every listed
backup is complete, and the next run removes the leftover files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from engine.backup.manifest import Manifest
from engine.backup.repository import Repository
from engine.errors import DamageError, UsageError

_RULE: Final = re.compile(r"(?:[0-9]{1,6}[lhdwmy])+", re.ASCII)
_PART: Final = re.compile(r"([0-9]+)([lhdwmy])", re.ASCII)
_WORDS: Final = {"l": "last", "h": "hour", "d": "day", "w": "week", "m": "month", "y": "year"}
# The format of times by unit; all times of one period have the same text.
_PERIODS: Final = {"h": "%Y-%m-%d %H", "d": "%Y-%m-%d", "w": "%G-W%V", "m": "%Y-%m", "y": "%Y"}
NEWEST: Final = "newest"


class Kept(NamedTuple):
    """Whether a backup is kept, and why; no reason is given for a backup that is removed."""

    manifest: Manifest
    reasons: tuple[str, ...]


class PrunePlan(NamedTuple):
    """What is removed.

    Attributes:
        backups: all backups, the oldest first.
        files: paths of stored files that no backup needs after the removal.
        size_bytes: size of the removed files.
    """

    backups: tuple[Kept, ...]
    files: tuple[str, ...]
    size_bytes: int

    @property
    def removed(self) -> tuple[str, ...]:
        """Ids of the backups to remove."""
        return tuple(one.manifest.id for one in self.backups if not one.reasons)


def parse_rule(text: str) -> dict[str, int]:
    """For each unit, the number of backups that a rule keeps.

    Raises:
        UsageError: the text is not a rule, names a unit twice, or keeps nothing.
    """
    parts = _PART.findall(text) if _RULE.fullmatch(text) else []
    units = [unit for _, unit in parts]
    if not parts or len(set(units)) != len(units) or not any(int(number) for number, _ in parts):
        raise UsageError(
            f"{text!r} is not a rule of what to keep",
            expected="numbers with l, h, d, w, m or y, such as 7d4w or 10l12m",
            consequence="nothing was removed",
        )
    return {unit: int(number) for number, unit in parts}


def kept(manifests: Sequence[Manifest], rule: dict[str, int]) -> list[Kept]:
    """Apply a rule to each backup.

    Arguments:
        manifests: the manifests of one directory, oldest first.
    """
    reasons: dict[str, list[str]] = {one.id: [] for one in manifests}
    for source in dict.fromkeys(one.source for one in manifests):
        newest_first = [one for one in reversed(manifests) if one.source == source]
        reasons[newest_first[0].id].append(NEWEST)
        for unit, number in rule.items():
            periods: dict[str, Manifest] = {}
            for one in newest_first:
                began = datetime.fromtimestamp(one.began_ms / 1000, UTC)
                # Each period keeps its newest backup.
                periods.setdefault(began.strftime(_PERIODS[unit]) if unit != "l" else one.id, one)
            for period, one in list(periods.items())[:number]:
                reasons[one.id].append(f"{_WORDS[unit]} {period}" if unit != "l" else _WORDS[unit])
    return [Kept(one, tuple(reasons[one.id])) for one in manifests]


def plan_prune(repository: Repository, rule: dict[str, int]) -> PrunePlan:
    """What would be removed; nothing is changed.

    Raises:
        NotFoundError: there is no directory of backups. DamageError: a manifest cannot be read.
    """
    listed = repository.backups()
    for one in listed:
        if one.manifest is None:
            raise DamageError(
                f"the manifest of backup {one.id} cannot be read",
                file=repository.root,
                found=one.problem,
                consequence="what it needs is not known; nothing was removed",
                hint="remove this manifest if you can do without the backup",
            )
    found = kept([one.manifest for one in listed if one.manifest is not None], rule)
    going = [one.manifest.id for one in found if not one.reasons]
    files = repository.unused(without=going)
    stats = [repository.storage.stat(path) for path in files]
    return PrunePlan(tuple(found), tuple(files), sum(stat.size_bytes for stat in stats if stat is not None))


def prune(repository: Repository, rule: dict[str, int]) -> PrunePlan:
    """Remove what the rule does not keep.

    Returns:
        What was removed.

    Raises:
        RefusedError: another process adds or removes backups. NotFoundError, DamageError: as ``plan_prune``.
        StorageError: the directory cannot be written.
    """
    # Do not make a directory of backups just to find it empty.
    repository.ids()
    with repository.locked():
        found = plan_prune(repository, rule)
        for made in found.removed:
            repository.remove(made)
        repository.sweep()
    return found
