"""The commands, as data: ``jetool --help`` prints this table and loads nothing.

Add a row together with the command's module. The order is the order in the help.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class CommandRow(NamedTuple):
    """One command.

    Attributes:
        name: as the user types it.
        group: one of ``GROUPS``.
        module: the module below ``jetool.commands``; the first part of this name is also the name of the command in the
            module.
        help: one line, without a full stop.
        aliases: other names.
    """

    name: str
    group: str
    module: str
    help: str
    aliases: tuple[str, ...] = ()


GROUPS: Final = ("Drive", "Look", "Check", "Repair", "Fleet", "Meta")

# The module that serves the verbs of ``verbs.Verbs`` on Derby databases.
DERBY_VERBS: Final = "jetool.commands.derby_verbs"

COMMANDS: Final = (
    CommandRow("create", "Drive", "create", "Create an environment"),
    CommandRow("load", "Drive", "load.command", "Load records from files, datasets or a JE dump"),
    CommandRow("put", "Drive", "put", "Write one record"),
    CommandRow("get", "Drive", "get", "Print the record of one key"),
    CommandRow("delete", "Drive", "delete", "Delete one record"),
    CommandRow("db", "Drive", "db", "Databases: remove, rename, truncate"),
    CommandRow("checkpoint", "Drive", "checkpoint", "Force a checkpoint, and print what it flushed"),
    CommandRow("clean", "Drive", "clean.command", "Run the log cleaner, offline, and give space back"),
    CommandRow("crash", "Drive", "crash.command", "Simulate a crash, on a copy by default"),
    CommandRow("node", "Drive", "node.command", "Nodes of a replication group: run, transfer-master, put, get, delete"),
    CommandRow("info", "Look", "info.command", "Files, versions, last checkpoint, recovery work ahead, lock holder"),
    CommandRow("dbs", "Look", "dbs", "Databases: names, ids, flags, record counts"),
    CommandRow("scan", "Look", "scan", "Print records by range or prefix"),
    CommandRow("dump", "Look", "dump.command", "Print a whole database, in the format of DbDump or as rows"),
    CommandRow("export", "Look", "export", "Export a whole database as Parquet, CSV, JSON or ORC, with Spark"),
    CommandRow("dump-log", "Look", "dump_log.command", "Print the log, entry by entry", ("print-log",)),
    CommandRow("txns", "Look", "txns", "The fate of every transaction in the log"),
    CommandRow("history", "Look", "history", "Print all versions of one key, with the fate of each"),
    CommandRow("rollbacks", "Look", "rollbacks.command", "Rollback periods as a nested list and a timeline"),
    CommandRow("vlsn", "Look", "vlsn.command", "VLSNs: range, map, find, gaps, buckets, check, rebuild"),
    CommandRow("space", "Look", "space", "Utilization of each file, and the reason why it is kept"),
    CommandRow(
        "cache-size", "Look", "cache_size", "The memory that the cache needs for a database, in JE and in jetool"
    ),
    CommandRow("missing", "Look", "missing", "Missing or truncated log files, and data that only they held"),
    CommandRow(
        "journal",
        "Look",
        "journal.command",
        "Journals of Doris and StarRocks frontends: list, show, check, compare, stats, plan-skip, truncate",
    ),
    CommandRow(
        "ldap",
        "Look",
        "ldap.command",
        "LDAP servers of the OpenDJ family: entries as LDIF, consistency of indexes, replication changelog",
    ),
    CommandRow(
        "group", "Look", "group.command", "The replication group: show, remove, delete or move members, reset it"
    ),
    CommandRow("watch", "Look", "watch", "Nodes at a glance, refreshed: role, lag, commits, log, cleaner, disk"),
    CommandRow("stream", "Look", "stream.command", "Commits in a running group, transaction by transaction"),
    CommandRow("doctor", "Check", "doctor.command", "What is this, can it start here, what is lost, what to do next"),
    CommandRow("verify", "Check", "verify.command", "Check the log and its tail; findings with stable codes"),
    CommandRow("diff", "Check", "diff.command", "Compare two nodes of a group, two environments, or two points of one"),
    CommandRow("recover", "Repair", "recover.command", "Cut off a torn tail, undo uncommitted work, take a checkpoint"),
    CommandRow(
        "salvage",
        "Repair",
        "salvage.command",
        "Save as much data as possible from damaged environments",
    ),
    CommandRow("truncate", "Repair", "truncate.command", "Cut the log at a point, where no transaction is open"),
    CommandRow("backup", "Repair", "backup.command", "Backups of an environment or a node: take, list, verify, prune"),
    CommandRow(
        "restore", "Repair", "restore.command", "Restore an environment from a backup, completely or as of a point"
    ),
    CommandRow("undo", "Repair", "undo", "Undo the changes of a repair"),
    CommandRow("fleet", "Fleet", "fleet.command", "Many environments in one job: report, compare, verify, salvage"),
    CommandRow("help", "Meta", "help_page", "Print the help of a command, or a page of the manual"),
    CommandRow("explain", "Meta", "explain", "Explain an exception or a log file: cause, risk, next command"),
    CommandRow("completion", "Meta", "completion", "Print a script that completes commands in bash, zsh or fish"),
    CommandRow("schema", "Meta", "schema", "Print the JSON Schema of a command's output"),
)

# Command names of other tools, including JE's, in lower case, and the jetool command for each.
ELSEWHERE: Final = {
    "dbbackup": "backup take",
    "dbcachesize": "cache-size",
    "dbdeletereservedfiles": "clean --reserved",
    "dbdump": "dump",
    "dbfilterstats": "info --stats-file",
    "dbgroupadmin": "group show",
    "dbload": "load",
    "dbping": "group show",
    "dbprintlog": "dump-log",
    "dbrecover": "recover",
    "dbreprunaction": "checkpoint",
    "dbresetrepgroup": "group reset",
    "dbrunaction": "checkpoint",
    "dbscavenger": "salvage",
    "dbspace": "space",
    "dbstat": "info --stats",
    "dbstreamverify": "vlsn check",
    "dbtruncatelog": "truncate",
    "dbverify": "verify --full",
    "dbverifylog": "verify --log",
    "cat": "dump",
    "check": "verify",
    "compare": "diff",
    "count": "dbs --count",
    "databases": "dbs",
    "diagnose": "doctor",
    "del": "delete",
    "download": "export",
    "entries": "dump-log",
    "fix": "recover",
    "fsck": "verify",
    "health": "doctor",
    "import": "load",
    "insert": "put",
    "list": "dbs",
    "log": "dump-log",
    "logs": "dump-log",
    "ls": "dbs",
    "members": "group show",
    "monitor": "watch",
    "print": "dump-log",
    "range": "vlsn range",
    "read": "get",
    "rebuild": "vlsn rebuild",
    "records": "scan",
    "remove": "delete",
    "rename": "db rename",
    "repair": "recover",
    "report": "fleet report",
    "reset": "group reset",
    "restore-log": "undo",
    "revert": "undo",
    "rm": "delete",
    "rollback": "rollbacks",
    "run": "node run",
    "set": "put",
    "show": "info",
    "stat": "info --stats",
    "statistics": "info --stats",
    "stats": "info --stats",
    "status": "info",
    "tables": "dbs",
    "tail": "dump-log --tail 20",
    "test": "verify",
    "transactions": "txns",
    "top": "watch",
    "validate": "verify",
    "write": "put",
}


def elsewhere(name: str) -> str | None:
    """The jetool command for another tool's command name, or None."""
    # JE's tools are named after their classes.
    found = ELSEWHERE.get(name.rpartition(".")[2].lower())
    known = {row.name for row in COMMANDS}
    return found if found is not None and found.split()[0] in known else None
