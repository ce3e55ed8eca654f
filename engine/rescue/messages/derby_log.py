"""Derby's codes: the log, recovery, backups."""

from __future__ import annotations

from typing import Final

from engine.rescue.messages.record import (
    APPLICATION,
    CHECK,
    DATA,
    GOES_ON,
    INFO,
    INVALID,
    NODE,
    NONE,
    NOT_OPEN,
    REDO,
    ROOM,
    VERIFY,
    KnownMessage,
)

LOG_CODES: Final = (
    KnownMessage(
        word="XSLA0",
        cause="the log could not be flushed to disk: commits since the last flush may be lost",
        risk=DATA,
        next="check the disk; then jetool recover {env} -n",
        environment=INVALID,
    ),
    KnownMessage(
        word="XSLA1",
        cause="a log record was written, but could not be applied",
        risk=DATA,
        next=VERIFY,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSLA2",
        cause="an I/O error on the log; the system shuts down",
        risk=DATA,
        next="check the disk; then jetool recover {env} -n",
        environment=INVALID,
    ),
    KnownMessage(
        word="XSLA3", cause="the log holds bytes that are no log records", risk=DATA, next=VERIFY, environment=INVALID
    ),
    KnownMessage(
        word="XSLA4",
        cause="the log could not be written, most often because its disk is full: what was committed before is in "
        "the log",
        risk=NODE,
        next=ROOM,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSLA5",
        cause="the log could not be read to roll a transaction back",
        risk=DATA,
        next=VERIFY,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSLA6", cause="recovery did not come to its end", risk=DATA, next=REDO, environment=NOT_OPEN, wrapper=True
    ),
    KnownMessage(word="XSLA7", cause="a log record could not be redone", risk=DATA, next=REDO, environment=NOT_OPEN),
    KnownMessage(
        word="XSLA8", cause="a transaction could not be rolled back", risk=DATA, next=REDO, environment=INVALID
    ),
    KnownMessage(
        word="XSLAA",
        cause="an earlier exception marked the store for shutdown: look for the first one",
        risk=CHECK,
        next=INFO,
        environment=INVALID,
        wrapper=True,
    ),
    KnownMessage(
        word="XSLAB", cause="a log file is not where logDevice says", risk=DATA, next=INFO, environment=NOT_OPEN
    ),
    KnownMessage(
        word="XSLAC",
        cause="the database was made or upgraded by a later release",
        risk=NODE,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSLAD", cause="a log record has another length than it says", risk=DATA, next=VERIFY, environment=NOT_OPEN
    ),
    KnownMessage(
        word="XSLAE",
        cause="the control file of the log cannot be written",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=INVALID,
    ),
    KnownMessage(
        word="XSLAF",
        cause="a read-only database has changes that recovery has to write: start it once where it can be written",
        risk=NODE,
        next="jetool recover {env} -n",
        environment=NOT_OPEN,
    ),
    KnownMessage(word="XSLAH", cause="a read-only database was to be changed", risk=NONE, next=INFO),
    KnownMessage(
        word="XSLAI",
        cause="the record of a checkpoint could not be written to the log",
        risk=NODE,
        next=ROOM,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSLAJ",
        cause="an earlier problem stopped the log: look for the first one",
        risk=CHECK,
        next=INFO,
        environment=INVALID,
        wrapper=True,
    ),
    KnownMessage(
        word="XSLAK", cause="the database has used up all log file numbers", risk=NODE, next=INFO, environment=INVALID
    ),
    KnownMessage(
        word="XSLAL", cause="a log record is longer than a log file may be", risk=NODE, next=INFO, environment=INVALID
    ),
    KnownMessage(
        word="XSLAM",
        cause="the format of the database could not be read",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSLAN",
        cause="the database was made or upgraded by another release",
        risk=NODE,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSLAO",
        cause="recovery failed; the exceptions after this one say why",
        risk=DATA,
        next=REDO,
        environment=NOT_OPEN,
        wrapper=True,
    ),
    KnownMessage(
        word="XSLAP",
        cause="the database was made by a beta release, which cannot be upgraded",
        risk=NODE,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSLAQ",
        cause="a log file cannot be made in its directory",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=INVALID,
    ),
    KnownMessage(
        word="XSLAR",
        cause="a log file could not be copied during a restore",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSLAS",
        cause="the directory of the log is missing in the backup",
        risk=DATA,
        next="check that it is the right backup; jetool verify {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSLAT",
        cause="the directory of logDevice holds a log already: it may belong to another database",
        risk=CHECK,
        next="check logDevice; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSLB1",
        cause="a log record could not be written out: it may be too long",
        risk=NODE,
        next=VERIFY,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSLB2", cause="a log record is too long for the buffer", risk=NODE, next=VERIFY, environment=INVALID
    ),
    KnownMessage(
        word="XSLB5", cause="the log was to be cut at an impossible place", risk=NODE, next=VERIFY, environment=INVALID
    ),
    KnownMessage(word="XSLB6", cause="a log record has no bytes", risk=NODE, next=VERIFY, environment=INVALID),
    KnownMessage(
        word="XSLB8", cause="the log was to be read after its end", risk=NODE, next=VERIFY, environment=INVALID
    ),
    KnownMessage(
        word="XSLB9",
        cause="the log was stopped: the database shuts down",
        risk=NODE,
        next=INFO,
        environment=INVALID,
        wrapper=True,
    ),
    KnownMessage(
        word="XSRS0", cause="the database is frozen already", risk=NONE, next=APPLICATION, environment=GOES_ON
    ),
    KnownMessage(
        word="XSRS1",
        cause="the place for the backup is no directory",
        risk=NONE,
        next="name a directory for the backup",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSRS4",
        cause="a file could not be renamed for a backup",
        risk=NONE,
        next="check permissions and room for the backup",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSRS5",
        cause="a file could not be copied for a backup",
        risk=NONE,
        next="check permissions and room for the backup",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSRS6",
        cause="the directory of the backup cannot be made",
        risk=NONE,
        next="check permissions and room for the backup",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSRS7",
        cause="an exception ended the backup; the exceptions after this one say why",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
        wrapper=True,
    ),
    KnownMessage(
        word="XSRS8",
        cause="logDevice can be set only when the database is made",
        risk=NONE,
        next=INFO,
        environment=GOES_ON,
    ),
    KnownMessage(word="XSRS9", cause="a record is not there any more", risk=DATA, next=VERIFY, environment=GOES_ON),
    KnownMessage(
        word="XSRSA",
        cause="a backup has to wait for operations that are not logged",
        risk=NONE,
        next="commit the transactions; take the backup again",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSRSB",
        cause="a backup cannot run in a transaction with operations that are not logged",
        risk=NONE,
        next="commit the transaction; take the backup again",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSRSC",
        cause="the place for the backup is a database",
        risk=NONE,
        next="name another directory for the backup",
        environment=GOES_ON,
    ),
)
