"""JE's texts inside of a reason: files, disks, memory.

A row with ``refines`` counts only if the deciding message has one of the words named there.
"""

from __future__ import annotations

from typing import Final

from engine.rescue.messages.record import (
    DATA,
    GOES_ON,
    GROUP,
    INFO,
    INVALID,
    MISSING,
    NODE,
    NONE,
    NOT_OPEN,
    ROOM,
    VERIFY,
    KnownMessage,
)

TEXTS: Final = (
    KnownMessage(
        word="no space left",
        cause="the file system is full: the write was refused, and what had been committed is in the log",
        risk=NODE,
        next=ROOM,
        environment=INVALID,
        signs=("No space left on device",),
        refines=(
            "LOG_WRITE",
            "LogWriteException",
            "RunRecoveryException",
            "DatabaseException",
            "EnvironmentFailureException",
        ),
    ),
    KnownMessage(
        word="quota exceeded",
        cause="the quota of the file system is used up: the write was refused, and what had been committed is in "
        "the log",
        risk=NODE,
        next=ROOM,
        environment=INVALID,
        signs=("Disk quota exceeded",),
        refines=(
            "LOG_WRITE",
            "LogWriteException",
            "RunRecoveryException",
            "DatabaseException",
            "EnvironmentFailureException",
        ),
    ),
    KnownMessage(
        word="read-only file system",
        cause="the file system was mounted read-only, often after an error of the disk",
        risk=DATA,
        next="check the disk; then jetool verify --full {env}",
        environment=INVALID,
        signs=("Read-only file system",),
        refines=(
            "LOG_WRITE",
            "LogWriteException",
            "LOG_READ",
        ),
    ),
    KnownMessage(
        word="too many open files",
        cause="the process may not open more files (ulimit -n): the log itself is good",
        risk=NODE,
        next="raise the limit of open files; then jetool info {env}",
        environment=INVALID,
        signs=("Too many open files",),
        refines=(
            "LOG_READ",
            "LOG_WRITE",
            "LOG_FILE_NOT_FOUND",
            "LogWriteException",
        ),
    ),
    KnownMessage(
        word="permission denied",
        cause="the process may not read or write the files (owner, mode, SELinux): the log itself is good",
        risk=NODE,
        next="correct the owner of the files; then jetool info {env}",
        signs=("Permission denied",),
        refines=(
            "LOG_READ",
            "LOG_WRITE",
            "LOG_FILE_NOT_FOUND",
            "LogWriteException",
            "EnvironmentLockedException",
            "ENV_LOCKED",
            "UNEXPECTED_EXCEPTION",
            "UNEXPECTED_EXCEPTION_FATAL",
        ),
    ),
    KnownMessage(
        word="channel closed by interrupt",
        cause="a thread was interrupted while it read or wrote the log (Thread.interrupt, Future.cancel): the "
        "environment has to be opened again",
        risk=NODE,
        next=INFO,
        environment=INVALID,
        signs=("ClosedByInterruptException",),
        refines=(
            "LOG_READ",
            "LOG_WRITE",
            "LogWriteException",
            "UNEXPECTED_EXCEPTION_FATAL",
            "UNCAUGHT_EXCEPTION",
        ),
    ),
    KnownMessage(
        word="fsync failed",
        cause="the operating system could not write the log to disk: commits since the last fsync may be lost",
        risk=DATA,
        next="check the disk; then jetool verify --full {env}",
        environment=INVALID,
        signs=("IOException during fsync",),
        refines=(
            "LOG_WRITE",
            "LogWriteException",
        ),
    ),
    KnownMessage(
        word="out of memory",
        cause="the JVM ran out of memory; the log itself is good",
        risk=NODE,
        next="give the JVM more memory or JE less (je.maxMemory); then jetool info {env}",
        environment=INVALID,
        signs=("OutOfMemoryError",),
        refines=(
            "JAVA_ERROR",
            "UNCAUGHT_EXCEPTION",
            "UNEXPECTED_EXCEPTION_FATAL",
            "LISTENER_EXCEPTION",
        ),
    ),
    KnownMessage(
        word="class missing in JE",
        cause="a class is missing in the classpath of the application; the log itself is good",
        risk=NODE,
        next="correct the classpath; then jetool info {env}",
        environment=INVALID,
        signs=("NoClassDefFoundError",),
        refines=(
            "JAVA_ERROR",
            "UNCAUGHT_EXCEPTION",
            "UNEXPECTED_EXCEPTION_FATAL",
        ),
    ),
    KnownMessage(
        word="stack overflow",
        cause="the stack of a thread of JE was too small, or a comparator calls itself; the log itself is good",
        risk=NODE,
        next="raise -Xss; then jetool info {env}",
        environment=INVALID,
        signs=("StackOverflowError",),
        refines=(
            "JAVA_ERROR",
            "UNCAUGHT_EXCEPTION",
            "UNEXPECTED_EXCEPTION_FATAL",
        ),
    ),
    KnownMessage(
        word="write in state UNKNOWN",
        cause="the application wrote while the node did not know its role yet, as at the first start: no master "
        "has been elected so far",
        risk=NONE,
        next="wait for the election; then jetool group show HOST:PORT",
        environment=GOES_ON,
        signs=("state is:UNKNOWN",),
        refines=(
            "ReplicaWriteException",
            "UnknownMasterException",
            "StateChangeException",
        ),
    ),
    KnownMessage(
        word="write in state DETACHED",
        cause="the application wrote while the node was detached from its group: the node was closed or not yet joined",
        risk=NONE,
        next=GROUP,
        environment=GOES_ON,
        signs=("state is:DETACHED",),
        refines=(
            "ReplicaWriteException",
            "UnknownMasterException",
            "StateChangeException",
        ),
    ),
    KnownMessage(
        word="entry erased",
        cause="an entry that the trees need was erased: erasure and trees contradict each other",
        risk=DATA,
        next=VERIFY,
        environment=INVALID,
        signs=("is erased unexpectedly",),
        refines=("LOG_CHECKSUM",),
    ),
    KnownMessage(
        word="zeros in the log",
        cause="bytes of the log are zeros: a write did not reach the disk before the machine stopped, or the disk "
        "lost it",
        risk=DATA,
        next=VERIFY,
        signs=("result of 0's in log file",),
        refines=(
            "LOG_CHECKSUM",
            "ChecksumException",
        ),
    ),
    KnownMessage(
        word="no root in the log",
        cause="the log has no root of the mapping tree: the first files are missing, or the environment was never "
        "made to its end",
        risk=DATA,
        next=MISSING,
        environment=NOT_OPEN,
        signs=("log file has no root",),
    ),
    KnownMessage(
        word="recovery stopped",
        cause="recovery stopped at this LSN: an entry there cannot be read or applied",
        risk=DATA,
        next="jetool recover {env} -n",
        environment=NOT_OPEN,
        wrapper=True,
        signs=("last LSN=",),
        refines=("LOG_INTEGRITY",),
    ),
    KnownMessage(
        word="recovery stopped at a node",
        cause="recovery stopped at this LSN: a node there cannot be read or applied",
        risk=DATA,
        next="jetool recover {env} -n",
        environment=NOT_OPEN,
        wrapper=True,
        signs=("lsnFromLog=",),
        refines=("LOG_INTEGRITY",),
    ),
    KnownMessage(
        word="disk limits",
        cause="je.maxDisk or je.freeDisk is violated: JE refuses writes until the cleaner has made room; reads go on",
        risk=NODE,
        next="jetool space {env}",
        environment=GOES_ON,
        signs=(
            "Disk usage",
            "or je.freeDisk",
        ),
    ),
)
