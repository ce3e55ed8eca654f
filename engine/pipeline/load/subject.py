"""What is loaded into: the database, and how files for it are made."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.catalog.naming import DatabaseOptions
from engine.db.environment import Environment
from engine.errors import NotFoundError, RefusedError
from engine.format.versions import WRITTEN_VERSION
from engine.pipeline.load.plan import IDS_A_FILE, Target
from engine.pipeline.load.stitch import Subject

# Above this the compact form of LSNs does not reach.
_MOST_FILE_BYTES: Final = 16_000_000
_MOST_FILES: Final = 0x7FFF_0000


class LoadPreparation(NamedTuple):
    """What is known before the first record is read.

    Attributes:
        subject: the database.
        target: what files are made for.
        last_offset: of the last entry of the environment's last file.
        bulk: the database has no tree and is not replicated, and the log is of the version that finished files are
            made for, so that they can be put after it; otherwise records are merged into it one by one.
    """

    subject: Subject
    target: Target
    last_offset: int
    bulk: bool


def prepare(env: Environment, staging: str, name: str, options: DatabaseOptions, *, create: bool) -> LoadPreparation:
    """Look at an environment that is open for writing, and changes nothing.

    Raises:
        NotFoundError: there is no such database, and it is not to be made.
        RefusedError: the log has used up its file numbers.
    """
    engine, writer = env.engine, env.engine.writer
    assert writer is not None
    exists = name in env.database_names()
    if not exists and not create:
        raise NotFoundError(f"no database of the name {name!r}", file=env.home, hint="--create makes it")
    db_id = engine.catalog.last_local_db_id + 1
    bulk = not env.replicated and writer.version == WRITTEN_VERSION
    max_entries, prefixing = options.max_entries, options.key_prefixing
    if exists:
        with env.open_database(name) as db:
            state = db.state
            db_id, max_entries, prefixing = state.id, state.max_entries, state.prefixing
            bulk = bulk and not state.has_root and state.order.plain and not state.duplicates and not state.deferred
    first = (writer.next_lsn >> 32) + 1
    if first > _MOST_FILES:
        raise RefusedError("the log has used up its file numbers", file=env.home)
    config = env.config
    target = Target(
        staging=staging,
        db_id=db_id,
        max_entries=max_entries,
        prefixing=prefixing,
        max_embedded=config.max_embedded_bytes,
        first_file=first,
        file_max=min(config.file_max_bytes, _MOST_FILE_BYTES),
        first_node_id=engine.node_ids.last + IDS_A_FILE,
    )
    return LoadPreparation(Subject(name, exists, options), target, writer.last_lsn & 0xFFFFFFFF, bulk)
