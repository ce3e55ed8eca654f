"""The options of ``dump-log`` that apply to a Derby database, and the selection that they define."""

from __future__ import annotations

from typing import Any, Final

from engine.derby.database import DerbyDatabase
from engine.derby.format import instant
from engine.derby.format.operations import names, registry
from engine.derby.log import DerbyLogFiles
from engine.derby.log_walk import RecordSelection
from engine.errors import NotFoundError
from engine.log.files import log_file_name
from jetool.commands.derby_log_ends import LogBounds
from jetool.frame import kinds
from jetool.frame.param_types.places import Address

# Parameters without a meaning for Derby, and their spelling on the command line.
_ONLY_JE: Final = {
    "decode": "--decode",
    "vlsns": "--vlsn",
    "since": "--since",
    "until": "--until",
    "dbs": "--db",
    "keys": "--key",
    "prefixes": "--prefix",
    "nodes": "--node-id",
    "without_types": "--not-type",
    "tables": "--table",
    "regions": "--region",
    "ignore_checksums": "--ignore-checksums",
    "provisional": "--provisional",
    "replicated": "--replicated",
    "invisible": "--invisible",
    "rolled_back": "--rolled-back",
    "follow": "--follow",
}
_DEFAULT_DETAIL: Final = "summary"


def refuse_foreign(options: dict[str, Any], form: str) -> None:
    """The UsageError for all given options that have no meaning for a Derby database."""
    # Report all unknown names together.
    wrong = [shown for name, shown in _ONLY_JE.items() if options[name] not in (None, False, ())]
    if options["detail"] != _DEFAULT_DETAIL:
        wrong.append("--nodes")
    if options["stats"] == "db":
        wrong.append("--stats=db")
    if form == "xml":
        wrong.append("--format xml")
    words = (word for types in options["types"] for word in types.words)
    wrong += [f"--type {word}" for word in words if not names.named(word.lower())]
    wrong += [f"--file with {log_file_name(file.number)}" for file in options["numbers"] if file.kind == kinds.JE]
    if wrong:
        raise kinds.not_for(kinds.DERBY, ", ".join(wrong))


def selection(database: DerbyDatabase, log: DerbyLogFiles, options: dict[str, Any], ends: LogBounds) -> RecordSelection:
    """What the options select.

    Raises:
        NotFoundError: a named log file does not exist, or an address refers to a missing checkpoint.
    """
    numbers = frozenset(file.number for file in options["numbers"])
    first, last = options["first"], options["last"]
    start = resolve(database, first, ends) if first else instant.NONE
    # Check the file of the start address too, because it may have been removed.
    asked = {instant.file_of(start)} if first else set()
    for number in sorted(numbers | asked):
        if not log.exists(number):
            raise NotFoundError(
                f"there is no log file {number}",
                file=database.name(log.path(number)),
                hint="jetool info lists the log files",
            )
    return RecordSelection(
        start=start,
        # The range includes its last record; records are longer than one byte.
        stop=resolve(database, last, ends) + 1 if last else instant.NONE,
        files=numbers,
        transactions=frozenset(options["txns"]),
        operations=frozenset().union(
            *(names.named(word.lower()) for types in options["types"] for word in types.words)
        ),
        containers=frozenset(options["containers"]),
        pages=frozenset(options["pages"]),
    )


def resolve(database: DerbyDatabase, address: Address, ends: LogBounds) -> int:
    """The instant of an address: ``ckpt`` the checkpoint record, ``first-active`` undoLWM, ``end`` the last record.

    Raises:
        NotFoundError: no table or index has that name.
    """
    if address.lsn is not None:
        return address.lsn
    found = instant.NONE
    if address.symbol == "end":
        found = ends.last
    elif ends.start is not None:
        found = ends.start.checkpoint_at if address.symbol == "ckpt" else ends.start.undo_lwm
    if found == instant.NONE:
        raise NotFoundError(
            f"no usable checkpoint, so there is no {address.symbol}", file=database.storage.root, hint="name an instant"
        )
    return found


def operation_list() -> str:
    """The list that ``--type list`` prints for a Derby database."""
    lines = [
        f"{line.number:>3}  {line.name:<28} {' '.join(names.groups_of(line))}"
        for line in sorted(registry.BY_NAME.values(), key=lambda line: line.number)
    ]
    return "\n".join([" no  operation                    groups", *lines, "", f"groups: {' '.join(names.GROUPS)}"])
