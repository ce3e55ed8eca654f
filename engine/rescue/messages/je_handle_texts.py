"""JE's texts inside of a reason or an IllegalStateException: handles, cursors, commits of the application."""

from __future__ import annotations

from typing import Final

from engine.rescue.messages.record import (
    APPLICATION,
    CHECK,
    GOES_ON,
    INFO,
    INVALID,
    NODE,
    NONE,
    RETRY,
    VERIFY,
    KnownMessage,
)

HANDLE_TEXTS: Final = (
    KnownMessage(
        word="open handles left",
        cause="the application closed the environment with locks, transactions or cursors open",
        risk=NONE,
        next=APPLICATION,
        environment=INVALID,
        signs=(
            "left behind",
            "environment close",
        ),
    ),
    KnownMessage(
        word="environment closed twice",
        cause="the application uses an environment that is closed: look for what closed it first",
        risk=NONE,
        next=INFO,
        environment=INVALID,
        signs=("Environment is closed",),
        refines=("IllegalStateException of JE",),
    ),
    KnownMessage(
        word="database handle closed",
        cause="the application uses a database handle that is closed: look for what closed it first",
        risk=NONE,
        next=APPLICATION,
        environment=GOES_ON,
        signs=("Database was closed",),
    ),
    KnownMessage(
        word="database closed while referenced",
        cause="the application closed a database while secondaries or sequences use it",
        risk=NONE,
        next=APPLICATION,
        environment=GOES_ON,
        signs=(
            "Database closed",
            "still referenced",
        ),
    ),
    KnownMessage(
        word="open cursors at commit",
        cause="the application ended a transaction with cursors open; the transaction is not committed",
        risk=NONE,
        next=APPLICATION,
        environment=GOES_ON,
        signs=(
            "failed because",
            "open cursors",
        ),
    ),
    KnownMessage(
        word="transaction closed",
        cause="the application uses a transaction that has ended",
        risk=NONE,
        next=APPLICATION,
        environment=GOES_ON,
        signs=(
            "Transaction",
            "has been closed",
        ),
        refines=("IllegalStateException of JE",),
    ),
    KnownMessage(
        word="cursor closed",
        cause="the application uses a cursor that is closed",
        risk=NONE,
        next=APPLICATION,
        environment=GOES_ON,
        signs=("Cursor has been closed",),
    ),
    KnownMessage(
        word="cursor not initialized",
        cause="the application reads at a cursor that was not positioned",
        risk=NONE,
        next=APPLICATION,
        environment=GOES_ON,
        signs=("Cursor not initialized",),
    ),
    KnownMessage(
        word="open database handles",
        cause="a database is to be removed, renamed or truncated while it is open",
        risk=NONE,
        next=APPLICATION,
        environment=GOES_ON,
        signs=("open Database handles exist",),
    ),
    KnownMessage(
        word="two threads on a cursor",
        cause="the application uses a cursor in two threads",
        risk=NONE,
        next=APPLICATION,
        environment=GOES_ON,
        signs=(
            "Non-transactional Cursors",
            "in multiple",
        ),
    ),
    KnownMessage(
        word="expiration overflow",
        cause="an expiration time is out of range: the system clock may be wrong",
        risk=NODE,
        next="check the clock; jetool info {env}",
        environment=INVALID,
        signs=(
            "results in",
            "expiration time",
        ),
    ),
    KnownMessage(
        word="clock in seconds",
        cause="a time is out of range: the system clock may be wrong",
        risk=NODE,
        next="check the clock; jetool info {env}",
        environment=INVALID,
        signs=(
            "System time",
            "set incorrectly",
        ),
    ),
    KnownMessage(
        word="commit cleanup failed",
        cause="the Commit is in the log, but a step after it failed: the transaction is committed",
        risk=CHECK,
        next=VERIFY,
        environment=INVALID,
        signs=("Failed after commiting transaction",),
    ),
    KnownMessage(
        word="commit failed",
        cause="the transaction was taken back instead of committed",
        risk=NONE,
        next=RETRY,
        signs=(
            "Failed while",
            "commit transaction",
        ),
    ),
)
