"""A check of some log files, each by itself: every record, every group, and the link to the file before.

Damage in front of the undo low water mark is a note, as in a check of everything. Damage at the end of the file in
which the log ends is a torn tail or worse, by what follows it; in any other file it is a part of the log that cannot be
read.
The newest file counts as that file unless it does not continue the one before.

Transactions, page versions and containers need all of the log: they are named as not checked.

Example: ``verify_log_files(database, 3, None)`` checks ``log3.dat`` and all later files; its scope is ``files log3.dat
to log7.dat``.
"""

from __future__ import annotations

from typing import Final

from engine.derby.database import DerbyDatabase
from engine.derby.format import instant, log_file
from engine.derby.format.log_file import HEADER_SIZE
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.log_walk import DerbyDamage, RecordSelection, walk
from engine.derby.recovery.start import find_start
from engine.derby.verify.check import DerbyReport, check_controls
from engine.derby.verify.findings import DerbyFinding, finding
from engine.derby.verify.log_checks import check_end, guard_problem, old_damage
from engine.errors import DamageError, NotFoundError
from engine.events import SILENT, Listener

_NEED_THE_LOG: Final = ("transactions", "page versions in the log", "containers", "pages of containers")


def verify_log_files(
    database: DerbyDatabase, first: int, last: int | None, *, listener: Listener = SILENT
) -> DerbyReport:
    """Check the log files from ``first`` to ``last`` (None: the newest).

    Raises:
        NotFoundError: no log file is in the range.
        UnsupportedError: the database is encrypted or of an unknown release.
    """
    database.require_clear()
    controls = database.controls()
    database.require_version(controls)
    log = DerbyLogFiles(database)
    numbers = log.numbers()
    chosen = [one for one in numbers if one >= first and (last is None or one <= last)]
    if not chosen:
        raise NotFoundError(
            "no log file in this range",
            file=database.name("log"),
            expected=f"{log_file.file_name(numbers[0])} to {log_file.file_name(numbers[-1])}" if numbers else None,
            found=f"{first}.." + (str(last) if last is not None else ""),
        )
    findings = check_controls(controls)
    try:
        needed = find_start(log, controls).undo_lwm
    except DamageError as error:
        needed = instant.NONE
        findings.append(finding("DRB-LOG-003", str(error), file="log"))
    end_file = _end_file(log, numbers)
    records = size = 0
    for done, number in enumerate(chosen):
        listener.step("log", done, len(chosen))
        found, count = _check_file(log, number, needed, is_end=number == end_file)
        findings += _check_link(log, number, numbers, needed, end_file) + found
        records += count
        size += log.size(number)
    names = [log_file.file_name(one) for one in (chosen[0], chosen[-1])]
    left = [*_NEED_THE_LOG, *(["other log files"] if len(chosen) < len(numbers) else [])]
    return DerbyReport(
        findings=tuple(findings),
        records=records,
        log_bytes=size,
        containers=0,
        pages=0,
        rows=0,
        not_checked=(*left, *(() if end_file in chosen else ("the end of the log",))),
        scope=f"files {names[0]} to {names[1]}" if len(chosen) > 1 else f"file {names[0]}",
        files=len(chosen),
    )


def _end_file(log: DerbyLogFiles, numbers: list[int]) -> int:
    """The file in which the log ends."""
    newest = numbers[-1]
    return newest - 1 if newest - 1 in numbers and not _continues(log, newest) else newest


def _continues(log: DerbyLogFiles, number: int) -> bool:
    """Whether a file names the end of a record, or of the header, of the file before."""
    try:
        before = log.header(number).previous_end
    except DamageError:
        return False
    position = instant.position_of(before)
    if instant.file_of(before) != number - 1 or position > log.size(number - 1):
        return False
    if position == HEADER_SIZE:
        return True
    length = int.from_bytes(log.read(number - 1, position - 4, 4), "big")
    start = position - length - log_file.OVERHEAD
    if start < HEADER_SIZE:
        return False
    found = log.try_record(instant.make(number - 1, start))
    return not isinstance(found, str) and found.end == before


def _check_link(log: DerbyLogFiles, number: int, numbers: list[int], needed: int, end_file: int) -> list[DerbyFinding]:
    """The link of a file to the one before."""
    before = number - 1
    if before not in numbers:
        if number == numbers[0] or number <= instant.file_of(needed):
            return []
        return [finding("DRB-LOG-003", f"log file {before} is missing", file=log.path(before))]
    if _continues(log, number):
        return []
    message = f"log file {number} does not continue the log"
    if number > end_file:
        return [finding("DRB-LOG-005", message, file=log.path(number))]
    return [_damage(log, message, instant.make(number, 0), needed)]


def _check_file(log: DerbyLogFiles, number: int, needed: int, *, is_end: bool) -> tuple[list[DerbyFinding], int]:
    """Findings on the records of a file, and how many records it has."""
    findings: list[DerbyFinding] = []
    records = 0
    for found in walk(log, RecordSelection(files=frozenset({number}))):
        if not isinstance(found, DerbyDamage):
            records += 1
            problem = guard_problem(found)
            if problem is not None:
                findings.append(_damage(log, problem, found.instant, needed))
        elif not is_end or instant.position_of(found.at) < HEADER_SIZE:
            findings.append(_damage(log, found.reason, found.at, needed))
    if is_end and log.size(number) >= HEADER_SIZE:
        scan = ForwardScan(log, instant.make(number, HEADER_SIZE))
        for _ in scan:
            pass
        assert scan.end is not None
        findings += check_end(log, scan.end)
    return findings, records


def _damage(log: DerbyLogFiles, reason: str, at: int, needed: int) -> DerbyFinding:
    in_header = instant.position_of(at) < HEADER_SIZE
    # Recovery reads the header of the file that holds the mark.
    if at < needed and not (in_header and instant.file_of(at) == instant.file_of(needed)):
        return old_damage(log, f"the log in front of the undo low water mark cannot be read: {reason}", at)
    place = at if instant.position_of(at) else instant.NONE
    return finding("DRB-LOG-006", reason, file=log.path(instant.file_of(at)), at=place)
