"""Checking the log itself: every entry of every file, and the links between files.

What is checked, in this order:

1. Each file by itself (``engine.log.check``): header, type, size, checksum, prevOffset, order of VLSNs. Several
   processes can do this.
2. Each file against the previous one: ``lastEntryInPrevFileOffset``, log versions, VLSNs without gaps
   (``engine.verify.stream_gaps``). After a kill between the header of a file and its first entry, JE continues in the
   previous file, and the offset is too small.
3. Missing files. A gap in the numbers is normal if the log shows that the file was cleaned (its FileSummaryLNs deleted,
   or a ReservedFileLN written). The gap is damage if recovery needs the file (R-REC-30). If the log shows neither, or
   counts the file as in use, the trees decide (``engine.verify.missing_file_refs``), because the summaries of a deleted
   file survive a crash right after its deletion.
4. Rollback periods and invisible entries (``engine.verify.rollbacks``). The INVISIBLE bit is outside the checksum, so
   only this check detects a flipped one. Erased entries: the type byte of an intact entry can be flipped to ``Erased``,
   which disables the checksum; the body and the old checksum together reveal this.
5. The tail of the last file (R-LOG-30 to 36). Bytes there that are not entries are the usual trace of a crash. But if a
   Commit, a CkptEnd or a record outside transactions follows, JE would silently cut off durable data (D-5). A log that
   ends with a full file may also have lost the next file.

Example: in 00000005.jdb a bit of the INS_LN_TX at 0x5/0x82c is flipped, three Commits follow. Finding JE-TAIL-002,
error:
JE 18.3.20 opens this log and loses the three transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from engine.errors import DamageError, FormatError, NotFoundError, RefusedError, StorageError, UnsupportedError, plural
from engine.events import SILENT, Listener
from engine.format.entry.checkpoint import CkptStart
from engine.format.entry_types import (
    CKPT_END,
    CKPT_ENDS,
    CKPT_START,
    DB_TREE,
    ERASED,
    RESTORE_REQUIRED,
    is_valid_type,
    type_name,
)
from engine.format.fast.header import item_size
from engine.format.header import CHECKSUM_BYTES, FLAGS_AT, HEADER_WITH_VLSN_BYTES, TYPE_AT, entry_checksum, header_bytes
from engine.format.lsn import NULL_LSN, file_of, format_lsn, make_lsn, offset_of, parse_lsn
from engine.format.vlsn import NULL_VLSN
from engine.log.check import DamagedStretch, Evidence, FileCheck, LoggedCkptEnd, LoggedFileState, check_file
from engine.log.damage import is_damaged_header, is_full
from engine.log.entry import REASONS, LogEntry
from engine.log.files import LogFile, LogFiles, log_file_name
from engine.log.interleaved import find_interleaved
from engine.log.reader import FileReader
from engine.log.scan import scan_file
from engine.log.tail import find_end
from engine.storage.base import Storage
from engine.verify import log_rules as rules
from engine.verify.damage_rules import damage_rule
from engine.verify.missing_file_refs import LostFile, lost_finding, needed_finding
from engine.verify.report import ERROR, Finding, Report, Rule, finding
from engine.workers.parallel import map_small

LEVELS: Final = ("log", "tail")

# The number of files missing at the front that are listed individually.
_MOST_NAMED: Final = 1000


# References of the trees into missing files, by file number; None if recovery fails. The argument is True if the log
# does not show whether a missing file is lost; otherwise the function need not walk the trees.
AskForLost = Callable[[bool], Mapping[int, LostFile] | None]
# Findings about missing files that the end of the log shows to be lost; called after ``AskForLost``.
LostAtEnd = Callable[[], Iterable[Finding]]


class FileResult(NamedTuple):
    """The result for one file: the bulk check or the reason why the file could not be read, and suspicious erased
    entries.

    Attributes:
        unsupported: the error of a file whose log version this program does not read.
    """

    file: LogFile
    check: FileCheck | None
    problem: str
    erased: tuple[Finding, ...]
    unsupported: UnsupportedError | None = None


def verify_log(
    storage: Storage,
    files: LogFiles,
    *,
    jobs: int = 1,
    listener: Listener = SILENT,
    levels: Sequence[str] = LEVELS,
    results: Sequence[FileResult] | None = None,
    lost: AskForLost | None = None,
    lost_at_end: LostAtEnd | None = None,
    part: bool = False,
) -> Report:
    """Check the log of an environment.

    Arguments:
        storage: the environment; with ``jobs`` above 1 it is pickled or forked along with the work.
        files: the log files.
        jobs: how many processes.
        listener: receives ``verify`` steps in bytes.
        levels: ``tail`` (the end of the log), and ``log`` (everything else); a check of the log has both.
        results: results of ``check_one`` for every file, in order, if other processes have read them.
        lost: walks over the trees and returns their references into missing files; None if that fails.
        lost_at_end: returns the findings of the tail level about missing files; this level reports them too.
        part: ``results`` are those of some files; what needs the whole log is not checked.

    Raises:
        UnsupportedError: all files are of log versions that this program does not read.
    """
    if results is None:
        results = check_all(storage, files, jobs, listener)
    foreign = [result.unsupported for result in results if result.unsupported is not None]
    if foreign and len(foreign) == len(results):
        raise foreign[0]
    checks = [result.check for result in results if result.check is not None]
    found = list(_all_findings(storage, files, results, levels, lost, lost_at_end, part=part))
    # A torn tail is not harmless if the header of the next file names entries in it.
    cut_off = {one.file for one in found if one.code == rules.WRONG_LAST_ENTRY.code}
    found = [one for one in found if one.code != rules.TORN.code or one.file not in cut_off]
    # If files are missing or damaged, the root was in them, and that is already reported.
    needs_root = "log" in levels and not part and all(one.severity != ERROR for one in found)
    if needs_root and not _has_root(storage, files, checks):
        found.append(finding(rules.NO_ROOT, "no DbTree entry in the whole log"))
    # Findings about whole files have no LSN, and come last.
    found.sort(key=lambda f: (f.lsn == NULL_LSN, f.lsn, f.code))
    return Report(
        findings=tuple(found),
        files=len(checks),
        entries=sum(check.entries for check in checks),
        checked_bytes=sum(check.size_bytes for check in checks),
        checked=tuple(level for level in LEVELS if level in levels),
        not_checked=tuple(level for level in LEVELS if level not in levels),
    )


def check_all(
    storage: Storage, files: LogFiles, jobs: int, listener: Listener = SILENT, *, with_sizes: bool = False
) -> list[FileResult]:
    """Check every file by itself, in several processes; arguments and errors as for ``check_one``."""
    total = sum(file.size_bytes for file in files.files)
    done, results = 0, []
    work = partial(check_one, storage, files.end_file(), with_sizes=with_sizes)
    for result in map_small(work, files.files, jobs):
        done += result.file.size_bytes
        listener.step("verify", done, total)
        results.append(result)
    return results


def check_one(storage: Storage, end_file: int, file: LogFile, *, with_sizes: bool = False) -> FileResult:
    """Check one file by itself: this step reads every byte and is independent of other files.

    Arguments:
        storage: the environment.
        end_file: number of the file that the log ends in (``LogFiles.end_file``).
        file: the file.
        with_sizes: also sum up bytes by type.
    """
    try:
        with FileReader(storage, file, is_last=file.number >= end_file) as reader:
            check = check_file(reader, with_sizes=with_sizes)
            erased = tuple(_erased_findings(reader, check))
    except (NotFoundError, StorageError) as error:
        # A running cleaner may delete a file while others are read.
        return FileResult(file, None, str(error), ())
    except UnsupportedError as error:
        return FileResult(file, None, error.what, (), error)
    return FileResult(file, check, "", erased)


def unsupported_findings(storage: Storage, files: LogFiles) -> Iterator[Finding]:
    """Files of log versions that this program does not read, by their headers alone."""
    for file in files.files:
        try:
            scan_file(storage, file, is_last=False).head()
        except UnsupportedError as error:
            yield _unsupported_finding(file, error)
        except (NotFoundError, StorageError):
            # The check that reads the file reports that it cannot be read.
            continue


def _unsupported_finding(file: LogFile, error: UnsupportedError) -> Finding:
    message = f"version {error.found}, expected {error.expected}"
    return finding(rules.UNSUPPORTED, message, lsn=make_lsn(file.number, 0), file=file.path)


def _all_findings(
    storage: Storage,
    files: LogFiles,
    results: Sequence[FileResult],
    levels: Sequence[str],
    lost: AskForLost | None,
    lost_at_end: LostAtEnd | None,
    *,
    part: bool,
) -> Iterator[Finding]:
    checks = [result.check for result in results if result.check is not None]
    end_file = files.end_file()
    if "tail" in levels:
        if "log" not in levels:
            yield from (_unsupported_finding(one.file, one.unsupported) for one in results if one.unsupported)
            # The log ends in the first of these files; the others have no entries.
            for before, after in pairwise(checks):
                yield from _pair_findings(storage, before, after, checks[-1].checkpoint, end_file)
        for check in checks:
            if check.file.number >= end_file:
                yield from _tail_findings(check, end_file)
                if "log" not in levels:
                    yield from _file_findings(storage, check, end_file)
            if check.file.number == end_file and check.count(RESTORE_REQUIRED):
                yield from _restore_findings(storage, files, check)
        if checks:
            yield from _full_findings(files, checks[-1])
            yield from _close_findings(storage, checks[-1], end_file)
    if "log" not in levels:
        return
    for result in results:
        yield from result.erased
        if result.unsupported is not None:
            yield _unsupported_finding(result.file, result.unsupported)
        elif result.check is None:
            yield finding(rules.UNREADABLE, result.problem, file=result.file.path)
        else:
            yield from _file_findings(storage, result.check, end_file)
    checkpoint = next((check.checkpoint for check in reversed(checks) if check.checkpoint), None)
    for before, after in pairwise(checks):
        yield from _pair_findings(storage, before, after, checkpoint, end_file)
    yield from _vlsn_findings(checks)
    if part:
        return
    if any(check.rollbacks or check.invisible for check in checks):
        # Imported here because few logs have rollbacks, and the import takes a tenth of the start-up time.
        from engine.verify.rollbacks import rollback_findings

        yield from rollback_findings(storage, files, checks)
    if any(check.first_vlsn != NULL_VLSN for check in checks):
        from engine.verify.stream_gaps import gap_findings

        yield from gap_findings(storage, files, checks)
    yield from _missing_findings(files, checks, lost, lost_at_end)
    yield from _directory_findings(files)


def _file_findings(storage: Storage, check: FileCheck, end_file: int) -> Iterator[Finding]:
    in_tail = check.file.number >= end_file
    if check.damages and (two := find_interleaved(storage, check.file, is_last=in_tail)) is not None:
        message = f"{format_lsn(two.lsn)} goes on from 0x{two.named:x}, where no entry stands any more"
        if two.changes > 1:
            message += f"; the chain changes {two.changes} times in the file"
        yield finding(rules.TWO_WRITERS, message, lsn=two.lsn, file=check.file.path)
    for seen in check.damages:
        # In the last file, damaged stretches are judged by the tail check; links and headers are judged as in any file.
        if in_tail and seen.damage.length and not is_damaged_header(seen, end_file):
            continue
        yield _damage_finding(damage_rule(seen, end_file), seen)
    for step in check.vlsn_steps_back:
        lsn = make_lsn(check.file.number, step.offset)
        yield finding(rules.VLSN_ORDER, f"{step.vlsn} after {step.before}", lsn=lsn, file=check.file.path)


def _damage_finding(rule: Rule, seen: DamagedStretch, *, extra: str = "") -> Finding:
    damage = seen.damage
    what = f" of what says it is {type_name(damage.type_number)}" if damage.type_number else ""
    message = f"{REASONS[damage.reason]}{what} (expected {damage.expected}, found {damage.found})"
    if damage.length:
        message += f"; {plural(damage.length, 'byte')} skipped"
    if damage.has_next and damage.length:
        message += f", next entry {format_lsn(damage.next_lsn)} by {damage.found_by}"
    return finding(rule, message + extra, lsn=damage.lsn, file=damage.path)


def _tail_findings(check: FileCheck, end_file: int) -> Iterator[Finding]:
    if check.file.number > end_file and not check.damages:
        yield finding(rules.EMPTY_LAST, plural(check.size_bytes, "byte"), file=check.file.path)
    for seen in check.damages:
        damage = seen.damage
        if not damage.length or is_damaged_header(seen, end_file):
            continue
        rule = damage_rule(seen, end_file)
        if rule is rules.SHORT_LAST:
            yield finding(rule, plural(damage.length, "byte"), lsn=damage.lsn, file=damage.path)
        else:
            after = f"; after it {_evidence(seen.after)}" if rule is rules.COMMITTED_BEHIND else ""
            yield _damage_finding(rule, seen, extra=after)


def _restore_findings(storage: Storage, files: LogFiles, check: FileCheck) -> Iterator[Finding]:
    # A DbTree after the first damage is not part of the log (R-LOG-31), which counts cannot show.
    try:
        find_end(storage, files._replace(marker=None))
    except RefusedError as error:
        yield finding(rules.RESTORE_ASKED, error.what, lsn=parse_lsn(error.lsn or ""), file=check.file.path)
    except DamageError:
        # The header of a file is damaged, which is already reported.
        return


def _full_findings(files: LogFiles, last: FileCheck) -> Iterator[Finding]:
    # A log that ends with a checkpoint was closed: no file is expected after it.
    at_rest = last.checkpoint is not None and offset_of(last.checkpoint.lsn) == last.last_offset
    earlier = [file.size_bytes for file in files.files if file.number < last.file.number]
    is_last = last.file.number == files.files[-1].number
    if is_last and not at_rest and last.end_offset == last.size_bytes and is_full(last.size_bytes, earlier):
        lsn = make_lsn(last.file.number, last.last_offset)
        message = f"{plural(last.size_bytes, 'byte')}; the longest file before it has {max(earlier)}"
        yield finding(rules.FULL_LAST, message, lsn=lsn, file=last.file.path)


def _close_findings(storage: Storage, last: FileCheck, end_file: int) -> Iterator[Finding]:
    # The log can end inside a checkpoint only if a CkptStart has no CkptEnd.
    if last.file.number != end_file or last.count(CKPT_START) <= last.count(CKPT_END) or last.damages:
        return
    start: LogEntry | None = None
    for entry in scan_file(storage, last.file, is_last=True, types=CKPT_ENDS).good_entries():
        start = entry if entry.type_number == CKPT_START else None
    try:
        record = None if start is None else start.record()
    except FormatError:
        # The checksum is right but the body is not; a level that decodes bodies reports that.
        return
    if start is not None and isinstance(record, CkptStart) and record.invoker == "close":
        message = f"its CkptStart is at {format_lsn(start.lsn)}, no CkptEnd follows"
        yield finding(rules.CLOSE_CUT, message, lsn=start.lsn, file=last.file.path)


def _evidence(after: Evidence) -> str:
    parts = [
        plural(after.commits, "intact Commit") if after.commits else "",
        plural(after.checkpoints, "CkptEnd") if after.checkpoints else "",
        f"{plural(after.plain_lns, 'record')} outside transactions" if after.plain_lns else "",
    ]
    return ", ".join(filter(None, parts))


def _pair_findings(
    storage: Storage, before: FileCheck, after: FileCheck, checkpoint: LoggedCkptEnd | None, end_file: int
) -> Iterator[Finding]:
    header = after.header
    if after.version < before.version and header is not None and before.header is not None:
        message = f"version {after.version} after version {before.version} of {before.file.path}"
        yield finding(rules.VERSION_STEPS_BACK, message, lsn=make_lsn(after.file.number, 0), file=after.file.path)
    if header is None or after.file.number != before.file.number + 1 or before.last_offset < 0:
        return
    named = header.last_entry_in_prev_file
    if named == before.last_offset:
        return
    # Damage at the end of the earlier file is reported by itself, without the wrong offset. But if the log ends in that
    # file, the damage may look like a torn tail, and only the header of the next file shows that it is not.
    damaged_end = any(not seen.damage.has_next for seen in before.damages)
    if damaged_end and (before.file.number < end_file or named < before.last_offset):
        return
    rule = rules.WRONG_LAST_ENTRY
    if 0 < named < before.last_offset and _is_entry(storage, before, named):
        # A kill left only the header; the next writer continued in the previous file, and then after this header.
        is_read = checkpoint is None or file_of(checkpoint.record.first_active_lsn) <= before.file.number
        rule = rules.UNLINKED_END if is_read and after.last_offset > 0 else rules.EARLY_HEADER
    yield finding(
        rule,
        f"{after.file.path} says that the last entry of {before.file.path} is at 0x{named:x}, "
        f"it is at 0x{before.last_offset:x}",
        lsn=make_lsn(before.file.number, before.last_offset),
        file=before.file.path,
    )


def _is_entry(storage: Storage, check: FileCheck, offset: int) -> bool:
    """Whether an entry of a file, or damage, begins at an offset."""
    lsn = make_lsn(check.file.number, offset)
    return scan_file(storage, check.file, is_last=False).place_after(lsn) == lsn


def _vlsn_findings(checks: list[FileCheck]) -> Iterator[Finding]:
    """Check the order across files; the bulk check covers the order within a file."""
    last = NULL_VLSN
    for check in checks:
        restarts = check.restarts()
        if check.first_vlsn != NULL_VLSN:
            if check.first_vlsn <= last:
                yield finding(
                    rules.VLSN_ORDER,
                    f"{check.first_vlsn}, the first of the file, after {last}",
                    lsn=make_lsn(check.file.number, 0),
                    file=check.file.path,
                )
            last = check.last_vlsn
        elif restarts:
            # After a rollback the same VLSNs are assigned again (R-SYNC-11).
            last = min(last, *restarts)


def _erased_findings(reader: FileReader, check: FileCheck) -> Iterator[Finding]:
    for offset in check.erased:
        head = reader.window.bytes_at(offset, HEADER_WITH_VLSN_BYTES)
        length = header_bytes(head[FLAGS_AT], check.version)
        entry = bytearray(reader.window.bytes_at(offset, length + item_size(head, 0)))
        # The eraser writes zeros, so this entry was erased properly.
        if not any(entry[length:]):
            continue
        lsn = make_lsn(check.file.number, offset)
        stored = int.from_bytes(entry[:CHECKSUM_BYTES], "little")
        # The eraser keeps the stored checksum, so the original type is the one for which the checksum is right.
        if old := _type_that_fits(entry, stored, check.version):
            message = f"its checksum is that of a {type_name(old)}"
            yield finding(rules.ERASED_TYPE, message, lsn=lsn, file=check.file.path)
        else:
            left = len(entry) - length - entry[length:].count(0)
            message = f"{left} of {plural(len(entry) - length, 'byte')} {'is' if left == 1 else 'are'} not zero"
            yield finding(rules.ERASED_PARTLY, message, lsn=lsn, file=check.file.path)


def _type_that_fits(entry: bytearray, stored: int, version: int) -> int:
    """The type number for which the stored checksum matches, or 0."""
    for number in range(1, 256):
        if number != ERASED and is_valid_type(number, version):
            entry[TYPE_AT] = number
            if entry_checksum(bytes(entry), version) == stored:
                return number
    return 0


def _has_root(storage: Storage, files: LogFiles, checks: list[FileCheck]) -> bool:
    """Whether the log holds a DbTree; one after the first damage of the last file is not part of the log (R-LOG-31)."""
    end_file = files.end_file()
    if any(check.count(DB_TREE) for check in checks if check.file.number < end_file):
        return True
    last = next((check for check in checks if check.file.number == end_file), None)
    if last is None or not last.count(DB_TREE) or not last.damages:
        return last is not None and last.count(DB_TREE) > 0
    return find_end(storage, files._replace(marker=None)).root_lsn != NULL_LSN


def _missing_findings(
    files: LogFiles, checks: list[FileCheck], lost: AskForLost | None, lost_at_end: LostAtEnd | None
) -> Iterator[Finding]:
    words: dict[int, LoggedFileState] = {}
    checkpoint: LoggedCkptEnd | None = None
    for check in checks:
        # In log order, so the latest record of a file counts.
        words.update(check.file_words)
        checkpoint = check.checkpoint or checkpoint
    present = {file.number for file in files.files}
    gaps = set(files.missing())
    needed_from = file_of(checkpoint.record.first_active_lsn) if checkpoint else 0
    if checkpoint is not None and files.files:
        # Only the CkptEnd shows whether files before the first one are missing. If crafted, it could imply millions.
        gaps.update(range(needed_from, min(files.files[0].number, needed_from + _MOST_NAMED)))
    needed = sorted(number for number in gaps if number >= needed_from)
    in_use = {number for number, word in words.items() if word.in_use and number not in present}
    # Only the trees show whether anything refers into these files.
    unclear = (in_use | {number for number in gaps if number not in words}).difference(needed)
    found = lost(bool(unclear)) if lost is not None else None
    # The tail level reports files that are lost at the end of the log; use the same findings for these files.
    at_end = {int(one.file[:8], 16): one for one in lost_at_end()} if lost_at_end is not None else {}
    # A finding without LSN is about a file that recovery reads. The whole log may show from where on: report that.
    told = {number for number, one in at_end.items() if number not in needed or one.lsn != NULL_LSN}
    yield from (at_end[number] for number in sorted(told))
    start = format_lsn(checkpoint.record.first_active_lsn) if checkpoint else "the start of the log"
    yield from (needed_finding(number, start) for number in needed if number not in told)
    known = told.union(needed)
    yield from (lost_finding(number, what) for number, what in sorted((found or {}).items()) if number not in known)
    if unclear and found is None:
        # Recovery fails, so it is unknown what the trees refer to.
        for number in sorted(unclear - told):
            word, name = words.get(number), log_file_name(number)
            if word is None:
                yield finding(rules.MISSING_UNKNOWN, name, file=name)
            else:
                message = f"{name}; the FileSummaryLN at {format_lsn(word.lsn)} counts it as in use"
                yield finding(rules.MISSING_NEEDED, message, lsn=word.lsn, file=name)
    explained = gaps.difference(needed, told, found or (), unclear if found is None else ())
    if explained:
        names = [log_file_name(number) for number in sorted(explained)]
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        yield finding(rules.MISSING_CLEANED, shown)


def _directory_findings(files: LogFiles) -> Iterator[Finding]:
    if files.marker is not None:
        yield finding(rules.MARKER, plural(files.marker.size_bytes, "byte"), file=files.marker.path)
    for path in files.twice:
        yield finding(rules.TWICE, path, file=path)
    for file in files.files:
        name = file.path.rpartition("/")[2]
        if name != name.lower():
            yield finding(rules.UPPER_CASE, name, file=file.path)
