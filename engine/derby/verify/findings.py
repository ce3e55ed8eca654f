"""Findings of ``verify``: stable codes, one line each, and the record that carries one.

The meaning of a code never changes. Severity: ``error`` = data is damaged or lost, or Derby would not open the
database; ``warning`` = a copy or a precaution is gone; ``note`` = worth knowing, but normal after a crash.
"""

from __future__ import annotations

from typing import NamedTuple

ERROR = "error"
WARNING = "warning"
NOTE = "note"


class DerbyFinding(NamedTuple):
    """One thing found.

    Attributes:
        code: stable code such as ``DRB-LOG-002``.
        severity: ``error``, ``warning`` or ``note``.
        file: path below the database directory, or None.
        instant: log instant as a number; 0 if the finding has no instant.
        container: container number, or None.
        page: page number, or None.
        message: what is wrong.
        consequence: what it means.
        remedy: the next command or action.
    """

    code: str
    severity: str
    file: str | None
    instant: int
    container: int | None
    page: int | None
    message: str
    consequence: str
    remedy: str


class Code(NamedTuple):
    """The properties shared by all findings with the same code.

    Attributes:
        title: what is wrong, in a few words.
    """

    severity: str
    title: str
    consequence: str
    remedy: str


CODES: dict[str, Code] = {
    "DRB-CTL-001": Code(
        WARNING, "log.ctrl cannot be used", "the mirror is used instead", "recover writes both control files again"
    ),
    "DRB-CTL-002": Code(
        WARNING,
        "log.ctrl is missing and the mirror is there",
        "Derby ignores the mirror, reads the whole log and writes no checksums until it is started again",
        "copy log/logmirror.ctrl to log/log.ctrl, or run recover, before Derby is started",
    ),
    "DRB-CTL-003": Code(
        WARNING,
        "logmirror.ctrl is missing or cannot be used",
        "one copy of the control data is left",
        "recover writes both control files again",
    ),
    "DRB-CTL-004": Code(
        ERROR,
        "neither control file can be used",
        "the log is read from its first file, which must still be there",
        "run recover -n to see what would happen",
    ),
    "DRB-CTL-005": Code(
        NOTE,
        "the control files name different checkpoints",
        "the mirror is one checkpoint behind, which is safe",
        "none is needed",
    ),
    "DRB-CTL-006": Code(
        WARNING,
        "the database was run without syncing",
        "after a power failure any file may be incomplete",
        "unset derby.system.durability",
    ),
    "DRB-CTL-007": Code(
        WARNING,
        "the record that the control file names is no checkpoint",
        "the whole file that it lies in is scanned",
        "run recover to take a new checkpoint",
    ),
    "DRB-LOG-001": Code(
        NOTE,
        "the log ends in a torn write",
        "recovery drops it; no commit is in it",
        "none is needed, recover zeroes the rest of the file",
    ),
    "DRB-LOG-002": Code(
        ERROR,
        "committed transactions lie after the end of the log",
        "Derby would drop these committed transactions without a word when it is started",
        "do not start Derby; copy the database, then restore the damaged bytes or run recover --accept-loss",
    ),
    "DRB-LOG-003": Code(
        ERROR,
        "a log file that recovery needs is missing or no log file",
        "recovery is not possible; Derby may open the database with wrong contents",
        "bring the file back",
    ),
    "DRB-LOG-004": Code(
        ERROR,
        "the next log file keeps Derby from starting",
        "Derby refuses to start",
        "move the file away when it holds no records that you need",
    ),
    "DRB-LOG-005": Code(
        NOTE,
        "a log file does not continue the log",
        "Derby ignores the file and replaces it at the next log switch",
        "none is needed",
    ),
    "DRB-LOG-006": Code(
        ERROR,
        "a part of the log cannot be read",
        "the transactions in it cannot be trusted",
        "restore the file from a copy when it is still needed",
    ),
    "DRB-LOG-007": Code(
        ERROR,
        "a record belongs to no transaction",
        "it is unknown which transactions are open; Derby stops with an error",
        "restore from a backup",
    ),
    "DRB-LOG-008": Code(
        ERROR,
        "the log ends in front of its last checkpoint",
        "changes that the checkpoint counts as logged are missing",
        "restore the log from a copy, or the database from a backup",
    ),
    "DRB-LOG-009": Code(
        WARNING,
        "bytes stand after the end of the log",
        "Derby may take them for records after the next crash",
        "run recover, which zeroes them",
    ),
    "DRB-LOG-010": Code(
        ERROR,
        "the log has no end that Derby understands",
        "Derby fails to start instead of taking it for the end",
        "run recover, which zeroes the rest of the file",
    ),
    "DRB-LOG-011": Code(
        ERROR,
        "page versions in the log do not follow each other",
        "records of the page are missing from the log or in the wrong order",
        "restore from a backup",
    ),
    "DRB-PAGE-001": Code(
        ERROR,
        "a page fails its checksum or its header is wrong",
        "the page cannot be read",
        "restore from a backup and roll forward",
    ),
    "DRB-PAGE-002": Code(
        ERROR,
        "the slot table of a page is wrong",
        "rows of the page cannot be found",
        "restore from a backup and roll forward",
    ),
    "DRB-PAGE-003": Code(
        ERROR, "a row cannot be decoded", "the row cannot be read", "restore from a backup and roll forward"
    ),
    "DRB-PAGE-004": Code(
        ERROR,
        "a page is older than the log allows",
        "a log record is missing in front: recovery stops at this page",
        "restore from a backup and roll forward",
    ),
    "DRB-PAGE-005": Code(
        ERROR,
        "a page is newer than the log",
        "the log has lost records that the page already holds",
        "restore the log from a copy; recovery would leave uncommitted changes",
    ),
    "DRB-PAGE-006": Code(
        WARNING,
        "a page counts its deleted rows wrongly",
        "counts of deleted rows are wrong; space is not given back",
        "compress the table",
    ),
    "DRB-PAGE-007": Code(
        NOTE,
        "a page that the log makes again cannot be read",
        "recovery makes the page again when the log initialises it",
        "none is needed",
    ),
    "DRB-PAGE-008": Code(
        ERROR,
        "a page in use is empty or missing",
        "the rows of the page are gone",
        "restore from a backup and roll forward",
    ),
    "DRB-CONT-001": Code(
        ERROR,
        "the header of a container is wrong",
        "the table or index cannot be read",
        "restore from a backup and roll forward",
    ),
    "DRB-CONT-002": Code(
        ERROR,
        "a container is referenced and its file is missing",
        "the table or index cannot be used; without one of the catalogue's own Derby does not start",
        "bring the file back, or restore from a backup; recover refuses without it",
    ),
    "DRB-CONT-003": Code(
        NOTE,
        "a dropped container was not removed",
        "a dropped table or index was not removed; the file is ignored",
        "none is needed; it takes space only",
    ),
    "DRB-CONT-004": Code(
        NOTE,
        "the stub of a removed container is left",
        "the file is given back at a later checkpoint",
        "none is needed",
    ),
    "DRB-CONT-005": Code(
        NOTE,
        "a container belongs to no table or index",
        "Derby does not use the file, which only takes space",
        "none is needed",
    ),
    "DRB-IDX-001": Code(
        ERROR,
        "the pages of an index do not hang together",
        "a page is in the wrong place, or lost: queries by this index miss rows or find them twice",
        "restore from a backup and roll forward, or drop the index and create it again",
    ),
    "DRB-IDX-002": Code(
        ERROR,
        "an index and its table have other rows",
        "the table or the index has lost rows, and queries give wrong answers; Derby itself does not notice",
        "let Derby compare them (SYSCS_UTIL.SYSCS_CHECK_TABLE), then restore from a backup and roll forward",
    ),
    "DRB-REC-001": Code(NOTE, "a transaction is not ended", "recovery rolls it back", "none is needed"),
    "DRB-REC-002": Code(
        NOTE,
        "a transaction is prepared and not ended",
        "it keeps its locks until it is committed or rolled back",
        "ask the transaction manager",
    ),
    "DRB-REC-003": Code(
        ERROR,
        "recovery stops",
        "the database cannot be recovered to its last commit, and Derby does not start it",
        "restore from a backup and roll forward with all log files since",
    ),
    "DRB-REPAIR-001": Code(
        ERROR,
        "a repair was interrupted",
        "the files are neither as before the repair nor as it leaves them; other findings are about this state",
        "jetool undo undoes the repair, and finishes an interrupted undo; the repair, run again, starts anew",
    ),
    "DRB-DB-001": Code(
        NOTE,
        "the database is open in another process",
        "what is read may change under the check",
        "check a copy, or stop the JVM",
    ),
    "DRB-DB-002": Code(
        ERROR,
        "the service properties keep Derby from starting the database",
        "Derby does not find the database or does not start it (XJ004, XCY03, XJ040, XSAI2); "
        "when the properties are lost, whether it is encrypted is not known either",
        "bring the file back from a copy of this database; recover refuses without it",
    ),
    "DRB-DB-003": Code(
        NOTE,
        "an interrupted change of the service properties is taken back",
        "Derby restores its name when it starts",
        "none is needed",
    ),
}


def finding(
    code: str,
    message: str,
    *,
    file: str | None = None,
    at: int = 0,
    container: int | None = None,
    page: int | None = None,
    severity: str | None = None,
    consequence: str | None = None,
    remedy: str | None = None,
) -> DerbyFinding:
    """Make a finding; severity, consequence and remedy default to those of its code."""
    line = CODES[code]
    kind = severity or line.severity
    return DerbyFinding(
        code=code,
        severity=kind,
        file=file,
        instant=at,
        container=container,
        page=page,
        message=message,
        consequence=consequence or line.consequence,
        remedy=remedy or line.remedy,
    )
