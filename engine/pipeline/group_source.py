"""``spark.read`` and ``spark.readStream.format("jegroup")``: the commits of a running group of JE nodes.

``load`` takes comma-separated addresses; the other nodes of the group are found from them. A row is one change. A batch
holds complete durable transactions, which no election can take back. A batch source reads from ``startingOffset`` to
the current end. The offset of a stream holds the group's UUID, the VLSN and transaction of the last commit, and the
state needed to continue exactly there. A batch that Spark repeats is read again from the master, which must still have
these changes. So with a checkpoint and a sink that supports it (files do), each change is written exactly once.
Options:

* ``startingOffset``: ``begin``, ``now`` (the default of a stream) or a VLSN, for a query without a checkpoint
* ``maxChanges``: a batch ends after the transaction that reaches this number of changes (100,000)
* ``db``: only this database; ``internal``: ``true`` adds JE's own
* ``decode``: the name of a decoder adds the columns decoded_key and decoded_data, JSON as text, and known. It sees
  changes only: ``auto`` is refused, and decoders that need a catalog of the environment (``serial``, ``dpl``) leave
  bytes
* ``tlsCa``, ``tlsCert``, ``tlsKey``, ``tlsCheckHost``: TLS, like the options of ``jetool stream``; a batch reads the
  files on the executor
* ``group``: the name of the group; ``timeout`` of each step, and ``patience`` while there is no master, in seconds

A single thread of the driver reads the group: this source is made to follow a group, not for bulk reading.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import closing
from functools import cached_property
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from engine.contents.base import Decoder
from engine.contents.registry import AUTO, decode, find
from engine.errors import FormatError, RefusedError, UsageError
from engine.inspect.contents import NamesOnly
from engine.pipeline.decoded_columns import DECODED_COLUMNS, decoded_values, decoder_option
from engine.pipeline.log_rows import check_schema
from engine.pipeline.python_side import plain_errors, settle_worker
from engine.pipeline.source_options import any_text, chosen_options, loaded_paths, whole_number, yes_or_no
from engine.rep.changes.columns import COLUMNS, Values, change_values
from engine.rep.changes.feed import BEGIN, LATEST
from engine.rep.changes.position import Position, position_of
from engine.rep.changes.subscriber import Quiet, Subscriber, SubscriberSettings
from engine.rep.changes.transactions import CommittedTransaction, RecordChange
from engine.rep.client.connection import Address, Network, SocketNetwork
from engine.rep.client.tls import TlsFiles, TlsNetwork

FORMAT: Final = "jegroup"
_MOST_CHANGES: Final = 100_000
# The time that a batch waits for changes.
_WAIT_S: Final = 1.0
_STATE: Final = "state"
Offset = dict[str, Any]


class GroupSource(DataSource):
    """The data source ``jegroup``.

    Raises:
        UsageError: an unknown option, or a value that an option cannot have.
    """

    @plain_errors()
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Every check is made here. The network is not asked.
        GroupOptions(options, BEGIN)

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return FORMAT

    def schema(self) -> str:
        """All columns; those of ``decode`` only with that option."""
        decoder = GroupOptions(self.options, BEGIN).decoder
        return ", ".join(f"{name} {kind}" for name, kind in _columns(decoder).items())

    @plain_errors()
    def reader(self, schema: StructType) -> GroupReader:
        """A reader of the existing changes."""
        return GroupReader(schema, GroupOptions(self.options, BEGIN))

    def simpleStreamReader(self, schema: StructType) -> GroupStreamReader:  # noqa: N802 - Spark's name
        """A reader of new commits."""
        return GroupStreamReader(schema, GroupOptions(self.options, LATEST))


class GroupOptions:
    """The arguments of ``load`` and ``option``.

    Arguments:
        options: Spark's.
        start: the default position to begin at.

    Raises:
        UsageError: an argument is invalid.
    """

    def __init__(self, options: Mapping[str, str], start: str) -> None:
        chosen = chosen_options(FORMAT, options, _OPTIONS)
        self.addresses = _addresses(loaded_paths(options))
        self.start: str | int = chosen.get("startingOffset", start)
        self.most_changes: int = chosen.get("maxChanges", _MOST_CHANGES)
        self.db: str | None = chosen.get("db")
        self.decoder = _decoder(chosen.get("decode"))
        self.tls = _tls(chosen)
        self.internal: bool = chosen.get("internal", False)
        defaults = SubscriberSettings()
        self.settings = SubscriberSettings(
            group=chosen.get("group"),
            timeout_s=chosen.get("timeout", round(defaults.timeout_s)),
            patience_s=chosen.get("patience", round(defaults.patience_s)),
        )

    def subscriber(self, begin: Position | str | int) -> Subscriber:
        """A stream of the group."""
        network: Network = SocketNetwork() if self.tls is None else TlsNetwork(SocketNetwork(), self.tls)
        return Subscriber(network, self.addresses, self.settings, begin, lambda *_: None)


class ChangeRows:
    """Converts transactions to rows: the columns of a schema, in its order.

    Raises:
        UsageError: there is no such column.
    """

    def __init__(self, schema: StructType, options: GroupOptions) -> None:
        columns = _columns(options.decoder)
        check_schema(schema, columns, FORMAT)
        names = list(columns)
        self._decoder = options.decoder if any(field.name in DECODED_COLUMNS for field in schema.fields) else None
        self._places = [names.index(field.name) for field in schema.fields]
        self._db = options.db
        self._internal = options.internal

    def of(self, transaction: CommittedTransaction) -> list[Values]:
        """The rows of a transaction."""
        changes = [one for one in transaction.changes(internal=self._internal) if self._db in (None, one.db)]
        found = []
        for change, values in zip(changes, change_values(transaction, changes), strict=True):
            row = (*values, *self._meaning(change))
            found.append(tuple(row[place] for place in self._places))
        return found

    def _meaning(self, change: RecordChange) -> tuple[str | None, str | None, bool | None]:
        if self._decoder is None or change.key is None or change.db is None:
            return decoded_values(None)
        found = decode(self._decoder, change.db, change.key, change.data or b"")
        return decoded_values(found if change.data is not None else found._replace(data=None))


class GroupReader(DataSourceReader):
    """Reads a group up to its current end, in one task."""

    def __init__(self, schema: StructType, options: GroupOptions) -> None:
        self._rows = ChangeRows(schema, options)
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[Values]:  # noqa: ARG002 - Spark's signature
        """The rows of a transaction."""
        settle_worker()
        with plain_errors(), closing(self._options.subscriber(self._options.start).events()) as events:
            for event in events:
                if isinstance(event, CommittedTransaction):
                    yield from self._rows.of(event)
                elif isinstance(event, Quiet) and event.caught_up:
                    return


class GroupStreamReader(SimpleDataSourceStreamReader):
    """Follows a group; on the driver, where one connection serves many batches."""

    def __init__(self, schema: StructType, options: GroupOptions) -> None:
        self._schema, self._options = schema, options
        self._subscriber: Subscriber | None = None
        self._events: Any = None
        self._at: Offset | None = None

    @cached_property
    def _rows(self) -> ChangeRows:
        # Not made in the constructor: pyspark 4.3 hides an error of it by one of its own.
        return ChangeRows(self._schema, self._options)

    @plain_errors()
    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The position at which the stream begins; it is stored, so it is the same in every batch."""
        return _offset(self._options.subscriber(self._options.start).locate())

    @plain_errors()
    def read(self, start: Offset) -> tuple[Iterator[Values], Offset]:
        """The changes after an offset, ending with the transaction that reaches ``maxChanges``; may be empty."""
        if self._events is None or self._at != start:
            self._begin(start)
        assert self._subscriber is not None
        found: list[Values] = []
        until = time.monotonic() + _WAIT_S
        for event in self._events:
            if isinstance(event, CommittedTransaction):
                found += self._rows.of(event)
                if len(found) >= self._options.most_changes:
                    break
            elif isinstance(event, Quiet) and (event.caught_up or time.monotonic() >= until):
                break
        assert self._subscriber.position is not None
        self._at = _offset(self._subscriber.position)
        return iter(found), self._at

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[Values]:  # noqa: N802 - Spark's name
        """The rows between two offsets, for a batch that Spark repeats.

        Raises:
            LostPositionError: the master no longer has these changes.
            RefusedError: the history of the group was replaced.
        """
        if start == end:
            return
        with plain_errors(), closing(self._options.subscriber(_position(start)).events()) as events:
            wanted = _position(end).last
            for event in events:
                if not isinstance(event, CommittedTransaction):
                    continue
                if wanted is None or event.point.vlsn > wanted.vlsn:
                    raise RefusedError(
                        "a batch cannot be repeated: the group does not have its last commit",
                        expected=f"VLSN {end['vlsn']}",
                        found=f"VLSN {event.point.vlsn}",
                        hint="begin with a new checkpoint",
                    )
                yield from self._rows.of(event)
                if event.point.vlsn == wanted.vlsn:
                    return

    def _begin(self, start: Offset) -> None:
        if self._events is not None:
            self._events.close()
        self._subscriber = self._options.subscriber(_position(start))
        self._events = self._subscriber.events()


