"""Reading the replication stream of an environment for a command, with warnings about damage."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import RefusedError
from engine.format.entry.ln import LN
from engine.format.lsn import format_lsn
from engine.format.stream_facts import StreamFacts
from engine.format.vlsn import NULL_VLSN
from engine.inspect.group_record import are_strangers
from engine.inspect.log_stream import LogStream, is_outside, joined, nothing_of, stream_of_file
from engine.inspect.stream_diff import StreamSide, stream
from engine.log.check import FileCheck
from engine.log.entry import REASONS
from engine.log.files import LogFiles, list_log_files
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from jetool.frame.kinds import require_je
from jetool.frame.options import Run


class StreamNode:
    """One environment and its stream.

    Arguments:
        run: gives the listener for progress and the number of processes, and prints warnings.
        env: the directory of the environment.
        checks: checks of files that were already read completely; files without a part of the stream are not read
            again.

    Attributes:
        damaged: whether a part of the log could not be read.

    Raises:
        JetoolError: as ``list_log_files`` and ``read_stream``.
    """

    def __init__(self, run: Run, env: str, checks: Sequence[FileCheck] = ()) -> None:
        self.env = env
        self.storage: Storage = self.open_storage(env)
        self.files: LogFiles = list_log_files(self.storage)
        self.log: LogStream = _read(run, self.storage, self.files, checks)
        self.damaged = _warn(run, env, self.log)

    @staticmethod
    def open_storage(env: str) -> Storage:
        """The directory of a JE environment.

        Raises:
            NotFoundError, UsageError: the directory holds no JE environment.
        """
        storage = DiskStorage(env)
        require_je(storage)
        return storage

    @property
    def facts(self) -> StreamFacts:
        """Facts about the stream of the environment."""
        return self.log.facts

    @property
    def side(self) -> StreamSide:
        """The node as an argument of ``diff_streams``."""
        return StreamSide(self.storage, self.files, self.facts)

    @property
    def is_replicated(self) -> bool:
        """Whether the environment has a stream."""
        return self.facts.first != NULL_VLSN or bool(self.facts.rollbacks)

    @property
    def has_neither(self) -> bool:
        """Whether the whole log was read, and holds neither a stream nor the name of a VLSN index."""
        is_whole = not (self.log.damages or self.log.gaps or self.log.unreadable or self.files.marker)
        return is_whole and not self.is_replicated and not self.log.names_index

    def records_after(self, matchpoint: int) -> list[tuple[int, int, int, bytes, bool]]:
        """LSN, transaction, database, key and invisibility of the stream's records after a VLSN."""
        found = []
        for entry in stream(self.side, matchpoint + 1, self.facts.last):
            record: object = entry.record()
            if isinstance(record, LN) and record.txn_id is not None:
                found.append((entry.lsn, record.txn_id, record.db_id, record.key, entry.invisible))
        return found


def require_one_group(one: StreamNode, other: StreamNode) -> None:
    """Refuse to compare streams of different groups, because equal VLSNs are then unrelated.

    Raises:
        RefusedError: their names or their UUIDs differ. JE's handshake also refuses such a node.
    """
    first, second = one.log.group, other.log.group
    if first is None or second is None or not are_strangers(first, second):
        return
    raise RefusedError(
        "the environments do not belong to the same replication group",
        file=other.env,
        expected=f"group {first.name!r}, UUID {first.uuid}, as {one.env}",
        found=f"group {second.name!r}, UUID {second.uuid}",
        consequence="neither can follow the other: JE refuses the node in the handshake, with an "
        "EnvironmentFailureException; their streams have no matchpoint",
        hint=f"name nodes of one group; to compare records: jetool diff --records {one.env} {other.env}",
    )


def _read(run: Run, storage: Storage, files: LogFiles, checks: Sequence[FileCheck]) -> LogStream:
    from functools import partial

    from engine.workers.parallel import map_in_order

    outside = {check.file.number for check in checks if is_outside(check)}
    unread = [file for file in files.files if file.number not in outside]
    total, done, parts = sum(file.size_bytes for file in files.files), 0, []
    # Results are in log order, whichever process finishes first: VLSNs are joined across files.
    read = map_in_order(partial(stream_of_file, storage, files.end_file()), unread, run.jobs)
    for file in files.files:
        parts.append(nothing_of(file) if file.number in outside else next(read))
        done += file.size_bytes
        run.listener.step("read", done, total)
    return joined(parts, files)


def _warn(run: Run, env: str, log: LogStream) -> bool:
    # A torn tail is what every crash leaves, and recovery cuts it off (R-LOG-35).
    damages = [damage for damage in log.damages if not damage.is_tail]
    for damage in damages:
        run.messages.warning(
            f"damage met: {REASONS[damage.reason]}",
            file=f"{env}/{damage.path}",
            lsn=format_lsn(damage.lsn),
            consequence="entries in the damaged part were not read",
            hint=f"jetool verify {env}",
        )
    for lsn in log.unreadable:
        run.messages.warning("an entry does not decode", file=env, lsn=format_lsn(lsn), hint=f"jetool verify {env}")
    return bool(damages or log.unreadable)
