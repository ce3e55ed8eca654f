"""``explain`` by kinds of text: locales, wraps, prefixes, several reasons in a row, frames, languages, frontends."""

from __future__ import annotations

import pytest

from engine.rescue.explanation import ExplainedMessage, explain
from engine.rescue.messages.record import CHECK, DATA, GOES_ON, INVALID, NODE, NONE, NOT_OPEN

EFE = "com.sleepycat.je.EnvironmentFailureException: (JE 18.3.20) "
INVALID_END = " Environment is invalid and must be closed."


def only(text: str) -> ExplainedMessage:
    (found,) = explain(text.splitlines())
    return found


def verdict(text: str) -> tuple[str, str | None, str | None]:
    found = only(text)
    return found.word, None if found.known is None else found.known.risk, found.environment


@pytest.mark.parametrize(
    "spelled",
    ["129934919", "129,934,919", "129.934.919", "129\u00a0934\u00a0919", "129\u202f934\u202f919", "129'934'919",
     "129\u2019934\u2019919", "12,99,34,919", "129 934 919"],
)  # fmt: skip
def test_numbers_of_any_locale(spelled: str) -> None:
    found = only(f"{EFE}LOG_INCOMPLETE: lastVLSN={spelled}, txn=-{spelled} at lsn 0x5/0x80e")
    assert list(found.vlsns) == [129934919]
    assert list(found.txns) == [-129934919]


@pytest.mark.parametrize(
    "text",
    ["txn=-17", "Txn -17", "transaction -17 failed", "txnId=-17", "Transaction <id=-17>", "txn id: -17", "txn=\u221217",
     "Locker: 29 -17_ReplayThread_ReplayTxn: waited for lock"],
)  # fmt: skip
def test_negative_transactions(text: str) -> None:
    assert list(only(f"{EFE}LOG_INTEGRITY: x {text}").txns) == [-17]


def test_numbers_that_are_none() -> None:
    found = only(f"{EFE}LOG_INTEGRITY: vlsn={'9' * 30} txn={'9' * 30} VLSN range of 3 nodes")
    assert (list(found.vlsns), list(found.txns)) == ([], [])


FEEDER = (
    f"{EFE}/fe/bdb want to read 129,934,919 but reader at 129,934,920 "
    "UNEXPECTED_STATE: Unexpected internal state, may have side effects."
)


