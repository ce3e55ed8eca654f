"""Messages of JE and Derby that are known: what causes them, what is at risk, and what to do next.

A row names the word by which a message is recognised: an EnvironmentFailureReason, the class of an exception, or a
code of Derby. ``{env}`` in the next command stands for the environment.

=========  ==================================================================
risk       meaning
=========  ==================================================================
``none``   nothing is lost; try again, or it is for the application
``check``  nothing says that data is lost; look
``node``   this process or node stops; its data is safe
``data``   data may be lost or wrong: make a copy before anything else
=========  ==================================================================
"""

from __future__ import annotations

from typing import Final, NamedTuple

NONE: Final = "none"
CHECK: Final = "check"
NODE: Final = "node"
DATA: Final = "data"
RISKS: Final = (NONE, CHECK, NODE, DATA)


class KnownMessage(NamedTuple):
    """A message: the word that shows it, its cause, its risk of ``RISKS``, and the next command."""

    word: str
    cause: str
    risk: str
    next: str


# Commands that many rows name.
_VERIFY: Final = "jetool verify --full {env}"
_INFO: Final = "jetool info {env}"
_MISSING: Final = "jetool missing {env}"
_GROUP: Final = "jetool group show {env}"
_RETRY: Final = "retry the transaction"
_ROOM: Final = "make room; then jetool recover {env} -n"
_REDO: Final = "jetool recover {env} -n --explain"

