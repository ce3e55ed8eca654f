"""Client of the service LDiff: the blocks of a database of a running node, and the records of a block.

A node of JE serves one comparison at a time, and needs a moment after each. It opens each database without duplicates:
a database with duplicates ends the thread of the service with an entry in the node's log, so JE nodes are not asked
for such a database.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final, NamedTuple

from engine.errors import plural
from engine.rep.client.call import Call, ServiceError
from engine.rep.client.connection import Address, Network
from engine.rep.peers import PeerError
from engine.rep.wire.record_blocks import (
    RECORD_BLOCKS,
    VERSION,
    Block,
    BlockRecord,
    BlocksEnd,
    BlocksError,
    BlocksRequest,
    BlocksStart,
    ComparisonDone,
    CountRequest,
    DatabaseCount,
    NoSuchDatabase,
    RecordsEnd,
    RecordsRequest,
    RecordsStart,
)
from engine.rep.wire.records import RECORDS
from engine.rep.wire.services import Status

# JE's own size of a block. A node of JE holds the records of a requested block in memory.
BLOCK_RECORDS: Final = 1 << 13
_PAUSE_S: Final = 0.05


class BlockBounds(NamedTuple):
    """What a node may send as the blocks of one database.

    The usual bounds allow 8 billion records in blocks of 8192, and 1 GiB of first records.

    Attributes:
        blocks: number of blocks.
        held_bytes: bytes of the first records of all blocks, which the caller keeps.
    """

    blocks: int = 1 << 20
    held_bytes: int = 1 << 30


_USUAL_BOUNDS: Final = BlockBounds()


class NodeRecords:
    """The records of a running node.

    Arguments:
        network: opens the connections.
        address: where the node listens.
        timeout_s: timeout of each step.
        block_records: number of records in a block.
        bounds: what the node may send.
    """

    def __init__(
        self,
        network: Network,
        address: Address,
        timeout_s: float,
        block_records: int = BLOCK_RECORDS,
        bounds: BlockBounds = _USUAL_BOUNDS,
    ) -> None:
        self._network = network
        self._address = address
        self._timeout_s = timeout_s
        self._bounds = bounds
        self.block_records = block_records

    def database_count(self) -> int:
        """The number of databases of applications.

        Raises:
            ServiceError: the node refuses the service, or stays busy. PeerError: as ``Call``.
        """
        with self._call() as call:
            call.send(RECORD_BLOCKS, VERSION, CountRequest())
            return call.receive(RECORD_BLOCKS, VERSION, DatabaseCount).databases

    def serves_duplicates(self) -> bool:
        """Whether the node is one of jetool, which also serves databases with duplicates."""
        try:
            Call(self._network, self._address, RECORDS.service, self._timeout_s).close()
        except ServiceError as error:
            return error.status is not Status.UNKNOWN_SERVICE
        return True

    def database(self, name: str) -> NodeDatabase | None:
        """A database, to be closed by the caller; None if the node does not have it."""
        call = self._call()
        try:
            call.send(RECORD_BLOCKS, VERSION, BlocksRequest(database=name, block_records=self.block_records))
            said = call.receive(RECORD_BLOCKS, VERSION, BlocksStart, NoSuchDatabase)
        except BaseException:
            call.close()
            raise
        if isinstance(said, BlocksStart):
            return NodeDatabase(call, self.block_records, self._bounds)
        call.close()
        return None

    def _call(self) -> Call:
        until = time.monotonic() + self._timeout_s
        while True:
            try:
                return Call(self._network, self._address, RECORD_BLOCKS.service, self._timeout_s)
            except ServiceError as error:
                if error.status is not Status.BUSY or time.monotonic() >= until:
                    raise
                time.sleep(_PAUSE_S)


class NodeDatabase:
    """A database of a running node: all blocks first, then the records of some of them. Use as a context manager.

    Arguments:
        call: the node is about to send the blocks.
        block_records: number of records in a block.
        bounds: what the node may send.
    """

    def __init__(self, call: Call, block_records: int, bounds: BlockBounds = _USUAL_BOUNDS) -> None:
        self._call = call
        self._bounds = bounds
        self.block_records = block_records

    def __enter__(self) -> NodeDatabase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._call.send(RECORD_BLOCKS, VERSION, ComparisonDone())
        self._call.close()

    def blocks(self) -> Iterator[Block]:
        """The blocks, in the order of their records; call it once, and read it to the end.

        Raises:
            PeerError: the numbers of the blocks are wrong, or there are too many. DisconnectedError: no answer came in
                time.
        """
        number = held_bytes = 0
        most = self._bounds
        while isinstance(said := self._call.receive(RECORD_BLOCKS, VERSION, Block, BlocksEnd), Block):
            if said.number != number:
                raise PeerError(f"{self._call.peer} sends another block", expected=str(number), found=str(said.number))
            held_bytes += len(said.key) + len(said.data)
            if number >= most.blocks or held_bytes > most.held_bytes:
                raise PeerError(
                    f"{self._call.peer} sends more blocks, or bytes of their first records, than are read",
                    expected=f"at most {plural(most.blocks, 'block')}, {plural(most.held_bytes, 'byte')}",
                    found=f"{plural(number + 1, 'block')}, {plural(held_bytes, 'byte')}",
                    hint="copy the environment of the node, and compare the copy: jetool diff ENV ENV2 --records",
                )
            yield said
            number += 1

    def records(self, block: Block) -> Iterator[tuple[bytes, bytes]]:
        """The records of a block, in no particular order; fewer if they were deleted meanwhile.

        Raises:
            PeerError: the node cannot read them, or sends too many. DisconnectedError: no answer came in time.
        """
        call = self._call
        call.send(RECORD_BLOCKS, VERSION, RecordsRequest(key=block.key, data=block.data, records=self.block_records))
        said = call.receive(RECORD_BLOCKS, VERSION, RecordsStart, BlocksError)
        if isinstance(said, BlocksError):
            raise PeerError(f"{call.peer} cannot read its records", found=said.text)
        received = 0
        while isinstance(record := call.receive(RECORD_BLOCKS, VERSION, BlockRecord, RecordsEnd), BlockRecord):
            received += 1
            if received > self.block_records:
                raise PeerError(f"{call.peer} sends too many records", expected=str(self.block_records))
            yield record.key, record.data