def test_the_outermost_reason_decides_whether_the_environment_goes_on() -> None:
    assert verdict(f"{FEEDER} UNCAUGHT_EXCEPTION: x{INVALID_END}") == ("feeder passed its VLSN", NODE, INVALID)
    found = only(f"{EFE}UNCAUGHT_EXCEPTION: x\n\tat com.sleepycat.je.X.y(Z.java:1)\nCaused by: {FEEDER}\n\t... 4 more")
    assert (found.word, found.environment) == ("feeder passed its VLSN", INVALID)
    assert list(found.vlsns) == [129934919, 129934920]
    assert "UNCAUGHT_EXCEPTION" in found.others


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        # JE writes what it wraps in front of its own reason.
        ([f"{EFE}x UNEXPECTED_STATE: a. BTREE_CORRUPTION: b."], ("BTREE_CORRUPTION", DATA, INVALID)),
        ([f"{EFE}x LOG_READ: a. UNEXPECTED_EXCEPTION_FATAL: b."], ("LOG_READ", DATA, INVALID)),
        ([f"{EFE}x UNEXPECTED_STATE: a."], ("UNEXPECTED_STATE", CHECK, GOES_ON)),
        ([f"{EFE}x UNEXPECTED_STATE: a.{INVALID_END}"], ("UNEXPECTED_STATE", CHECK, INVALID)),
        ([f"{EFE}LOG_CHECKSUM: a.", f"{EFE}LOG_READ: b."], ("LOG_CHECKSUM", DATA, INVALID)),
        ([f"{EFE}UNCAUGHT_EXCEPTION: a.", f"{EFE}LOG_READ: b."], ("LOG_READ", DATA, INVALID)),
        (["java.lang.RuntimeException: x", f"{EFE}LOG_FILE_NOT_FOUND: b."], ("LOG_FILE_NOT_FOUND", DATA, INVALID)),
        # Recovery reports any exception as LOG_INTEGRITY; the log may be good.
        ([f"{EFE}/d last LSN=0x0/0x1cfaa LOG_INTEGRITY: a.", f"{EFE}java.lang.ClassNotFoundException: fx.Order "
          "UNEXPECTED_EXCEPTION: b."], ("class not found", NODE, NOT_OPEN)),
        ([f"{EFE}/d last LSN=0x3/0x1d9e LOG_INTEGRITY: a.", "java.nio.BufferUnderflowException"],
         ("recovery stopped", DATA, NOT_OPEN)),
        ([f"{EFE}LOG_INTEGRITY: a."], ("LOG_INTEGRITY", DATA, GOES_ON)),
        ([f"{EFE}LOG_WRITE: a.", "java.io.IOException: No space left on device"], ("no space left", NODE, INVALID)),
        ([f"{EFE}LOG_WRITE: a.", "java.io.IOException: Input/output error"], ("LOG_WRITE", DATA, INVALID)),
        ([f"{EFE}LOG_READ: a.", "java.nio.channels.ClosedByInterruptException"],
         ("channel closed by interrupt", NODE, INVALID)),
        ([f"{EFE}JAVA_ERROR: a.", "java.lang.OutOfMemoryError: Java heap space"], ("out of memory", NODE, INVALID)),
    ],
)  # fmt: skip
def test_several_reasons(texts: list[str], expected: tuple[str, str, str]) -> None:
    frame = "\n\tat com.sleepycat.je.dbi.X.y(Z.java:1)\n"
    assert verdict(f"{frame}Caused by: ".join(texts) + frame) == expected
    assert verdict(f"{frame}Wrapped by: ".join(reversed(texts)) + frame) == expected
    # Logs of one line a record, and JSON.
    assert verdict(" \\n\\tat com.sleepycat.je.dbi.X.y(Z.java:1)\\nCaused by: ".join(texts)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{EFE}Clock delta: 9,021 ms. between Feeder: a and this Replica exceeds max permissible delta: 5,000 ms. "
         f"HANDSHAKE_ERROR: x{INVALID_END}", ("clock delta", NODE, INVALID)),
        (f"{EFE}Ids:1 were equal. But names:a, b weren't! UNEXPECTED_STATE: x UNCAUGHT_EXCEPTION: y{INVALID_END}",
         ("node id clash", NODE, INVALID)),
        (f"{EFE}recoveryTracker should overlap or follow on disk last VLSN of 17 recoveryFirst= 19 "
         "UNEXPECTED_STATE_FATAL: x", ("recovery tracker overlap", NODE, NOT_OPEN)),
        ("com.sleepycat.je.rep.ReplicaWriteException: (JE 18.3.20) Problem closing transaction 1. The current "
         "state is:UNKNOWN. The node transitioned to this state at:Wed", ("write in state UNKNOWN", NONE, GOES_ON)),
        ("com.sleepycat.je.rep.ReplicaWriteException: (JE 18.3.20) x current state is:REPLICA.",
         ("ReplicaWriteException", NONE, GOES_ON)),
        ("com.sleepycat.je.DatabaseNotFoundException: (JE 18.3.20) _jeRepGroupDB",
         ("group database missing", NODE, NOT_OPEN)),
        (f"{EFE}JE 4.1 duplicate DB entries were found in the recovery interval. Before upgrading to JE 5.0, "
         "UNEXPECTED_STATE: x", ("duplicates of JE 4 or earlier", NODE, NOT_OPEN)),
        (f"{EFE}Exception while trying to load Btree Comparator class. UNEXPECTED_EXCEPTION: x",
         ("comparator not loaded", NODE, GOES_ON)),
        ("com.sleepycat.je.DatabaseException: (JE 3.2.23) fetchTarget of 0x5d628/0x231884 parent IN=2 "
         "com.sleepycat.je.log.LogFileNotFoundException: (JE 3.2.23) x", ("LogFileNotFoundException", DATA, None)),
        (f"{EFE}Latch timeout. lock held by thread UNEXPECTED_STATE_FATAL: x{INVALID_END}",
         ("latch timeout", NODE, INVALID)),
        ("java.lang.NullPointerException\n\tat com.sleepycat.je.rep.InsufficientLogException.init(I.java:9)",
         ("restore initialization", NODE, INVALID)),
        ("java.lang.IllegalStateException: Database was closed.\n\tat com.sleepycat.je.Database.checkOpen(D.java:1)",
         ("database handle closed", NONE, GOES_ON)),
        ("java.lang.IllegalStateException\n\tat com.sleepycat.je.Cursor.x(C.java:1)",
         ("IllegalStateException of JE", CHECK, None)),
        ("java.lang.NullPointerException\n\tat com.sleepycat.je.tree.IN.x(I.java:1)",
         ("exception of Java in JE", CHECK, None)),
        ("java.lang.NullPointerException\n\tat org.apache.derby.impl.store.X.x(I.java:1)",
         ("exception of Java in Derby", CHECK, None)),
        ("\tat com.sleepycat.je.log.X.y(Z.java:1)\n\tat org.example.Main.main(M.java:1)", ("stack trace", CHECK, None)),
        (f'{EFE}/d <RestoreRequired failureType="NETWORK_RESTORE" time="2026-11-20 10:43:46.715" properties="#Fri\n'
         f'requestedBy=node2\n"/> UNEXPECTED_STATE_FATAL: x{INVALID_END}', ("restore marker entry", NODE, NOT_OPEN)),
        (f"{EFE}Clock delta: 1 ms. exceeds max permissible delta: 1 ms. TIME_OUT_OF_SYNC: x", ("clock delta", NODE,
                                                                                               INVALID)),
        # These open nothing, and are no exceptions of JE's own.
        ("java.lang.UnsupportedOperationException: This environment was previously opened for replication. x",
         ("replicated environment opened alone", NONE, NOT_OPEN)),
        ("java.lang.UnsupportedOperationException: This environment was previously opened as a standalone x",
         ("environment never replicated", NONE, NOT_OPEN)),
        ("java.lang.UnsupportedOperationException: It must be converted for replication. using x",
         ("environment not converted", NONE, NOT_OPEN)),
        ("java.lang.UnsupportedOperationException: An Arbiter is currently using this directory x",
         ("directory of an arbiter", NONE, NOT_OPEN)),
        ("com.sleepycat.je.DatabaseException: (JE 3.3.75) Environment must be closed, caused by: "
         "com.sleepycat.je.RunRecoveryException: (JE 3.3.75) java.io.IOException: No space left on device",
         ("no space left", NODE, INVALID)),
        (f"{EFE}UNCAUGHT_EXCEPTION: x{INVALID_END} java.lang.StackOverflowError", ("stack overflow", NODE, INVALID)),
    ],
)  # fmt: skip
def test_texts_of_je(text: str, expected: tuple[str, str, str]) -> None:
    found = verdict(text)
    assert found == expected


