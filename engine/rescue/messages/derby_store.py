"""Derby's codes for the store: conglomerates, containers, pages."""

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
    ROOM,
    VERIFY,
    KnownMessage,
)

STORE_CODES: Final = (
    KnownMessage(
        word="XSAI2",
        cause="a conglomerate (table or index) is not there: its container file is gone, or the catalogue and the "
        "files disagree",
        risk=DATA,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSAI3",
        cause="the store does not implement an operation",
        risk=NONE,
        next=APPLICATION,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSAM0",
        cause="a module could not be started; the exceptions after this one say why",
        risk=CHECK,
        next=INFO,
        environment=NOT_OPEN,
        wrapper=True,
    ),
    KnownMessage(
        word="XSAM2",
        cause="an index or conglomerate that is to be dropped is not there",
        risk=DATA,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSAM3", cause="an index or conglomerate is not there", risk=DATA, next=VERIFY, environment=GOES_ON
    ),
    KnownMessage(
        word="XSAM6", cause="a record that an index leads to is not there", risk=DATA, next=VERIFY, environment=GOES_ON
    ),
    KnownMessage(
        word="XSAS6",
        cause="a sort could not get its resources",
        risk=NODE,
        next="make room for temporary files; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSCB0",
        cause="a container of an index could not be made",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSCB1", cause="the container of an index is not there", risk=DATA, next=VERIFY, environment=GOES_ON
    ),
    KnownMessage(
        word="XSCB5",
        cause="an index lacks a row that has to be taken back",
        risk=DATA,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSCB6",
        cause="a row is too long for a page of the index",
        risk=NONE,
        next=APPLICATION,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSCB7",
        cause="a scan of an index met a state that it did not expect",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSCB8", cause="an index was closed while it was used", risk=CHECK, next=VERIFY, environment=GOES_ON
    ),
    KnownMessage(
        word="XSCH0",
        cause="a container of a table could not be made",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSCH1", cause="the container of a table is not there", risk=DATA, next=VERIFY, environment=GOES_ON
    ),
    KnownMessage(
        word="XSCH4",
        cause="a table could not be made",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSCH5", cause="a row has other columns than its table", risk=DATA, next=VERIFY, environment=GOES_ON
    ),
    KnownMessage(
        word="XSCH6", cause="a table was closed while it was used", risk=CHECK, next=VERIFY, environment=GOES_ON
    ),
    KnownMessage(
        word="XSDA1",
        cause="a slot outside of its page was asked for: an index leads to a wrong place, or a page is damaged",
        risk=DATA,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(word="XSDA2", cause="a deleted record was to be changed", risk=DATA, next=VERIFY, environment=GOES_ON),
    KnownMessage(
        word="XSDA3", cause="a record does not fit its page", risk=NONE, next=APPLICATION, environment=GOES_ON
    ),
    KnownMessage(
        word="XSDA4",
        cause="the store met an exception that it did not foresee",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
        wrapper=True,
    ),
    KnownMessage(
        word="XSDA7",
        cause="a stored object holds more bytes than were written",
        risk=DATA,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSDA8", cause="a stored object could not be read back", risk=CHECK, next=VERIFY, environment=GOES_ON
    ),
    KnownMessage(
        word="XSDA9",
        cause="the class of a stored object is not in the classpath",
        risk=NODE,
        next="correct the classpath; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSDAK", cause="a record was looked for on the wrong page", risk=DATA, next=VERIFY, environment=GOES_ON
    ),
    KnownMessage(
        word="XSDAL",
        cause="a record leads to an overflow page that belongs to another one",
        risk=DATA,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSDAO",
        cause="the store latched a page twice: a defect of Derby",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSDAP",
        cause="a row did not fit a page that had room by its own figures",
        risk=DATA,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(word="XSDB0", cause="an exception on a page in memory", risk=NODE, next=VERIFY, environment=INVALID),
    KnownMessage(word="XSDB1", cause="a page is of no known format", risk=DATA, next=VERIFY, environment=INVALID),
    KnownMessage(word="XSDB2", cause="a container is of no known format", risk=DATA, next=VERIFY, environment=INVALID),
    KnownMessage(
        word="XSDB3",
        cause="the information of a container differs from what was written first: the file of the container "
        "belongs to another container, or its first page is damaged",
        risk=DATA,
        next=VERIFY,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSDB4",
        cause="a page is older than the log says: log records of it are missing, or it was not written",
        risk=DATA,
        next=VERIFY,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSDB5",
        cause="the log changes a page after the end of its container: the container was cut, or is a copy from "
        "another time",
        risk=DATA,
        next=VERIFY,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSDB6",
        cause="another instance of Derby may have booted the database",
        risk=NONE,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSDB7",
        cause="another instance of Derby may still be active, and Derby boots all the same; booting twice corrupts "
        "a database",
        risk=DATA,
        next=VERIFY,
    ),
    KnownMessage(
        word="XSDB8",
        cause="another instance of Derby may still be active; Derby does not boot (derby.database.forceDatabaseLock)",
        risk=NONE,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSDB9", cause="the stream of a container is corrupt", risk=DATA, next=VERIFY, environment=INVALID
    ),
    KnownMessage(
        word="XSDBA",
        cause="an object of the store could not be made: memory, most often",
        risk=NODE,
        next="give the JVM more memory; jetool info {env}",
        environment=INVALID,
    ),
    KnownMessage(word="XSDBB", cause="a page is of no known format", risk=DATA, next=VERIFY, environment=INVALID),
    KnownMessage(
        word="XSDBC",
        cause="the first page of a container could not be written",
        risk=NODE,
        next=ROOM,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSDF0",
        cause="a file that the store would make is there already",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSDF1",
        cause="a file of a container could not be made",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSDF2",
        cause="a file of a container could not be made, nor removed",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSDF3",
        cause="the directory of the containers (seg0) cannot be made",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSDF4",
        cause="the file of a dropped container could not be removed",
        risk=NONE,
        next="check permissions and room; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(word="XSDF6", cause="an allocation page is not there", risk=DATA, next=VERIFY, environment=GOES_ON),
    KnownMessage(
        word="XSDF8", cause="a page that is to be used again is not there", risk=DATA, next=VERIFY, environment=GOES_ON
    ),
    KnownMessage(
        word="XSDFB",
        cause="the database is read-only, and the operation writes",
        risk=NONE,
        next=INFO,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSDFD",
        cause="the same page was read twice with different bytes: the disk is not to be trusted",
        risk=DATA,
        next=VERIFY,
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSDFF",
        cause="an operation on a file failed; the exceptions after this one say why",
        risk=CHECK,
        next=VERIFY,
        environment=GOES_ON,
        wrapper=True,
    ),
    KnownMessage(
        word="XSDFH",
        cause="the backup could not be written",
        risk=NONE,
        next="make room for the backup",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSDFI",
        cause="recovery could not write: the disk may be full; the log is not changed",
        risk=NODE,
        next=ROOM,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSDFJ",
        cause="a file could not be removed while the database was encrypted or decrypted",
        risk=CHECK,
        next="check permissions and room; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(
        word="XSDFK",
        cause="a jar file in the database could not be removed",
        risk=NONE,
        next="check permissions and room; jetool info {env}",
        environment=GOES_ON,
    ),
    KnownMessage(word="XSDG0", cause="a page could not be read from disk", risk=DATA, next=VERIFY, environment=INVALID),
    KnownMessage(
        word="XSDG1",
        cause="a page could not be written, most often because the disk is full: the log has its changes",
        risk=NODE,
        next=ROOM,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSDG2",
        cause="the checksum of a page does not match its bytes",
        risk=DATA,
        next=VERIFY,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSDG3",
        cause="metadata of a container could not be read or written",
        risk=DATA,
        next=VERIFY,
        environment=INVALID,
    ),
    KnownMessage(
        word="XSDG4", cause="the metadata of a table or index is not right", risk=DATA, next=VERIFY, environment=INVALID
    ),
    KnownMessage(
        word="XSDG5", cause="the database was to be made, but is there", risk=CHECK, next=INFO, environment=NOT_OPEN
    ),
    KnownMessage(
        word="XSDG6",
        cause="seg0 is missing in the backup",
        risk=DATA,
        next="check that it is the right backup; jetool verify {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSDG7",
        cause="a directory could not be removed during a restore",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSDG8",
        cause="a directory could not be copied during a restore",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XSDG9",
        cause="a thread was interrupted while it read or wrote (Thread.interrupt, Future.cancel)",
        risk=NODE,
        next=INFO,
        environment=INVALID,
    ),
)
