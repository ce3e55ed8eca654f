"""``jetool db``: remove, rename and empty databases.

Each command recovers the environment, changes the name in a transaction of its own, and closes with a checkpoint. The
bytes that it overwrites are saved first, so ``jetool undo`` brings the database back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple

import click

from engine.errors import ExistsError, NotFoundError, UsageError
from engine.fields import Bool, Choices, Int, Lsn, SizeBytes, Text, record
from engine.storage.disk import DiskStorage
from engine.tree.database_state import INTERNAL_PREFIX
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS, config_of, lead_if_replicated, with_orders
from jetool.frame.groups import group
from jetool.frame.kinds import require_je
from jetool.frame.options import Run
from jetool.frame.repairs import repairing

if TYPE_CHECKING:
    from engine.catalog.catalog import Catalog
    from engine.db.environment import Environment
    from engine.db.transaction import Transaction

_REMOVE, _RENAME, _TRUNCATE = "remove", "rename", "truncate"
_FEATURES = ("fields", "progress", "lock", "cache", "order", "write")


@record("database_change")
class DatabaseChange(NamedTuple):
    """A changed database."""

    environment: Annotated[Text, "the directory"]
    action: Annotated[Text, "what was done", Choices((_REMOVE, _RENAME, _TRUNCATE))]
    db: Annotated[Text, "name of the database"]
    new_name: Annotated[Text | None, "its name afterwards; null without one"]
    records: Annotated[Int | None, "records that went; null for a rename"]
    txn: Annotated[Int, "the transaction"]
    commit_lsn: Annotated[Lsn, "its Commit"]
    backup: Annotated[Text | None, "directory with the saved bytes; null if nothing was saved"]
    saved_bytes: Annotated[SizeBytes, "bytes saved there"]
    dry_run: Annotated[Bool, "nothing was changed: this is what would be done"]


db = group(
    "db",
    help="Remove, rename or empty a database. Each of them can be previewed with -n and undone with jetool undo.",
    examples=(
        ("What removing a database would do", "jetool db remove /data/env orders_old -n"),
        ("Another name", "jetool db rename /data/env orders orders_2026"),
        ("All records of a database go, the database stays", "jetool db truncate /data/env sessions"),
    ),
)

_EXITS = {
    **WRITE_EXITS,
    exits.REFUSED: "the environment is locked; the group has other members; intact work follows a bad entry",
}


def _name(function: Callable[..., int]) -> Callable[..., int]:
    return click.argument("name", type=params.DATABASE, help="The database; jetool dbs ENV lists them.")(function)


@command(
    _REMOVE,
    parent=db,
    outputs=lambda: Outputs("document", (DatabaseChange,)),
    features=_FEATURES,
    examples=(
        ("A preview", "jetool db remove /data/env orders_old -n"),
        ("For good, saving the old bytes on another disk", "jetool db remove /data/env old --backup-dir /backup/env"),
    ),
    exits={exits.DONE: "the database is gone", **_EXITS},
)
@environment
@_name
def db_remove(run: Run, env: str, name: str) -> int:
    """Remove a database and its records.

    The space of its records is given back by the cleaner: jetool clean. An application that expects the database may
    fail to start, or create it again.
    """
    return _change(run, env, _REMOVE, name, None)


@command(
    _RENAME,
    parent=db,
    outputs=lambda: Outputs("document", (DatabaseChange,)),
    features=_FEATURES,
    examples=(
        ("A preview", "jetool db rename /data/env orders orders_2026 -n"),
        ("Another name", "jetool db rename /data/env orders orders_2026"),
    ),
    exits={
        exits.DONE: "the database has its new name",
        **_EXITS,
        exits.REFUSED: "the new name is taken; the environment is locked; the group has other members",
    },
)
@environment
@_name
@click.argument("new", metavar="NEW", help="The new name.")
def db_rename(run: Run, env: str, name: str, new: str) -> int:
    """Give a database another name. Its records stay where they are."""
    if not new or new.startswith(INTERNAL_PREFIX):
        raise UsageError(
            f"names that begin with {INTERNAL_PREFIX} are reserved for JE" if new else "the new name is empty",
            found=repr(new),
            consequence="nothing was changed",
            hint="choose another name",
        )
    return _change(run, env, _RENAME, name, new)


@command(
    _TRUNCATE,
    parent=db,
    outputs=lambda: Outputs("document", (DatabaseChange,)),
    features=_FEATURES,
    examples=(
        ("How many records would go", "jetool db truncate /data/env sessions -n"),
        ("All records go", "jetool db truncate /data/env sessions"),
    ),
    exits={exits.DONE: "the database is empty", **_EXITS},
)
@environment
@_name
def db_truncate(run: Run, env: str, name: str) -> int:
    """Remove all records of a database. The database stays, with its properties."""
    return _change(run, env, _TRUNCATE, name, name)


def _change(run: Run, env: str, action: str, name: str, new: str | None) -> int:
    check = _check(env, name, new if action == _RENAME else None)
    records = _looked_at(run, env, name, check, counted=action != _RENAME)
    config = config_of(run, before_writing=lambda parts: check(parts.catalog))
    with repairing(run, env, f"db {action}", config) as repair:
        opened = repair.environment
        lead_if_replicated(opened)
        with opened.begin() as txn:
            _apply(opened, action, name, new, txn)
            commit = txn.commit()
    run.out.document(
        DatabaseChange(
            environment=env,
            action=action,
            db=name,
            new_name=new,
            records=records,
            txn=txn.id,
            commit_lsn=commit,
            backup=repair.backup,
            saved_bytes=repair.saved_bytes,
            dry_run=run.dry_run,
        )
    )
    return exits.DONE


def _looked_at(run: Run, env: str, name: str, check: Callable[[Catalog], None], *, counted: bool) -> int | None:
    """Refuse what can be refused before the log is opened for writing; the number of records, if it is wanted."""
    from engine.db.environment import Environment
    from engine.rep.group import require_alone

    disk = DiskStorage(env)
    require_je(disk)
    with Environment(disk, with_orders(run, disk, config_of(run, read_only=True)), run.listener) as seen:
        check(seen.engine.catalog)
        # A change that never reaches the other members would make this node diverge from its group.
        if seen.replicated:
            require_alone(seen.engine)
        if not counted:
            return None
        with seen.open_database(name) as found:
            return found.count()


def _apply(opened: Environment, action: str, name: str, new: str | None, txn: Transaction) -> None:
    if action == _REMOVE:
        opened.remove_database(name, txn)
    elif action == _RENAME:
        opened.rename_database(name, str(new), txn)
    else:
        opened.truncate_database(name, txn)


def _check(env: str, name: str, new: str | None) -> Callable[[Catalog], None]:
    """Compare the names with the databases, before the first byte changes."""

    def check(catalog: Catalog) -> None:
        found = catalog.by_name(name)
        if name.startswith(INTERNAL_PREFIX):
            raise UsageError(
                f"{name} is a database of JE itself",
                file=env,
                consequence="nothing was changed",
                hint=f"jetool dbs {env} shows what may be changed",
            )
        if found is None or found.temporary:
            raise NotFoundError(
                f"no database {name!r}",
                file=env,
                consequence="nothing was changed",
                hint=f"jetool dbs {env} lists them",
            )
        if new is not None and catalog.by_name(new) is not None:
            raise ExistsError(
                f"there is a database {new!r} already",
                file=env,
                consequence="nothing was changed",
                hint="choose another name",
            )

    return check
