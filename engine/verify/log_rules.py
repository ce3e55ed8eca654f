"""The rules that ``verify --log --end`` checks. Codes are permanent: append, never renumber."""

from __future__ import annotations

from typing import Final

from engine.verify.report import ERROR, NOTE, WARNING, Rule

_LOST_ENTRY = "the entry cannot be read; JE fails when it needs it, with LOG_CHECKSUM or LOG_INTEGRITY"
_KEEP = "copy the environment before anything opens it for writing; restore the file from a backup or a replica"

CHECKSUM: Final = Rule("JE-LOG-001", ERROR, "checksum mismatch", _LOST_ENTRY, _KEEP)
BAD_TYPE: Final = Rule("JE-LOG-002", ERROR, "no entry where one should begin", _LOST_ENTRY, _KEEP)
BAD_SIZE: Final = Rule("JE-LOG-003", ERROR, "impossible item size", _LOST_ENTRY, _KEEP)
CUT_SHORT: Final = Rule(
    "JE-LOG-004", ERROR, "file ends inside an entry", "the end of this file is missing and later files exist", _KEEP
)
BROKEN_LINK: Final = Rule(
    "JE-LOG-005",
    ERROR,
    "prevOffset does not name the entry before",
    "an entry was lost or written twice; JE's backward reads fail here",
    _KEEP,
)
BAD_HEADER: Final = Rule(
    "JE-LOG-006", ERROR, "damaged file header", "JE refuses to open an environment whose file has such a header", _KEEP
)
WRONG_NUMBER: Final = Rule(
    "JE-LOG-007",
    ERROR,
    "file header names another file",
    "JE refuses the file (Wrong filenum in header)",
    "the file was renamed, or copied over another file: put the right file in place",
)
TOO_SHORT: Final = Rule("JE-LOG-008", ERROR, "file shorter than a file header", "the whole file is missing", _KEEP)
WRONG_LAST_ENTRY: Final = Rule(
    "JE-LOG-009",
    ERROR,
    "end of a file and header of the next disagree",
    "the earlier file lost entries at its end, or one of the two files belongs to another log; JE refuses to open "
    "where recovery reads both; elsewhere, and where the log ends there, it opens without a word and without the rest",
    _KEEP,
)
MISSING_NEEDED: Final = Rule(
    "JE-LOG-010",
    ERROR,
    "missing log file",
    "recovery or live records need it; JE refuses to open, or fails later with LOG_FILE_NOT_FOUND",
    "put the file back from a backup or a replica",
)
MISSING_UNKNOWN: Final = Rule(
    "JE-LOG-011",
    WARNING,
    "log file missing, and the log does not say that it was cleaned",
    "live records may have been in it",
    "compare with a backup or a replica; later checks of references show whether it is needed",
)
MISSING_CLEANED: Final = Rule(
    "JE-LOG-012",
    NOTE,
    "gap in the file numbers",
    "none: the log shows that the files were cleaned, or nothing refers to them",
    "nothing",
)
ERASED_TYPE: Final = Rule(
    "JE-LOG-013",
    ERROR,
    "entry marked as erased holds its old content",
    "the type byte was damaged; JE skips the entry without a word",
    _KEEP,
)
ERASED_PARTLY: Final = Rule(
    "JE-LOG-014",
    NOTE,
    "entry erased in part",
    "none: an erased entry is obsolete; the eraser was interrupted",
    "nothing",
)
STRAY_INVISIBLE: Final = Rule(
    "JE-LOG-015",
    ERROR,
    "invisible entry outside every rollback period",
    "recovery skips the entry, so its change is lost though it was not rolled back; or the end of the log is lost, "
    "with the RollbackStart",
    _KEEP,
)
VLSN_ORDER: Final = Rule(
    "JE-LOG-016",
    ERROR,
    "VLSN does not follow the one before",
    "replication cannot position in this log; a rolled-back entry may have become visible again",
    "restore this node from another member of the group",
)
TWICE: Final = Rule(
    "JE-LOG-017",
    ERROR,
    "two files with one number",
    "JE uses one of them and ignores the other",
    "find out which one belongs to the log and move the other away",
)
MARKER: Final = Rule(
    "JE-LOG-018",
    ERROR,
    "restore marker 7fffffff.jdb present",
    "JE refuses to open the environment until a restore is complete",
    "restore the environment, or remove the marker after the cause was repaired",
)
VERSION_STEPS_BACK: Final = Rule(
    "JE-LOG-019",
    ERROR,
    "log version lower than that of an earlier file",
    "JE never writes that: a file of another log was put here",
    "find the file that belongs here",
)
UNREADABLE: Final = Rule(
    "JE-LOG-020",
    ERROR,
    "file cannot be read",
    "nothing is known of its entries",
    "check permissions and the disk, then verify again",
)
UPPER_CASE: Final = Rule(
    "JE-LOG-021",
    WARNING,
    "file name not in lower case",
    "JE lists the file and then fails to open it under its own spelling",
    "rename it to lower case",
)
COMMIT_IN_PERIOD: Final = Rule(
    "JE-LOG-022",
    ERROR,
    "Commit inside a rollback period",
    "JE refuses to open an environment whose recovery meets it, with LOG_INTEGRITY",
    "restore this node from another member of the group",
)
PERIODS_INTERSECT: Final = Rule(
    "JE-LOG-023",
    ERROR,
    "rollback periods intersect",
    "JE refuses to open an environment whose recovery meets them, with LOG_INTEGRITY",
    "restore this node from another member of the group",
)
VISIBLE_IN_PERIOD: Final = Rule(
    "JE-LOG-024",
    ERROR,
    "rolled-back entry is visible",
    "its VLSN stands in the log twice; a replica that reads this log may take the wrong one",
    "restore this node from another member of the group",
)
UNKNOWN_INVISIBLE: Final = Rule(
    "JE-LOG-025",
    WARNING,
    "invisible entry, and its rollback period is not in the log",
    "none if the RollbackStart was in one of the missing files; else its change is lost",
    "compare with another member of the group",
)
EARLY_HEADER: Final = Rule(
    "JE-LOG-026",
    NOTE,
    "file was begun before the one before it ended",
    "none: a kill left its header alone, JE wrote on in the file before, and recovery does not read back over it",
    "nothing",
)
UNLINKED_END: Final = Rule(
    "JE-LOG-027",
    ERROR,
    "header left by a kill was written on, and recovery reads back over it",
    "JE does not find the entries between the two places when it reads backward: it takes transactions back that "
    "committed there, and leaves changes that did not commit; jetool finds them",
    "recover with jetool before JE opens it; where JE still runs, take a checkpoint",
)
PERIODS_REFUSED: Final = Rule(
    "JE-LOG-028",
    ERROR,
    "rollback entries contradict each other",
    "JE and jetool refuse to open an environment whose recovery meets them, with LOG_INTEGRITY",
    "jetool rollbacks shows them; restore this node from another member of the group",
)
WRITE_IN_BRACKET: Final = Rule(
    "JE-LOG-029",
    ERROR,
    "write of a replicated transaction between a RollbackStart and its RollbackEnd",
    "JE and jetool refuse to open an environment whose recovery meets it, with LOG_INTEGRITY",
    "restore this node from another member of the group",
)
NO_ROOT: Final = Rule(
    "JE-LOG-030",
    ERROR,
    "the log has no root",
    "JE and jetool refuse to open the environment: it was being created, or all that was written after that is lost",
    "if it is new, move its log files away and create it again; else restore it from a backup or a replica",
)
TWO_WRITERS: Final = Rule(
    "JE-LOG-031",
    ERROR,
    "two chains of entries interleave",
    "two processes have written this log at once, or old bytes have come back; each chain has lost entries, committed "
    "ones too, and whatever opens the environment mixes the two",
    "stop all writers and copy the environment; restore it from a backup or a replica, or save the records with jetool "
    "salvage; find out why je.lck did not keep the second one out (was it deleted? has the file system no locks?)",
)
UNSUPPORTED: Final = Rule(
    "JE-LOG-032",
    ERROR,
    "log version of a file not supported",
    "nothing is known of its entries",
    "if a newer release of JE wrote it, use a newer release of jetool; else its header is damaged: restore the file",
)

