"""The environment of a load: opened, and so recovered, only once, and locked until the last file is in place.

The caller opens the environment for writing on a ``LoadStorage``. All steps before the last use this single recovery.
In the last step the engine logs the entries that make the new files part of the environment; before that the storage is
diverted, so new log entries stay in memory, and ``stitch`` moves them into place with the files of the tasks.
"""

from __future__ import annotations

from typing import Final

from engine.catalog.name_operations import DatabaseOptions
from engine.db.environment import Environment
from engine.errors import NotFoundError, RefusedError
from engine.format.versions import WRITTEN_VERSION
from engine.pipeline.load import stage
from engine.pipeline.load.plan import IDS_A_FILE, Target
from engine.storage.base import Storage
from engine.storage.overlay import OverlayStorage, WrappedStorage

# The largest offset in the compact form of LSNs.
_MOST_FILE_BYTES: Final = 16_000_000
_MOST_FILES: Final = 0x7FFF_0000


class LoadStorage(WrappedStorage):
    """The storage of an environment into which records are loaded."""

    def divert(self, base: Storage) -> OverlayStorage:
        """From now on read from ``base``, and keep writes in memory; the returned storage holds them."""
        overlay = OverlayStorage(base)
        self._base = overlay
        return overlay


class LoadSession:
    """One load into one environment.

    Arguments:
        env: open for writing on a ``LoadStorage``.
        storage: the real directory of the environment, for the staging directory and the last step.
        name: the database.
        options: how the database is created if it does not exist.
        create: make it then.

    Attributes:
        env, storage, name, options: as above; ``engine`` is that of the environment.
        exists: whether the database exists.
        target: the parameters of the files.
        last_offset: offset of the last entry of the environment's last file.
        bulk: the database has no tree and no duplicates and is not replicated, and the log is of the version that
            finished files are made for, so that files can be appended to it; otherwise records are merged one by one.

    Raises:
        NotFoundError: there is no such database, and it must not be created.
        RefusedError: the log has used up its file numbers.
    """

    def __init__(
        self, env: Environment, storage: Storage, name: str, options: DatabaseOptions, *, create: bool
    ) -> None:
        engine, writer = env.engine, env.engine.writer
        assert writer is not None
        self.env, self.engine = env, engine
        self.storage, self.name, self.options = storage, name, options
        self.exists = name in env.database_names()
        if not self.exists and not create:
            raise NotFoundError(f"no database {name!r}", file=storage.root, hint="--create makes it")
        # The id that the new database will get; ``stitch`` verifies it.
        db_id = engine.catalog.last_local_db_id + 1
        self.bulk = not env.replicated and writer.version == WRITTEN_VERSION and not options.duplicates
        max_entries, prefixing = options.max_entries, options.key_prefixing
        if self.exists:
            with env.open_database(name) as db:
                state = db.state
                db_id, max_entries, prefixing = state.id, state.max_entries, state.prefixing
                # Finished BINs are in byte order and have no duplicates; other trees are filled through the engine.
                free = not state.has_root and state.order.plain and not state.duplicates and not state.deferred
                self.bulk = self.bulk and free
        # Finished files begin after the file being written, which stays as it is.
        first = (writer.next_lsn >> 32) + 1
        if first > _MOST_FILES:
            raise RefusedError("the log has used up its file numbers", file=storage.root)
        self.target = Target(
            staging=str(stage.path_of(storage)),
            db_id=db_id,
            max_entries=max_entries,
            prefixing=prefixing,
            max_embedded=engine.config.max_embedded_bytes,
            first_file=first,
            file_max=min(engine.config.file_max_bytes, _MOST_FILE_BYTES),
            # A gap is left, so that ids assigned by the engine meanwhile do not collide.
            first_node_id=engine.node_ids.last + IDS_A_FILE,
        )
        self.last_offset = writer.last_lsn & 0xFFFFFFFF

    def divert(self, base: Storage) -> OverlayStorage:
        """Begin the last step: writes no longer reach the environment's files, and no automatic checkpoint runs."""
        storage, checkpointer = self.engine.storage, self.engine.checkpointer
        assert isinstance(storage, LoadStorage)
        # A checkpoint halfway would describe a log without the upper nodes.
        checkpointer.bytes_interval = checkpointer.time_interval_ms = 0
        return storage.divert(base)
