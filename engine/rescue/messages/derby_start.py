"""Derby's codes for starting: services, properties, modules; and its exception for a shutdown."""

from __future__ import annotations

from typing import Final

from engine.rescue.messages.record import (
    APPLICATION,
    CHECK,
    DATA,
    INFO,
    INVALID,
    NODE,
    NONE,
    NOT_OPEN,
    VERIFY,
    KnownMessage,
)

START_CODES: Final = (
    KnownMessage(
        word="XJ040",
        cause="the database could not be started; the exceptions after this one say why",
        risk=CHECK,
        next=INFO,
        environment=NOT_OPEN,
        wrapper=True,
    ),
    KnownMessage(
        word="XJ041",
        cause="the database could not be created; the exceptions after this one say why",
        risk=CHECK,
        next=INFO,
        environment=NOT_OPEN,
        wrapper=True,
    ),
    KnownMessage(
        word="XJ004",
        cause="there is no database in the directory: its service.properties is missing, or the path is wrong",
        risk=CHECK,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XJ001",
        cause="a Java exception inside Derby; the exceptions after this one say why",
        risk=CHECK,
        next=VERIFY,
        wrapper=True,
    ),
    KnownMessage(
        word="XBM01",
        cause="the start failed; the exceptions after this one say why",
        risk=CHECK,
        next=INFO,
        environment=NOT_OPEN,
        wrapper=True,
    ),
    KnownMessage(
        word="XBM02",
        cause="a part of Derby is missing in the classpath",
        risk=NODE,
        next="correct the classpath; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM05",
        cause="the version information of Derby is missing in its jar",
        risk=NODE,
        next="correct the classpath; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM06",
        cause="the database is encrypted, and the boot password or key is wrong or missing",
        risk=NODE,
        next="start with the right bootPassword; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM07",
        cause="the boot password has less than 8 bytes",
        risk=NONE,
        next="start with the right bootPassword; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM08",
        cause="the class of the storage (subSubProtocol) cannot be loaded",
        risk=NODE,
        next="correct the classpath; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0A",
        cause="the directory is there, but its service.properties is not: Derby was stopped as it made the "
        "database, or the file was deleted; do not delete the directory before looking, it may hold all data",
        risk=CHECK,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0B",
        cause="service.properties could not be written",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0C",
        cause="the security manager of Java does not allow an operation on a file",
        risk=NODE,
        next="correct the policy file; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0G",
        cause="the provider of encryption cannot be started",
        risk=NODE,
        next="correct the classpath; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0H",
        cause="a directory of the database cannot be made",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0I",
        cause="a directory of the database cannot be removed",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0J",
        cause="a directory that Derby would make is there already",
        risk=NONE,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0K",
        cause="the sub-protocol of the database's name is unknown",
        risk=NONE,
        next=APPLICATION,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0L",
        cause="the authentication class does not implement its interface",
        risk=NONE,
        next=APPLICATION,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0M", cause="the authentication class cannot be made", risk=NONE, next=APPLICATION, environment=NOT_OPEN
    ),
    KnownMessage(
        word="XBM0N", cause="the JDBC driver could not be registered", risk=NONE, next=APPLICATION, environment=NOT_OPEN
    ),
    KnownMessage(
        word="XBM0P",
        cause="the storage is read-only, and the operation writes",
        risk=NONE,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0Q",
        cause="a file of the backup is not there",
        risk=DATA,
        next="check that it is the right backup; jetool verify {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0R",
        cause="a file of the database cannot be removed",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0S",
        cause="a file of the database cannot be renamed, most often service.properties: permissions, or another "
        "process has it open",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0T",
        cause="the sub-protocol of the database's name is ambiguous",
        risk=NONE,
        next=APPLICATION,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0U",
        cause="a format id of the database has no class in this release of Derby: a later release wrote it, or the "
        "page holds other bytes than were written",
        risk=CHECK,
        next=VERIFY,
    ),
    KnownMessage(
        word="XBM0V",
        cause="a class that the database needs cannot be loaded",
        risk=NODE,
        next="correct the classpath; jetool info {env}",
    ),
    KnownMessage(
        word="XBM0W",
        cause="an object of a class that the database needs cannot be made",
        risk=NODE,
        next="correct the classpath; jetool info {env}",
    ),
    KnownMessage(
        word="XBM0X",
        cause="the territory of the database is not valid",
        risk=NONE,
        next=APPLICATION,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM03", cause="the collation attribute is not valid", risk=NONE, next=APPLICATION, environment=NOT_OPEN
    ),
    KnownMessage(
        word="XBM04",
        cause="the JVM has no collator for the database's locale",
        risk=NODE,
        next="run a JVM with that locale; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0Y",
        cause="the directory of the backup is not there",
        risk=NONE,
        next="check that it is the right backup",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XBM0Z",
        cause="a file cannot be copied",
        risk=NODE,
        next="check permissions and room; jetool info {env}",
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="XCW00",
        cause="the database was made by a release that this one cannot upgrade",
        risk=NODE,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(word="XCY00", cause="a property has an invalid value", risk=NONE, next=INFO),
    KnownMessage(word="XCY02", cause="a property cannot be changed", risk=NONE, next=INFO),
    KnownMessage(
        word="XCY03",
        cause="a property that Derby needs is not set: service.properties is empty or holds other bytes",
        risk=CHECK,
        next=INFO,
        environment=NOT_OPEN,
    ),
    KnownMessage(
        word="ShutdownException",
        cause="a thread met an engine that was being shut down, or was interrupted: what shut Derby down or "
        "interrupted the thread stands in the messages before this one; it puts no data at risk by itself",
        risk=NODE,
        next=INFO,
        environment=INVALID,
        wrapper=True,
    ),
)
