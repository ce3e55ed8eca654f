"""JE's EnvironmentFailureReasons, of 18.3 and 25.3.

JE defines for each reason whether the environment becomes invalid.
"""

from __future__ import annotations

from typing import Final

from engine.rescue.messages.record import (
    CHECK,
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

REASONS: Final = (
    KnownMessage(
        word="ENV_LOCKED",
        cause="another process has the environment open for writing (byte 0 of je.lck)",
        risk=NONE,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="ENV_NOT_FOUND",
        cause="the directory holds no log file, and the application must not make an environment",
        risk=CHECK,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="FOUND_COMMITTED_TXN",
        cause="a committed transaction stands after a damaged entry of the last file; JE stopped before cutting it off",
        risk=DATA,
        next="jetool recover {env} -n",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="HANDSHAKE_ERROR",
        cause="two nodes could not agree: another group, another clock, a node id that is taken, or an "
        "incompatible release",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
    ),
    KnownMessage(
        word="HARD_RECOVERY",
        cause="the node rolled back past a Commit to meet its master; the application has to open the environment "
        "again",
        risk=DATA,
        next="jetool rollbacks {env}",
        environment=INVALID,
    ),
    KnownMessage(
        word="JAVA_ERROR",
        cause="a Java Error (often OutOfMemoryError) in a thread of JE",
        risk=NODE,
        next=VERIFY,
        environment=INVALID,
    ),
    KnownMessage(
        word="LATCH_ALREADY_HELD",
        cause="a latch was asked for by the thread that holds it: a defect of JE, or of a comparator that calls JE",
        risk=NODE,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="LATCH_NOT_HELD",
        cause="a latch was given back that was not held: a defect in JE, or a thread that was interrupted",
        risk=NODE,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="LISTENER_EXCEPTION",
        cause="a listener of the application threw an exception",
        risk=NODE,
        next=INFO,
        environment=INVALID,
    ),
    KnownMessage(
        word="BTREE_CORRUPTION",
        cause="a node of a tree contradicts its parent or its entry",
        risk=DATA,
        next=VERIFY,
        environment=INVALID,
    ),
    KnownMessage(
        word="LOG_CHECKSUM",
        cause="the bytes of an entry are not those that were written: the disk, the file system or the memory "
        "changed them",
        risk=DATA,
        next=VERIFY,
        environment=INVALID,
    ),
    KnownMessage(
        word="LOG_FILE_NOT_FOUND",
        cause="a live slot leads into a log file that is not there",
        risk=DATA,
        next=MISSING,
        environment=INVALID,
    ),
    KnownMessage(
        word="LOG_UNEXPECTED_FILE_DELETION",
        cause="something other than JE deleted a log file while the environment was open",
        risk=DATA,
        next=MISSING,
        environment=INVALID,
    ),
    KnownMessage(
        word="LOG_INCOMPLETE",
        cause="a transaction of the log is not complete: the replica could not apply an operation, or a step after "
        "the Commit failed",
        risk=DATA,
        next="jetool vlsn check {env}",
        environment=INVALID,
    ),
    KnownMessage(
        word="LOG_INTEGRITY",
        cause="entries of the log contradict each other; JE meets the same entries again when it is started again",
        risk=DATA,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="LOG_READ",
        cause="the operating system reported an error while JE read the log",
        risk=DATA,
        next="check the disk; then jetool verify --full {env}",
        environment=INVALID,
    ),
    KnownMessage(
        word="INSUFFICIENT_LOG",
        cause="the node is so far behind that no other node still has the log that it needs: it needs a network "
        "restore",
        risk=NODE,
        next="jetool vlsn range {env}",
        environment=INVALID,
    ),
    KnownMessage(
        word="LOG_WRITE",
        cause="the operating system refused a write to the log",
        risk=DATA,
        next=ROOM,
        environment=INVALID,
    ),
    KnownMessage(
        word="MASTER_TO_REPLICA_TRANSITION",
        cause="the node was master and became a replica; the application has to open the environment again",
        risk=NONE,
        next=GROUP,
        environment=INVALID,
    ),
    KnownMessage(
        word="MONITOR_REGISTRATION",
        cause="the JMX monitor could not be registered",
        risk=NONE,
        next=INFO,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="PROGRESS_LISTENER_HALT",
        cause="a ProgressListener of the application asked JE to stop",
        risk=NONE,
        next=INFO,
        environment=INVALID,
    ),
    KnownMessage(
        word="PROTOCOL_VERSION_MISMATCH",
        cause="two nodes run releases of JE without a protocol in common",
        risk=NODE,
        next=INFO,
        environment=INVALID,
    ),
    KnownMessage(
        word="ROLLBACK_PROHIBITED",
        cause="to meet its master the node would have to roll back more committed transactions than "
        "je.rep.txnRollbackLimit allows",
        risk=DATA,
        next="jetool rollbacks {env} --against MASTER_ENV",
        environment=INVALID,
    ),
    KnownMessage(
        word="SHUTDOWN_REQUESTED",
        cause="the master asked the whole group to shut down",
        risk=NONE,
        next=GROUP,
        environment=INVALID,
    ),
    KnownMessage(
        word="TEST_INVALIDATE",
        cause="a test program made the environment invalid",
        risk=NONE,
        next=INFO,
        environment=INVALID,
    ),
    KnownMessage(
        word="THREAD_INTERRUPTED",
        cause="a thread that worked in JE was interrupted (Thread.interrupt, Future.cancel): the environment has "
        "to be opened again",
        risk=NODE,
        next=INFO,
        environment=INVALID,
    ),
    KnownMessage(
        word="TIME_OUT_OF_SYNC",
        cause="the clocks of two nodes differ by more than je.rep.maxClockDelta",
        risk=NODE,
        next="synchronize the clocks; then jetool group show HOST:PORT --clock",
        environment=INVALID,
    ),
    KnownMessage(
        word="UNCAUGHT_EXCEPTION",
        cause="a thread of JE ended with an exception that no code caught",
        risk=NODE,
        next=VERIFY,
        environment=INVALID,
        wrapper=True,
    ),
    KnownMessage(
        word="UNEXPECTED_EXCEPTION_FATAL",
        cause="an exception that JE did not foresee; it cannot go on",
        risk=NODE,
        next=VERIFY,
        environment=INVALID,
        wrapper=True,
    ),
    KnownMessage(
        word="UNEXPECTED_EXCEPTION",
        cause="an exception that JE did not foresee; the operation failed",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
        wrapper=True,
    ),
    KnownMessage(
        word="UNEXPECTED_STATE_FATAL",
        cause="a state that JE did not foresee; it cannot go on",
        risk=NODE,
        next=VERIFY,
        environment=INVALID,
        wrapper=True,
    ),
    KnownMessage(
        word="UNEXPECTED_STATE",
        cause="a state that JE did not foresee; the operation failed",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
        wrapper=True,
    ),
    KnownMessage(
        word="VERSION_MISMATCH",
        cause="the log was written by a release of JE that the running one cannot read: a later one, or for JE 25 "
        "one of long ago",
        risk=NODE,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="WEDGED",
        cause="a thread of JE did not stop; the process has to be started again",
        risk=NODE,
        next=INFO,
        environment=INVALID,
    ),
)