LONG = (
    f"{EFE}/data/env Trying to reposition FeederReader to lsn 0x5/0x80e for vlsn:129,934,919 and it is not there "
    f"LOG_FILE_NOT_FOUND: Log file missing, log is likely invalid. UNCAUGHT_EXCEPTION: Uncaught Exception.{INVALID_END}"
)


@pytest.mark.parametrize("width", [72, 79, 80, 100, 120, 132])
def test_broken_by_a_terminal(width: int) -> None:
    found = only("\n".join(LONG[at : at + width] for at in range(0, len(LONG), width)))
    assert (found.word, found.environment) == ("feeder file missing", INVALID)
    assert list(found.lsns) == [0x5_0000_080E]
    assert list(found.vlsns) == [129934919]
    assert found.last_line == 1


@pytest.mark.parametrize("width", [76, 90])
def test_broken_between_words(width: int) -> None:
    lines = [""]
    for word in LONG.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    found = only("\n".join(lines))
    assert (found.word, found.environment, list(found.vlsns)) == ("feeder file missing", INVALID, [129934919])


@pytest.mark.parametrize(
    "prefix",
    ["", "2026-11-22 03:00:00,123 ERROR (replayer|70) [Env.run():1] ", "Nov 22 03:00:00 host java[123]: ", "fe-0  | ",
     "> ", "INFO   | jvm 1    | 2026/11/22 03:00:00 | ", "[2026-11-22T03:00:00Z] ", "E1122 03:00:00.123 7 x.cpp:1] "],
)  # fmt: skip
def test_prefixes(prefix: str) -> None:
    lines = [
        f"{EFE}x UNCAUGHT_EXCEPTION: a.",
        "\tat com.sleepycat.je.X.y(Z.java:1)",
        f"Caused by: {EFE}LOG_CHECKSUM: Checksum invalid at lsn 0x5/0x80e",
        "\tat com.sleepycat.je.X.y(Z.java:2)",
        "\t... 9 more",
    ]
    found = only("\n".join(prefix + line for line in lines))
    assert (found.word, found.count, list(found.lsns)) == ("LOG_CHECKSUM", 1, [0x5_0000_080E])


