"""VLSNs that are missing in the log, from the counts of the bulk check of each file.

If the number of a file's visible replicated entries equals the length of its VLSN range, no VLSN is missing in it. That
decides most files. If a rollback replaced a part of the stream, or the numbers do not agree, the file is read again
(``engine.inspect.log_stream``).

A gap that missing files or damage explain is not reported in addition to them.

Example: VLSNs 1..40 in file 0, 43..90 in file 1, nothing missing or damaged: 41 and 42 were lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.format.lsn import file_of, format_lsn, make_lsn, offset_of
from engine.format.stream_facts import StreamFacts
from engine.format.vlsn import NULL_VLSN
from engine.inspect.log_stream import stream_of_file
from engine.log.check import FileCheck
from engine.log.files import LogFiles
from engine.storage.base import Storage
from engine.verify.rep_rules import GAP
from engine.verify.report import Finding, finding


def gap_findings(storage: Storage, files: LogFiles, checks: Sequence[FileCheck]) -> Iterator[Finding]:
    """VLSNs missing inside the range of the log.

    Arguments:
        storage, files: the environment; some files are read again.
        checks: of all files, in order.
    """
    whole = StreamFacts()
    for check in checks:
        whole.join(_is_plain(check) or stream_of_file(storage, files.end_file(), check.file).facts)
    for first, last, lsn in whole.gaps:
        number = file_of(lsn)
        if _is_explained(checks, number):
            continue
        if offset_of(lsn) == 0:
            # Counts do not give the LSN of the first entry of the stream in the file, so read the file for it.
            check = next(check for check in checks if check.file.number == number)
            lsn = stream_of_file(storage, files.end_file(), check.file).facts.first_lsn
        path = next(check.file.path for check in checks if check.file.number == number)
        message = f"{first}..{last}, {last - first + 1} of them, before {format_lsn(lsn)}"
        yield finding(GAP, message, lsn=lsn, file=path)


def _is_plain(check: FileCheck) -> StreamFacts | None:
    """The facts of a file whose counts show that no VLSN is missing; None if it must be read again."""
    if check.rollbacks or check.invisible or check.vlsn_steps_back:
        return None
    facts = StreamFacts()
    if check.first_vlsn != NULL_VLSN:
        if check.vlsn_count != check.last_vlsn - check.first_vlsn + 1:
            return None
        facts.first, facts.last, facts.first_lsn = check.first_vlsn, check.last_vlsn, make_lsn(check.file.number, 0)
    return facts


def _is_explained(checks: Sequence[FileCheck], number: int) -> bool:
    """Whether damage or missing files before this file may hold entries of the stream."""
    after = number
    for check in reversed(checks):
        if check.file.number > number:
            continue
        # A file number between this file and the next one is missing.
        if check.damages or check.erased or after > check.file.number + 1:
            return True
        if check.file.number < number and check.first_vlsn != NULL_VLSN:
            return False
        after = check.file.number
    return False
