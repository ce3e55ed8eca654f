"""Sources for kinds of contents (``engine.contents.base.Source``), and decoding the records of an environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.contents.base import DecodedRecord, Decoder, unknown
from engine.contents.registry import AUTO, decode, find, recognise
from engine.errors import DamageError, FormatError, NotFoundError
from engine.format.bytecursor import split_two_part_key
from engine.format.entry.db_tree import DbTree
from engine.format.entry.ln import LN
from engine.format.entry_types import USER_LNS
from engine.inspect.database_name import database_name, database_names
from engine.log.entry import LogEntry
from engine.log.files import LogFiles
from engine.log.scan import LogScan

if TYPE_CHECKING:
    # Log samples need no open environment.
    from engine.db.environment import Environment

# Entries sampled from the last log file, to identify an environment without recovering it.
_MOST_ENTRIES: Final = 3000


class EnvironmentSource:
    """An open environment.

    Arguments:
        env: the environment; the caller closes it.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._names = env.database_names()

    @property
    def names(self) -> Sequence[str]:
        """Names of the databases, without JE's own."""
        return self._names

    def records(self, name: str, limit: int, *, last: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """At most ``limit`` records from the start, or with ``last`` the end, of a database; stops at damage."""
        try:
            with self._env.open_database(name) as db:
                yield from islice(db.items(reverse=last), limit)
        except (DamageError, NotFoundError):
            return

    def comparators(self) -> Mapping[str, str]:
        """The Java comparator class of each database that has one, by database name."""
        found = {}
        for name in self._names:
            with self._env.open_database(name) as db:
                if db.state.order.comparator is not None:
                    found[name] = db.state.order.comparator
        return found


class NamesOnly:
    """A source with the names of databases only; it has no records.

    Arguments:
        names: names of its databases.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = names

    def records(self, name: str, limit: int, *, last: bool = False) -> Iterator[tuple[bytes, bytes]]:  # noqa: ARG002
        """Nothing."""
        return iter(())

    def comparators(self) -> Mapping[str, str]:
        """Nothing."""
        return {}


class LogSample(NamesOnly):
    """A source with the records of the last log file, in log order, not in key order.

    Arguments:
        names: names of its databases.
        records: by database.
    """

    def __init__(self, names: Sequence[str], records: Mapping[str, Sequence[tuple[bytes, bytes]]]) -> None:
        super().__init__(names)
        self._records = records

    def records(self, name: str, limit: int, *, last: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The sampled records of a database."""
        found = self._records.get(name, ())
        return islice(reversed(found) if last else iter(found), limit)


def sample_log(log: LogScan, files: LogFiles, root: DbTree) -> LogSample:
    """A source with the database names of the last checkpoint, and records of the last log file.

    Arguments:
        log: the environment.
        files: the log files.
        root: newest DbTree of a complete checkpoint.

    Raises:
        StorageError: a file cannot be read.
    """
    names: dict[int, str | None] = {}
    found: dict[str, list[tuple[bytes, bytes]]] = {}
    for item in islice(log.between(files.files[-1].number << 32).entries() if files.files else (), _MOST_ENTRIES):
        if not isinstance(item, LogEntry) or item.type_number not in USER_LNS or item.invisible:
            continue
        try:
            record = item.record()
        except (FormatError, IndexError, ValueError):
            continue
        if isinstance(record, LN) and record.key is not None and record.data is not None:
            if record.db_id not in names:
                names[record.db_id] = database_name(log, root, record.db_id)
            found.setdefault(names[record.db_id] or "", []).append((record.key, record.data))
    return LogSample(database_names(log, root), found)


class DecodingPlan(NamedTuple):
    """How to decode the records of one environment; plain data that can be sent to other processes.

    Attributes:
        title: the application that the environment belongs to.
        decoder: decodes the records.
        databases: names of databases by id, without JE's own.
        duplicates: ids of the databases with sorted duplicates.
    """

    title: str
    decoder: Decoder
    databases: Mapping[int, str]
    duplicates: frozenset[int]

    def record(self, database: str, key: bytes, data: bytes | None) -> DecodedRecord:
        """Decode a record; for a deletion only the key."""
        found = decode(self.decoder, database, key, b"" if data is None else data)
        return found if data is not None else found._replace(data=None)

    def logged(self, db_id: int, key: bytes, data: bytes | None) -> DecodedRecord | None:
        """Decode a record of the log. With sorted duplicates its key contains both the key and the data item.

        Returns:
            None for a record of an internal or removed database.
        """
        name = self.databases.get(db_id)
        if name is None:
            return None
        if db_id in self.duplicates:
            try:
                key, data = split_two_part_key(key)
            except (FormatError, IndexError, ValueError):
                return unknown(key, b"")
        return self.record(name, key, data)


def decoding_by_name(name: str) -> DecodingPlan:
    """How the records of a product are decoded where there is no environment, in a stream.

    Raises:
        UsageError: no kind has that name.
    """
    kind = find(name)
    return DecodingPlan(kind.title, kind.decoder(NamesOnly()), {}, frozenset())


def decoding_of(env: Environment, name: str) -> DecodingPlan | None:
    """How to decode the records of an open environment.

    Arguments:
        name: name of a kind of contents, or ``AUTO``.

    Returns:
        None for an environment of an unknown application.

    Raises:
        UsageError: no kind has that name.
    """
    source = EnvironmentSource(env)
    kind = recognise(source) if name == AUTO else find(name)
    if kind is None:
        return None
    catalog = env.engine.catalog
    databases = {db_id: db_name for db_name, db_id in catalog.names()}
    states = {db_id: catalog.by_id(db_id) for db_id in databases}
    duplicates = frozenset(db_id for db_id, state in states.items() if state is not None and state.duplicates)
    return DecodingPlan(kind.title, kind.decoder(source), databases, duplicates)