PREVIOUS = (
    "com.sleepycat.je.EnvironmentFailureException: (JE 7.3.7) Environment must be closed, caused by: "
    "com.sleepycat.je.EnvironmentFailureException: Environment invalid because of previous exception: "
    "(JE 7.3.7) n(3):/d "
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The log of a frontend: its own line, and an exception that was thrown before.
        (f"2026-11-22 03:00:00,123 ERROR (h|3) [B.g():1] bdb environment failure exception.\n{PREVIOUS}{EFE}"
         f"Ids: 1 were equal. But names: a, b weren't! UNEXPECTED_STATE: x Originally thrown by HA thread: MASTER a "
         f"UNCAUGHT_EXCEPTION: y{INVALID_END}\n\tat com.sleepycat.je.dbi.EnvironmentImpl.checkIfInvalid(E.java:1)",
         ("node id clash", NODE, INVALID)),
        # Lines that a web page has broken at different widths, within a word.
        (f"{PREVIOUS}\nhome/fe/bdb recoveryTracker should overlap or follow on disk last VLSN of 99,937,900 UNEXPEC\n"
         f"TED_STATE_FATAL: x{INVALID_END}\n        at com.sleepycat.je.recovery.RecoveryManager.recover(R.java:461)",
         ("recovery tracker overlap", NODE, NOT_OPEN)),
        # The log of an LDAP server: the exception within a value.
        (f'SEARCH RES conn=7 msgID=463 result=80 message="{PREVIOUS}fetchLN of 0x507a/0x43f08b6 parent IN=1703427 '
         f'LOG_FILE_NOT_FOUND: x{INVALID_END}" nentries=0', ("LOG_FILE_NOT_FOUND", DATA, INVALID)),
        (f"{PREVIOUS}must rollback 2 total commits transaction id=-60820067 HARD_RECOVERY: x{INVALID_END}",
         ("HARD_RECOVERY", DATA, INVALID)),
    ],
)  # fmt: skip
def test_as_operators_paste_them(text: str, expected: tuple[str, str, str]) -> None:
    assert verdict(text) == expected


def test_records_of_a_log_stay_apart() -> None:
    stamp = "2026-11-22 03:00:00,123 WARN "
    found = explain([f"{stamp}{EFE}LOG_READ: a {'x' * 80}", f"{stamp}LOG_CHECKSUM: b", f"{stamp}LOG_READ: c"])
    assert [(one.word, one.count, one.first_line, one.last_line) for one in found] == [
        ("LOG_READ", 2, 1, 3),
        ("LOG_CHECKSUM", 1, 2, 2),
    ]


@pytest.mark.parametrize(
    ("line", "word", "environment"),
    [
        ("ERROR (replayer|70) [EditLog.loadJournal():1] UNKNOWN Operation Type 412, log id: 7",
         "unknown operation type", None),
        ("INFO (main|1) [Env.waitForReady():1] wait catalog to be ready. FE type: UNKNOWN. is ready: false",
         "waiting for the catalogue", GOES_ON),
        ("INFO (main|1) [G.x():1] wait globalStateMgr to be ready. FE type: INIT. is ready: false",
         "waiting for the metadata", GOES_ON),
        ("ERROR (x|1) [E.x():1] replayer thread catch an exception when replay journal.", "replay failed", GOES_ON),
        ("ERROR (x|1) [E.x():1] catch insufficient log exception. please restart.",
         "network restore by the frontend", INVALID),
        ("WARN (x|1) [E.x():1] catch rollback log exception. will reopen the ReplicatedEnvironment.",
         "rollback log seen by the frontend", INVALID),
        ("ERROR (x|1) [E.x():1] write bdb failed. will exit. journalId: 7, bdb database Name: 1",
         "journal write failed", None),
        ("WARN (x|1) [E.x():1] meta out of date. current time: 1, synchronized time: 2", "metadata out of date",
         GOES_ON),
    ],
)  # fmt: skip
def test_lines_of_frontends(line: str, word: str, environment: str | None) -> None:
    many = [f"2026-11-22 03:00:0{i % 10},123 INFO (x|1) [E.x():1] all is well {i}" for i in range(100)]
    (found,) = explain([*many, f"2026-11-22 03:00:00,123 {line} [doris]"])
    assert (found.word, found.environment, found.first_line) == (word, environment, 101)