def _decoder(name: str | None) -> Decoder | None:
    """The decoder of the option ``decode``."""
    if name == AUTO:
        raise UsageError("a running group is not recognised", found=f"decode {AUTO}", hint="name the decoder")
    return None if name is None else find(name).decoder(NamesOnly())


def _columns(decoder: Decoder | None) -> dict[str, str]:
    return COLUMNS if decoder is None else COLUMNS | DECODED_COLUMNS


def _offset(position: Position) -> Offset:
    last = position.last
    value = position.as_json()
    # Durable commits are not taken back, so the last commit is enough to continue from.
    value["commits"], value["undos"] = value["commits"][-1:], []
    return {
        "uuid": f"{position.uuid[0]},{position.uuid[1]}",
        "vlsn": last.vlsn if last is not None else position.torn.start - 1,
        "txn": last.txn_id if last is not None else 0,
        _STATE: json.dumps(value, separators=(",", ":")),
    }


def _position(offset: Offset) -> Position:
    try:
        return position_of(json.loads(offset[_STATE]))
    except (FormatError, KeyError, TypeError, ValueError) as error:
        raise RefusedError("the checkpoint is not that of a stream of a group", found=str(error)[:200]) from error


def _tls(chosen: Mapping[str, Any]) -> TlsFiles | None:
    ca, cert, key = (chosen.get(name) for name in ("tlsCa", "tlsCert", "tlsKey"))
    check_host = chosen.get("tlsCheckHost", False)
    if ca is not None:
        return TlsFiles(ca=ca, cert=cert, key=key, check_host=check_host)
    if cert or key or check_host:
        raise UsageError("TLS needs the option tlsCa", hint="it names the certificates that are trusted")
    return None


def _addresses(words: list[str]) -> list[Address]:
    found = []
    for word in words or [""]:
        host, _, port = word.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise UsageError("load needs addresses of nodes", expected="HOST:PORT", found=word or None)
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return found


def _start(_: str, text: str) -> str | int:
    if text.isdigit():
        return int(text)
    if text not in (BEGIN, LATEST):
        raise UsageError("startingOffset says where to begin", expected=f"{BEGIN}, {LATEST} or a VLSN", found=text)
    return text


_OPTIONS: Final = {
    "db": any_text,
    "decode": decoder_option,
    "group": any_text,
    "internal": yes_or_no,
    "maxChanges": whole_number,
    "patience": whole_number,
    "startingOffset": _start,
    "timeout": whole_number,
    "tlsCa": any_text,
    "tlsCert": any_text,
    "tlsCheckHost": yes_or_no,
    "tlsKey": any_text,
}