TORN: Final = Rule(
    "JE-TAIL-001",
    NOTE,
    "torn tail",
    "none for committed work: JE cuts these bytes off when it opens the log for writing",
    "nothing; copy the last file first if the bytes are of interest",
)
COMMITTED_BEHIND: Final = Rule(
    "JE-TAIL-002",
    ERROR,
    "damage in the last file with committed work after it",
    "JE's default is to cut the log off here when it opens it, silently, and the commits after it are lost",
    "copy the environment first; set je.haltOnCommitAfterChecksumException=true before anything opens it; "
    "restore from a replica",
)
UNCOMMITTED_BEHIND: Final = Rule(
    "JE-TAIL-003",
    NOTE,
    "damage in the last file, only uncommitted work after it",
    "JE cuts the log off here when it opens it for writing; after the damage that loses no commit. A Commit that stood "
    "in the damaged bytes is lost if it had been synced",
    "nothing; copy the last file first if the bytes are of interest",
)
TORN_COMMIT: Final = Rule(
    "JE-TAIL-004",
    WARNING,
    "the last entry is a Commit, whole in length, whose checksum is wrong",
    "its transaction will be undone; if the commit was acknowledged as durable, it is lost",
    "ask the application whether the last transaction was acknowledged; keep a copy",
)
EMPTY_LAST: Final = Rule(
    "JE-TAIL-005",
    NOTE,
    "last file holds no entry",
    "JE skips it, and comes back to it when the file before is full: after a second crash its backward reads miss what "
    "was logged in between",
    "jetool recover removes it",
)
SHORT_LAST: Final = Rule(
    "JE-TAIL-006",
    NOTE,
    "last file shorter than a file header",
    "none: JE renames it to .bad and continues with the previous file",
    "nothing",
)
BAD_LAST_HEADER: Final = Rule(
    "JE-TAIL-007",
    NOTE,
    "last file is a damaged header and nothing else",
    "none: JE renames it to .bad and continues with the previous file",
    "nothing",
)
DAMAGED_COMMIT: Final = Rule(
    "JE-TAIL-008",
    ERROR,
    "damaged Commit, CkptEnd or record outside transactions in the last file, and intact entries after it",
    "the entries after it show that it was complete; JE's default is to cut the log off here when it opens it, "
    "silently, and what was committed is lost",
    "copy the environment first; restore from a replica",
)
# The rule is only a note: a kill between two files looks the same, and the check of a healthy server must not fail.
FULL_LAST: Final = Rule(
    "JE-TAIL-009",
    NOTE,
    "the log ends where a file is full, without a checkpoint",
    "none after a kill that came between two files; but nothing in a log tells of later files, and one after this may "
    "be lost, with what was committed in it",
    "if a file may have been deleted, look for the next one in backups and compare with a replica (jetool diff)",
)
RESTORE_ASKED: Final = Rule(
    "JE-TAIL-010",
    ERROR,
    "the log ends with a request to restore the environment",
    "JE and jetool refuse to open it: JE found files missing or damaged, or a network restore was not finished",
    "restore the environment from a backup or from another member of the group",
)

CLOSE_CUT: Final = Rule(
    "JE-TAIL-011",
    NOTE,
    "the log ends inside the checkpoint of a close",
    "none after a kill during the close, and all that committed is before it; if the environment was closed, the end "
    "of the log is lost, and more may be",
    "if the application did close it, compare the last file with a backup or a replica",
)

BY_REASON: Final[dict[str, Rule]] = {
    "checksum": CHECKSUM,
    "type": BAD_TYPE,
    "size": BAD_SIZE,
    "cut": CUT_SHORT,
    "prev-offset": BROKEN_LINK,
    "header": BAD_HEADER,
    "short": TOO_SHORT,
    "file-number": WRONG_NUMBER,
}

RULES: Final[tuple[Rule, ...]] = tuple(value for value in tuple(globals().values()) if isinstance(value, Rule))