def test_the_line_of_a_frontend_and_its_exception() -> None:
    stamp = "2026-11-22 03:00:00,123 "
    text = (
        f"{stamp}ERROR (x|1) [E.x():1] bdb environment failure exception.\n{EFE}LOG_READ: a\n\tat com.sleepycat.X.y(Z)"
    )
    assert verdict(text) == ("LOG_READ", DATA, INVALID)
    text = (
        f"{stamp}WARN (x|1) [E.x():1] failed to load journal type 412\njava.io.IOException: UNKNOWN Operation Type 412"
    )
    assert verdict(text)[0] == "unknown operation type"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ERROR XJ040: x\nERROR XSDB6: y", ("XSDB6", NONE, NOT_OPEN)),
        ("FEHLER XJ040: x\nFEHLER XSDG2: y", ("XSDG2", DATA, NOT_OPEN)),
        ("java.sql.SQLException: x\n\tat org.apache.derby.A.b(C)\nCaused by: ERROR XSLA7: y",
         ("XSLA7", DATA, NOT_OPEN)),
        ("ERREUR 08004 : x", ("08004", NONE, None)),
        ("\u30a8\u30e9\u30fc 25502: x", ("25502", NONE, GOES_ON)),
        ("\u9519\u8bef XBM0A\uff1ax", ("XBM0A", CHECK, NOT_OPEN)),
        ("SQLState: 40001", ("40001", NONE, GOES_ON)),
        ("SQLSTATE[XSDB3]: x", ("XSDB3", DATA, INVALID)),
        ("[XSAI2] x", ("XSAI2", DATA, GOES_ON)),
        ("java.sql.SQLNonTransientConnectionException: Database 'x' not found.", ("XJ004", CHECK, NOT_OPEN)),
        ("============= begin nested exception, level (1) ===========\nERROR XSRS1: x", ("XSRS1", NONE, GOES_ON)),
    ],
)  # fmt: skip
def test_codes_of_derby(text: str, expected: tuple[str, str, str]) -> None:
    assert verdict(text) == expected


@pytest.mark.parametrize(
    "line",
    [
        "the process was previously removed by its owner", "Permission denied: /tmp/x", "No space left on device",
        "An unexpected exception was thrown", "java.lang.IllegalStateException: Cursor has been moved",
        "SQLState: 42000", "ERROR CHECK failed", "ERROR 12345: x", "model XSAAB", "DatabaseException: x",
        "StoreNotFoundException: x", "org.postgresql.util.PSQLException: x SQLState: 40P01",
        "Directory /tmp/x cannot be created", "transaction has been closed", "Page 3 of 17",
    ],
)  # fmt: skip
def test_texts_of_other_programs(line: str) -> None:
    many = [f"2026-11-22 03:00:0{i % 10},123 INFO all is well {i}" for i in range(100)]
    assert explain([*many, f"2026-11-22 03:00:00,123 ERROR {line}"]) == []
    assert explain([*many, line, "\tat org.example.Main.main(Main.java:1)"]) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("ERROR 42Y07: x", "42Y07"), ("ERROR X0Y32: x", "X0Y32"), ("org.apache.derby.X: SQLState: 42000 x", "42000"),
        ("com.sleepycat.je.NewError: x", "NewError"),
    ],
)  # fmt: skip
def test_unknown_codes(text: str, word: str) -> None:
    found = only(text)
    assert (found.word, found.known) == (word, None)


