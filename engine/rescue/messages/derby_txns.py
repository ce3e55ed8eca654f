"""Derby's codes: transactions, connections, replication."""

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
    RETRY,
    TRANSACTIONS,
    VERIFY,
    KnownMessage,
)

TXN_CODES: Final = (
    KnownMessage(
        word="XSTB0",
        cause="an exception while a transaction was rolled back; the exceptions after this one say why",
        risk=CHECK,
        next=VERIFY,
        environment=INVALID,
        wrapper=True,
    ),
    KnownMessage(
        word="XSTB2",
        cause="a change could not be logged: the database may be read-only",
        risk=NODE,
        next=INFO,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSTB3",
        cause="a transaction cannot be rolled back, since the log is not there: look for an earlier exception",
        risk=CHECK,
        next=INFO,
        environment=INVALID,
        wrapper=True,
    ),
    KnownMessage(
        word="XSTB5",
        cause="the making of a database without logging failed",
        risk=CHECK,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSTB6",
        cause="the table of transactions was replaced while in use: a defect of Derby",
        risk=CHECK,
        next=VERIFY,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSAX0", cause="the protocol of XA was violated", risk=NONE, next=APPLICATION, environment=GOES_ON
    ),
    KnownMessage(
        word="XSAX1",
        cause="a global transaction of that id is there already",
        risk=NONE,
        next=APPLICATION,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="40001",
        cause="two transactions waited for each other; one was chosen to end",
        risk=NONE,
        next=RETRY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="40XL1", cause="a lock was not granted in time", risk=NONE, next=TRANSACTIONS, environment=GOES_ON
    ),
    KnownMessage(
        word="40XL2",
        cause="a transaction waited for a lock that it holds itself: a defect of the application, or of Derby",
        risk=NONE,
        next=TRANSACTIONS,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="40XC0",
        cause="the statement was taken back with its transaction: a deadlock or an error before it",
        risk=NONE,
        next=RETRY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="40XT0",
        cause="an internal error of the transactions of the store",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="40XT1",
        cause="an exception while a transaction committed",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
        wrapper=True,
    ),
    KnownMessage(
        word="40XT2",
        cause="an exception while a transaction was rolled back to a savepoint",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
        wrapper=True,
    ),
    KnownMessage(
        word="40XT4",
        cause="a transaction was closed while it was active, and was rolled back",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="40XT5",
        cause="an exception in a transaction that Derby made for itself",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
        wrapper=True,
    ),
    KnownMessage(word="40XT6", cause="the database is not active: it is being shut down", risk=NONE, next=INFO),
    KnownMessage(
        word="40XT7",
        cause="the operation is not allowed in an internal transaction",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="40XT8", cause="an internal transaction is still active", risk=CHECK, next=VERIFY, environment=GOES_ON
    ),
    KnownMessage(
        word="40XD0", cause="a container was closed while it was used", risk=CHECK, next=VERIFY, environment=GOES_ON
    ),
    KnownMessage(
        word="40XD1",
        cause="a container was opened read-only, and the operation writes",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="40XD2",
        cause="a container cannot be opened: it was dropped, or its file is not there",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(word="08000", cause="the connection was closed by an interrupt of its thread", risk=NONE, next=RETRY),
    KnownMessage(
        word="08001", cause="the client could not connect to the server", risk=NONE, next="check host, port and server"
    ),
    KnownMessage(
        word="08003",
        cause="the connection is closed: look for the exception before this one",
        risk=NONE,
        next=APPLICATION,
    ),
    KnownMessage(
        word="08004",
        cause="the connection was refused: user or password, a database that is not there, or missing rights",
        risk=NONE,
        next="check user and database; jetool info {env}",
    ),
    KnownMessage(
        word="08006",
        cause="the database was shut down, or the network connection broke",
        risk=NONE,
        next=INFO,
        environment=INVALID,
    ),
    KnownMessage(word="XJ015", cause="Derby was shut down, as asked", risk=NONE, next=INFO, environment=INVALID),
    KnownMessage(
        word="XJ028",
        cause="the URL of the database is not well formed",
        risk=NONE,
        next=APPLICATION,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XJ048",
        cause="the attributes of the URL contradict each other",
        risk=NONE,
        next=APPLICATION,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XJ049",
        cause="the attributes that make a database contradict each other",
        risk=NONE,
        next=APPLICATION,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XJ05B",
        cause="an attribute of the URL has an invalid value",
        risk=NONE,
        next=APPLICATION,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XJ081",
        cause="the attributes that create, restore or recover a database contradict each other, or an argument of a "
        "method is invalid",
        risk=NONE,
        next=APPLICATION,
    ),
    KnownMessage(
        word="25502",
        cause="a change on a connection or database that is read-only: the directory or files cannot be written, "
        "or the user has read access only",
        risk=NONE,
        next="check permissions and room; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="25503",
        cause="a change of the schema on a connection or database that is read-only",
        risk=NONE,
        next="check permissions and room; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="X0X62",
        cause="an index leads to a row that is not in its table: index and table disagree",
        risk=DATA,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="X0Y55",
        cause="a table and one of its indexes do not have the same number of rows",
        risk=DATA,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="X0Y84",
        cause="too many sessions use a sequence, or a scan of SYS.SYSSEQUENCES is not committed",
        risk=NONE,
        next=RETRY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XRE04",
        cause="the connection between the databases of a replication broke or could not be made",
        risk=NODE,
        next="check the network; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XRE05", cause="the logs of master and slave differ: replication has to begin anew", risk=NODE, next=INFO
    ),
    KnownMessage(
        word="XRE09",
        cause="the database is booted already, so it cannot be a slave",
        risk=NONE,
        next=INFO,
        environment=GOES_ON,
    ),
    KnownMessage(word="XRE11", cause="the database is not booted", risk=NONE, next=INFO, environment=NOT_OPEN),
    KnownMessage(
        word="XRE20",
        cause="failover is done; the database was shut down on this side",
        risk=NONE,
        next=INFO,
        environment=INVALID,
    ),
    KnownMessage(word="XRE21", cause="failover broke off; the databases are as they were", risk=CHECK, next=INFO),
    KnownMessage(
        word="XRE22", cause="replication runs already for the database", risk=NONE, next=INFO, environment=GOES_ON
    ),
    KnownMessage(
        word="XRE41",
        cause="the slave refused the operation, since its master is connected",
        risk=NONE,
        next=INFO,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XRE42", cause="the replicated database was shut down", risk=NONE, next=INFO, environment=INVALID
    ),
    KnownMessage(word="XBDA0", cause="the login took too long", risk=NONE, next=RETRY),
    KnownMessage(word="57017", cause="client and server have no code page in common", risk=NONE, next=APPLICATION),
    KnownMessage(
        word="58009",
        cause="client and server do not understand each other's messages",
        risk=NONE,
        next="check the releases of client and server",
    ),
)
