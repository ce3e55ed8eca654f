"""The commands, as data: ``jetool --help`` prints this table and loads nothing.

A row is added with the command's module, never before. The order is that of the help.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    """One command.

    Attributes:
        name: as the user types it.
        group: one of ``GROUPS``.
        module: the module of ``jetool.commands``; its first word names the attribute that is the command.
        help: one line, without a full stop.
        aliases: other names.
    """

    name: str
    group: str
    module: str
    help: str
    aliases: tuple[str, ...] = ()


GROUPS: Final = ("Drive", "Look", "Check", "Repair", "Fleet", "Meta")

COMMANDS: Final = (
    Row("create", "Drive", "create", "New environment"),
    Row("load", "Drive", "load.command", "Records from a JE dump file or standard input"),
    Row("put", "Drive", "put", "Write one record"),
    Row("get", "Drive", "get", "The record of one key"),
    Row("delete", "Drive", "delete", "Delete one record"),
    Row("checkpoint", "Drive", "checkpoint", "Force a checkpoint, and print what it flushed"),
    Row("crash", "Drive", "crash.command", "Simulate a crash, on a copy by default"),
    Row(
        "node", "Drive", "node.command", "Nodes of a replication group: run, status, transfer-master, put, get, delete"
    ),
    Row("info", "Look", "info.command", "Files, versions, last checkpoint, recovery work ahead, lock holder"),
    Row("dbs", "Look", "dbs", "Databases: names, ids, flags, record counts"),
    Row("scan", "Look", "scan", "Records by range or prefix"),
    Row("dump", "Look", "dump", "A whole database, as DbDump writes it or as rows"),
    Row("export", "Look", "export", "A whole database as Parquet, CSV, JSON or ORC, on Spark"),
    Row("dump-log", "Look", "dump_log.command", "Print the log, entry by entry", ("print-log",)),
    Row("txns", "Look", "txns", "What became of every transaction in the log"),
    Row("history", "Look", "history", "All versions of one key, with the fate of each"),
    Row("rollbacks", "Look", "rollbacks.command", "Rollback periods as a nested list and a timeline"),
    Row("vlsn", "Look", "vlsn.command", "VLSNs: range, map, find, gaps, buckets, check, rebuild"),
    Row("group", "Look", "group.command", "The replication group: show its members, reset it to this node"),
    Row("verify", "Check", "verify.command", "Check the log and its tail; findings with stable codes"),
    Row("diff", "Check", "diff.command", "Two nodes of a group, two environments, or two points of one"),
    Row("recover", "Repair", "recover.command", "Run recovery, preview first"),
    Row("undo", "Repair", "undo", "Take back what a repair changed"),
    Row("fleet", "Fleet", "fleet.command", "Many environments in one Spark job: report, compare, verify, salvage"),
    Row("completion", "Meta", "completion", "Print a script that completes commands in bash, zsh or fish"),
    Row("schema", "Meta", "schema", "Print the JSON Schema of a command's output"),
)