OF_JE: Final = (
    KnownMessage("ENV_LOCKED", "another process has the environment open for writing (byte 0 of je.lck)", NONE, _INFO),
    KnownMessage(
        "ENV_NOT_FOUND",
        "the directory holds no log file, and the application must not make an environment",
        CHECK,
        _INFO,
    ),
    KnownMessage(
        "FOUND_COMMITTED_TXN",
        "a committed transaction stands after a damaged entry of the last file; JE stopped before cutting it off",
        DATA,
        "jetool recover {env} -n",
    ),
    KnownMessage(
        "HANDSHAKE_ERROR",
        "two nodes could not agree: another group, another clock, a node id that is taken, or an incompatible release",
        NODE,
        _GROUP,
    ),
    KnownMessage(
        "HARD_RECOVERY",
        "the node rolled back past a Commit to meet its master; the application has to open the environment again",
        DATA,
        "jetool rollbacks {env}",
    ),
    KnownMessage("JAVA_ERROR", "a Java Error (often OutOfMemoryError) in a thread of JE", NODE, _VERIFY),
    KnownMessage(
        "LATCH_ALREADY_HELD",
        "a latch was asked for by the thread that holds it: a defect of JE, or of a comparator that calls JE",
        NODE,
        _VERIFY,
    ),
    KnownMessage(
        "LATCH_NOT_HELD",
        "a latch was given back that was not held: a defect in JE, or a thread that was interrupted",
        NODE,
        _VERIFY,
    ),
    KnownMessage("LISTENER_EXCEPTION", "a listener of the application threw an exception", NODE, _INFO),
    KnownMessage("BTREE_CORRUPTION", "a node of a tree contradicts its parent or its entry", DATA, _VERIFY),
    KnownMessage(
        "LOG_CHECKSUM",
        "the bytes of an entry are not those that were written: the disk, the file system or the memory changed them",
        DATA,
        _VERIFY,
    ),
    KnownMessage("LOG_FILE_NOT_FOUND", "a live slot leads into a log file that is not there", DATA, _MISSING),
    KnownMessage(
        "LOG_UNEXPECTED_FILE_DELETION",
        "somebody else than JE deleted a log file while the environment was open",
        DATA,
        _MISSING,
    ),
    KnownMessage(
        "LOG_INCOMPLETE",
        "a replica lacks entries of a transaction that it has to replay",
        DATA,
        "jetool vlsn check {env}",
    ),
    KnownMessage("LOG_INTEGRITY", "entries of the log contradict each other", DATA, _VERIFY),
    KnownMessage(
        "LOG_READ",
        "the operating system reported an error while JE read the log",
        DATA,
        "check the disk; then jetool verify --full {env}",
    ),
    KnownMessage(
        "INSUFFICIENT_LOG",
        "the node is so far behind that no other node still has the log that it needs: it needs a network restore",
        NODE,
        "jetool vlsn range {env}",
    ),
    KnownMessage(
        "LOG_WRITE",
        "the operating system refused a write to the log: most often the disk is full",
        DATA,
        _ROOM,
    ),
    KnownMessage(
        "MASTER_TO_REPLICA_TRANSITION",
        "the node was master and became a replica; the application has to open the environment again",
        NONE,
        _GROUP,
    ),
    KnownMessage("MONITOR_REGISTRATION", "the JMX monitor could not be registered", NONE, _INFO),
    KnownMessage("PROGRESS_LISTENER_HALT", "a ProgressListener of the application asked JE to stop", NONE, _INFO),
    KnownMessage("PROTOCOL_VERSION_MISMATCH", "two nodes run releases of JE without a protocol in common", NODE, _INFO),
    KnownMessage(
        "ROLLBACK_PROHIBITED",
        "to meet its master the node would have to roll back more committed transactions than "
        "je.rep.txnRollbackLimit allows",
        DATA,
        "jetool rollbacks {env} --against MASTER_ENV",
    ),
    KnownMessage("SHUTDOWN_REQUESTED", "the master asked the whole group to shut down", NONE, _GROUP),
    KnownMessage("TEST_INVALIDATE", "a test program made the environment invalid", NONE, _INFO),
    KnownMessage(
        "THREAD_INTERRUPTED",
        "a thread that worked in JE was interrupted (Thread.interrupt, Future.cancel): the environment has "
        "to be opened again",
        NODE,
        _INFO,
    ),
    KnownMessage("UNCAUGHT_EXCEPTION", "a thread of JE ended with an exception that nobody caught", NODE, _VERIFY),
    KnownMessage("UNEXPECTED_EXCEPTION_FATAL", "an exception that JE did not foresee; it cannot go on", NODE, _VERIFY),
    KnownMessage(
        "UNEXPECTED_EXCEPTION",
        "an exception that JE did not foresee; the environment goes on",
        CHECK,
        _VERIFY,
    ),
    KnownMessage("UNEXPECTED_STATE_FATAL", "a state that JE did not foresee; it cannot go on", NODE, _VERIFY),
    KnownMessage("UNEXPECTED_STATE", "a state that JE did not foresee; the environment goes on", CHECK, _VERIFY),
    KnownMessage(
        "VERSION_MISMATCH",
        "the log was written by a later release of JE than the one that runs",
        NODE,
        _INFO,
    ),
    KnownMessage("WEDGED", "a thread of JE did not stop; the process has to be started again", NODE, _INFO),
    KnownMessage("EnvironmentLockedException", "another process has the environment open for writing", NONE, _INFO),
    KnownMessage(
        "EnvironmentNotFoundException",
        "the directory holds no environment, and none is to be made",
        CHECK,
        _INFO,
    ),
    KnownMessage(
        "EnvironmentWedgedException",
        "a thread of JE did not stop; the process has to be started again",
        NODE,
        _INFO,
    ),
    KnownMessage(
        "DiskLimitException",
        "a disk limit is violated (je.maxDisk, je.freeDisk): writes are refused until the cleaner has made room",
        NODE,
        "jetool verify --space {env}",
    ),
    KnownMessage("LogWriteException", "a write to the log failed: most often the disk is full", DATA, _ROOM),
    KnownMessage("ChecksumException", "the checksum of an entry does not match its bytes", DATA, _VERIFY),
    KnownMessage("ErasedException", "an entry was erased on purpose, and something still reads it", DATA, _VERIFY),
    KnownMessage(
        "VersionMismatchException",
        "the log was written by a later release of JE than the one that runs",
        NODE,
        _INFO,
    ),
    KnownMessage("RunRecoveryException", "the environment became invalid and has to be opened again", NODE, _VERIFY),
    KnownMessage("ThreadInterruptedException", "a thread that worked in JE was interrupted", NODE, _INFO),
    KnownMessage(
        "DeadlockException",
        "two transactions waited for each other; one of them was chosen to end",
        NONE,
        "retry the transaction; jetool txns {env}",
    ),
    KnownMessage(
        "LockTimeoutException",
        "a lock was not granted within je.lock.timeout",
        NONE,
        "retry the transaction; jetool txns {env}",
    ),
    KnownMessage("TransactionTimeoutException", "a transaction took longer than je.txn.timeout", NONE, _RETRY),
    KnownMessage(
        "LockNotAvailableException",
        "a lock was asked for without waiting, and somebody holds it",
        NONE,
        _RETRY,
    ),
    KnownMessage(
        "LockNotGrantedException",
        "a lock was asked for without waiting, and somebody holds it",
        NONE,
        _RETRY,
    ),
    KnownMessage(
        "LockPreemptedException",
        "the replay of the master's stream took a lock away from a reader on a replica",
        NONE,
        _RETRY,
    ),
    KnownMessage(
        "DatabasePreemptedException",
        "the master removed, renamed or truncated a database that a replica had open",
        NONE,
        "open the database again",
    ),
    KnownMessage(
        "SecondaryIntegrityException",
        "a secondary index leads to a primary record that is not there, or the other way round",
        DATA,
        _VERIFY,
    ),
    KnownMessage("CorruptSecondariesException", "secondary indexes do not agree with their primary", DATA, _VERIFY),
    KnownMessage(
        "SequenceIntegrityException",
        "the record of a sequence does not fit its configuration",
        CHECK,
        "jetool scan {env} --db NAME",
    ),
    KnownMessage("SequenceOverflowException", "a sequence has no values left", NONE, "jetool scan {env} --db NAME"),
    KnownMessage(
        "UniqueConstraintException",
        "a key of a unique secondary index is there already",
        NONE,
        "it is for the application",
    ),
    KnownMessage("ForeignConstraintException", "a foreign key leads to no record", NONE, "it is for the application"),
    KnownMessage(
        "DeleteConstraintException",
        "a record is still referred to by a foreign key",
        NONE,
        "it is for the application",
    ),
    KnownMessage("DatabaseNotFoundException", "there is no database of that name", CHECK, "jetool dbs {env}"),
    KnownMessage("DatabaseExistsException", "there is a database of that name already", NONE, "jetool dbs {env}"),
    KnownMessage(
        "InsufficientLogException",
        "the node is so far behind that it needs a network restore from another node",
        NODE,
        "jetool vlsn range {env}",
    ),
    KnownMessage(
        "InsufficientReplicasException",
        "too few replicas are connected for the durability that was asked for; the transaction was not begun",
        NODE,
        _GROUP,
    ),
    KnownMessage(
        "InsufficientAcksException",
        "too few replicas acknowledged in time; the transaction is committed on the master and may be on some replicas",
        CHECK,
        _GROUP,
    ),
    KnownMessage(
        "ReplicaConsistencyException",
        "the replica did not reach the asked-for point of the stream in time",
        NODE,
        "jetool vlsn range {env}",
    ),
    KnownMessage(
        "ReplicaWriteException",
        "the application wrote on a replica; writes belong to the master",
        NONE,
        _GROUP,
    ),
    KnownMessage("ReplicaStateException", "the operation is for a master, and the node is a replica", NONE, _GROUP),
    KnownMessage("MasterStateException", "the operation is for a replica, and the node is the master", NONE, _GROUP),
    KnownMessage(
        "MasterReplicaTransitionException",
        "the master became a replica; the application has to open the environment again",
        NONE,
        _GROUP,
    ),
    KnownMessage(
        "MasterTransferFailureException",
        "the transfer of mastership did not come to an end; the old master goes on",
        NONE,
        _GROUP,
    ),
    KnownMessage(
        "UnknownMasterException",
        "no master is known: an election is going on, or no majority can be reached",
        NODE,
        _GROUP,
    ),
    KnownMessage(
        "RollbackException",
        "the node had commits that its master does not have, and rolled them back; the application has to "
        "open it again",
        DATA,
        "jetool rollbacks {env}",
    ),
    KnownMessage(
        "RollbackProhibitedException",
        "to meet its master the node would have to roll back more commits than je.rep.txnRollbackLimit allows",
        DATA,
        "jetool rollbacks {env} --against MASTER_ENV",
    ),
    KnownMessage(
        "LogOverwriteException",
        "a node rolled back while its log was being copied: that copy is not whole",
        DATA,
        "make the copy again",
    ),
    KnownMessage("GroupShutdownException", "the master shut down the whole group", NONE, _GROUP),
    KnownMessage("MemberNotFoundException", "no node of that name is in the group", CHECK, _GROUP),
    KnownMessage("MemberActiveException", "a node that is to be removed is still running", NONE, _GROUP),
    KnownMessage(
        "ReplicationSecurityException",
        "nodes do not trust each other: certificates or keys do not match",
        NODE,
        "check je.rep.ssl.* of both nodes",
    ),
    KnownMessage("RestartRequiredException", "the environment has to be opened again", NODE, _INFO),
)

