"""Service LDiff: digests of the records of this node's databases, for comparisons (``engine.rep.wire.record_blocks``).

JE's ``LDiff`` and ``jetool diff ENV HOST:PORT`` call it. The digests are those of the JE release that writes the node's
log version. Unlike JE, the node also serves databases with duplicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from engine.db.database import Database
from engine.db.environment import Environment
from engine.errors import DatabaseNotFoundError
from engine.format.versions import WRITTEN_VERSION
from engine.rep.services.caller import Caller
from engine.rep.services.port import Service
from engine.rep.wire.record_blocks import (
    RECORD_BLOCKS,
    TO_THE_END,
    VERSION,
    BlockRecord,
    BlocksEnd,
    BlocksProtocolError,
    BlocksRequest,
    BlocksStart,
    ComparisonDone,
    CountRequest,
    DatabaseCount,
    NoSuchDatabase,
    RecordsEnd,
    RecordsRequest,
    RecordsStart,
    blocks_of,
)

_PLACES: Final = 4
_MOST_BLOCK_RECORDS: Final = 1 << 24
# A client may compare this long between two messages.
_SILENCE_S: Final = 300.0
_NO_VLSN: Final = -1


class BlockHost(Protocol):
    """A node with records."""

    @property
    def environment(self) -> Environment:
        """The environment of the node; raises an error while no environment is open."""


class RecordBlocks:
    """The service.

    Arguments:
        host: the node.

    Attributes:
        services: by name.
    """

    def __init__(self, host: BlockHost) -> None:
        self._host = host
        self.services = {RECORD_BLOCKS.service: Service(self._serve, _PLACES)}

    def _serve(self, caller: Caller) -> None:
        asked = caller.receive(RECORD_BLOCKS, VERSION, BlocksRequest, CountRequest)
        env = self._host.environment
        if isinstance(asked, CountRequest):
            caller.send(RECORD_BLOCKS, VERSION, DatabaseCount(databases=len(env.database_names())))
            return
        assert isinstance(asked, BlocksRequest)
        if not 0 < asked.block_records <= _MOST_BLOCK_RECORDS:
            text = f"records of a block: 1 to {_MOST_BLOCK_RECORDS}"
            caller.send(RECORD_BLOCKS, VERSION, BlocksProtocolError(text=text))
            return
        try:
            db = env.open_database(asked.database)
        except DatabaseNotFoundError:
            # The name may hold characters that must not be sent.
            caller.send(RECORD_BLOCKS, VERSION, NoSuchDatabase(text="the node has no such database"))
            return
        with db:
            self._compare(caller, db, asked.block_records)

    def _compare(self, caller: Caller, db: Database, block_records: int) -> None:
        later = self._host.environment.engine.log_version > WRITTEN_VERSION
        caller.send(RECORD_BLOCKS, VERSION, BlocksStart())
        for block in blocks_of(db.items(), block_records, "sha256" if later else "md5"):
            # The client compares its own records while it reads.
            caller.send_all(RECORD_BLOCKS.encode(block, VERSION, client=False), _SILENCE_S)
        caller.send(RECORD_BLOCKS, VERSION, BlocksEnd())
        while True:
            asked = caller.receive(RECORD_BLOCKS, VERSION, RecordsRequest, ComparisonDone, timeout_s=_SILENCE_S)
            if isinstance(asked, ComparisonDone):
                return
            assert isinstance(asked, RecordsRequest)
            caller.send(RECORD_BLOCKS, VERSION, RecordsStart())
            for key, data in _records(db, asked):
                caller.send(RECORD_BLOCKS, VERSION, BlockRecord(key=key, data=data, vlsn=_NO_VLSN))
            caller.send(RECORD_BLOCKS, VERSION, RecordsEnd())


def _records(db: Database, asked: RecordsRequest) -> Iterator[tuple[bytes, bytes]]:
    """The requested records; none if the first one is gone."""
    with db.cursor() as cursor:
        found = cursor.search_both(asked.key, asked.data)
        sent = 0
        while found is not None and (asked.records == TO_THE_END or sent < asked.records):
            yield found
            sent += 1
            found = cursor.next()