@pytest.mark.parametrize(
    "line",
    [
        "Cannot write file to directory /tmp/x", "Database connection was not found", "Unable to rename file a",
        "An exception occurred: the JVM is out of memory", "Internal server error on page /index",
        "Failed to create class loader", "Could not acquire connection from pool", "Required field has been set",
        "Page could not be read", "exception in thread: abort", "Startup took long, see log for details",
        "Cannot flush buffer to file", "Record 5 has no handle", "Unknown user at page 3", "Record 5 no longer exists",
        "Container web has been closed", "Operation failed: internal error", "Database is in read only mode",
        "Exception while trying to restore serializable session", "Stream is corrupt", "Recovery of replica failed",
        "Control plane cannot be reached", "The object could not be saved, it failed", "Container web not found",
        "File could not be read from disk", "Cannot update a deleted record", "Directory /tmp/x cannot be created",
        # Tomcat and Spring
        "Failed to start component [StandardEngine[Catalina].StandardHost[localhost].StandardContext[/shop]]",
        "The web application [shop] appears to have started a thread named [pool-1] but has failed to stop it",
        "Cannot create a session after the response has been committed",
        "Web server failed to start. Port 8080 was already in use.",
        "Application run failed: Error creating bean with name 'dataSource' defined in class path resource",
        "HikariPool-1 - Connection is not available, request timed out after 30000ms.",
        "Could not open JDBC Connection for transaction; nested exception is a timeout",
        # Kubernetes and Hadoop
        "Back-off restarting failed container web in pod web-0_default",
        "Container web failed liveness probe, will be restarted",
        "Error: failed to create containerd container: no space",
        "MountVolume.SetUp failed for volume \"data\" : mount failed: exit status 32",
        "Cannot lock storage /dfs/name. The directory is already locked",
        "Failed to place enough replicas, still in need of 1 to reach 3",
        "Name node is in safe mode. The reported blocks 0 needs additional 31 blocks",
        "Container [pid=2,containerID=container_1_01] is running beyond physical memory limits",
        # MySQL and PostgreSQL
        "Lock wait timeout exceeded; try restarting transaction",
        "Deadlock found when trying to get lock; try restarting transaction",
        "InnoDB: Database page corruption on disk or a failed file read of page [page id: space=0, page number=7]",
        "Can't create database 'shop'; database exists",
        "Table './shop/orders' is marked as crashed and should be repaired",
        "The MySQL server is running with the --read-only option so it cannot execute this statement",
        "FATAL:  database \"shop\" does not exist", "FATAL:  the database system is starting up",
        "PANIC:  could not locate a valid checkpoint record",
        "ERROR:  invalid page in block 3 of relation base/16384/2619",
        "WARNING:  page verification failed, calculated checksum 1 but expected 2",
        "ERROR:  cannot execute INSERT in a read-only transaction", "ERROR:  canceling statement due to lock timeout",
        # Kafka
        "Shutdown broker because all log dirs in /data/kafka have failed",
        "Found a corrupted index file due to requirement failed: Corrupt index found, index file (/data/0.index)",
        "Failed to acquire lock on file .lock in /data/kafka. Another process is using this directory",
        "Received invalid metadata error in produce request on partition a-0: not the leader. Going to request update",
    ],
)  # fmt: skip
def test_pasted_lines_of_other_programs(line: str) -> None:
    for text in (line, f"2026-11-22 03:00:00 ERROR [main] {line}", f"java.lang.RuntimeException: {line}"):
        assert explain([text]) == []


def test_a_text_of_je_is_none_of_derby() -> None:
    found = only(
        "com.sleepycat.je.rep.RollbackException: (JE 18.3.20) x HARD_RECOVERY: Rolled back past transaction commit or "
        f"abort. Must run recovery by re-opening Environment handles{INVALID_END}"
    )
    assert "XSTB0" not in found.others


def test_healthy_logs() -> None:
    assert (
        explain(
            [
                "2026-11-22 03:00:00.123 UTC INFO [n1] Current group size: 3",
                "2026-11-22 03:00:00.124 UTC INFO [n1] Feeder accepted connection from java.nio.channels.SocketChannel",
                "Sun Nov 22 03:00:00 UTC 2026:",
                "Booting Derby version The Apache Software Foundation - Apache Derby - 10.14.2.0: instance a816",
                "Database Class Loader started - derby.database.classpath=''",
                "2026-11-22 03:00:00,123 INFO (main|1) [Env.waitForReady():1] catalog is ready. FE type: MASTER",
            ]
        )
        == []
    )