OF_DERBY: Final = (
    KnownMessage("40001", "two transactions waited for each other; one was chosen to end", NONE, _RETRY),
    KnownMessage("40XL1", "a lock was not granted in time", NONE, "retry the transaction; jetool txns {env}"),
    KnownMessage("XJ040", "the database could not be started; the exceptions below say why", CHECK, _INFO),
    KnownMessage("XSDB6", "another instance of Derby may have booted the database", NONE, _INFO),
    KnownMessage(
        "XSDB7",
        "another instance of Derby may still be active; booting twice corrupts a database",
        DATA,
        _INFO,
    ),
    KnownMessage(
        "XSDB8",
        "another instance of Derby may still be active; booting twice corrupts a database",
        DATA,
        _INFO,
    ),
    KnownMessage("XSDB9", "the stream of a container is corrupt", DATA, _VERIFY),
    KnownMessage(
        "XSDB4",
        "a page is older than the log says: log records of it are missing, or it was not written",
        DATA,
        _VERIFY,
    ),
    KnownMessage("XSDB1", "a page is of no known format", DATA, _VERIFY),
    KnownMessage("XSDB2", "a container is of no known format", DATA, _VERIFY),
    KnownMessage("XSDBB", "a page is of no known format", DATA, _VERIFY),
    KnownMessage("XSDG0", "a page could not be read from disk", DATA, _VERIFY),
    KnownMessage("XSDG1", "a page could not be written: most often the disk is full", DATA, _ROOM),
    KnownMessage("XSDG2", "the checksum of a page does not match its bytes", DATA, _VERIFY),
    KnownMessage("XSDG3", "metadata of a container could not be read or written", DATA, _VERIFY),
    KnownMessage("XSDG9", "a thread was interrupted while it read or wrote", NODE, _INFO),
    KnownMessage(
        "XSDFD",
        "the same page was read twice with different bytes: the disk is not to be trusted",
        DATA,
        _VERIFY,
    ),
    KnownMessage("XSDFH", "the backup could not be written", NONE, "make room for the backup"),
    KnownMessage("XSDFI", "recovery could not write: the disk may be full", DATA, _ROOM),
    KnownMessage("XSLA0", "the log could not be flushed to disk", DATA, "check the disk; then jetool recover {env} -n"),
    KnownMessage("XSLA1", "a log record was written, but could not be applied", DATA, _VERIFY),
    KnownMessage(
        "XSLA2",
        "an I/O error on the log; the system shuts down",
        DATA,
        "check the disk; then jetool recover {env} -n",
    ),
    KnownMessage("XSLA3", "the log holds bytes that are no log records", DATA, _VERIFY),
    KnownMessage("XSLA4", "the log could not be written: most often its disk is full", DATA, _ROOM),
    KnownMessage("XSLA5", "the log could not be read to roll a transaction back", DATA, _VERIFY),
    KnownMessage("XSLA6", "recovery did not come to its end", DATA, _REDO),
    KnownMessage("XSLA7", "a log record could not be redone", DATA, _REDO),
    KnownMessage("XSLA8", "a transaction could not be rolled back", DATA, _REDO),
    KnownMessage("XSLAA", "an earlier exception marked the store for shutdown: look for the first one", CHECK, _INFO),
    KnownMessage("XSLAB", "a log file is not where logDevice says", DATA, _INFO),
    KnownMessage("XSLAC", "the database was made or upgraded by a later release", NODE, _INFO),
    KnownMessage("XSLAD", "a log record has another length than it says", DATA, _VERIFY),
    KnownMessage(
        "XSLAE",
        "the control file of the log cannot be written",
        DATA,
        "check permissions and room; jetool info {env}",
    ),
    KnownMessage("XSLAJ", "an earlier problem stopped the log: look for the first one", CHECK, _INFO),
    KnownMessage("XSLAK", "the database has used up all log file numbers", NODE, _INFO),
    KnownMessage("XSLAN", "the database was made or upgraded by another release", NODE, _INFO),
    KnownMessage("XSLAO", "recovery failed", DATA, _REDO),
    KnownMessage("XSLAQ", "a log file cannot be made in its directory", DATA, "check permissions and room"),
    KnownMessage("XSCB5", "an index lacks a row that has to be taken back", DATA, _VERIFY),
    KnownMessage("XBM0Q", "a file of the backup is not there", DATA, "check that it is the right backup"),
)

BY_WORD: Final = {known.word: known for known in (*OF_JE, *OF_DERBY)}
