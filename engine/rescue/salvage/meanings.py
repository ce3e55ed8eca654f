"""Decoding of salvaged records, even if nothing can be recovered.

Decoders examine records to recognise an environment, and to read catalogs of classes or tokens. If recovery gives the
records of a source, decoders examine the recovered environment. Otherwise the salvage is run once before, and the first
and last records of each database are kept for the decoders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from engine.contents.registry import AUTO, find, recognise
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError, NotFoundError, UsageError
from engine.inspect.contents import DecodingPlan, decoding_of
from engine.log.files import list_log_files
from engine.rescue.salvage.collect import Salvage
from engine.rescue.salvage.results import SalvagedRecord
from engine.rescue.salvage.scan import survey_log
from engine.rescue.salvage.sources import SalvageNode, SalvageSource
from engine.storage.base import Storage

# Catalogs are small, and are completely contained in the first records. The least number of records kept of each
# database, and the most bytes kept of all databases together.
_FEW: Final = 300
_MOST_BYTES: Final = 64 << 20


class SalvagedRecords:
    """Salvaged records in the form that decoders examine (``engine.contents.base.Source``).

    Arguments:
        source: the source to salvage; its logs have been read.
    """

    def __init__(self, source: SalvageSource) -> None:
        self._first: dict[str, list[tuple[bytes, bytes]]] = {}
        self._last: dict[str, deque[tuple[bytes, bytes]]] = {}
        left = _MOST_BYTES
        done = Salvage([source])
        for one in done.rows():
            database = done.databases[one.database]
            if not isinstance(one, SalvagedRecord) or database.orphan:
                continue
            first = self._first.setdefault(database.db.name, [])
            if left > 0 or len(first) < _FEW:
                first.append((one.key, one.data))
                left -= len(one.key) + len(one.data)
            self._last.setdefault(database.db.name, deque(maxlen=_FEW)).append((one.key, one.data))
        self.names: Sequence[str] = sorted({found.db.name for found in done.databases if not found.orphan})

    def records(self, name: str, limit: int, *, last: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The first or the last of the kept records of a database, at most ``limit``."""
        return islice(reversed(self._last.get(name, ())) if last else self._first.get(name, ()), limit)

    def comparators(self) -> Mapping[str, str]:
        """Empty: the name of the comparator class is not kept."""
        return {}


def decoding_of_source(source: SalvageSource, name: str) -> DecodingPlan | None:
    """How to decode the records of a source.

    Arguments:
        name: name of a decoder, or ``AUTO``.

    Returns:
        None if no decoder recognises the records.

    Raises:
        UsageError: there is no decoder of that name.
    """
    if source.base is not None:
        with Environment(source.nodes[source.base].env, EnvironmentConfig(read_only=True)) as env:
            return decoding_of(env, name)
    records = SalvagedRecords(source)
    kind = recognise(records) if name == AUTO else find(name)
    if kind is None:
        return None
    known = {db_id: db for node in source.nodes for db_id, db in node.survey.dbs.items()}
    return DecodingPlan(
        kind.title,
        kind.decoder(records),
        {db_id: db.name for db_id, db in known.items()},
        frozenset(db_id for db_id, db in known.items() if db.duplicates),
    )


def decoding_of_log(storage: Storage, name: str) -> DecodingPlan | None:
    """How to decode the records of a log; see ``decoding_of_source``.

    Raises:
        NotFoundError: no environment.
    """
    try:
        with Environment(storage, EnvironmentConfig(read_only=True)) as env:
            problem = env.unseen
            if problem is None:
                return decoding_of(env, name)
    except (UsageError, NotFoundError):
        raise
    except JetoolError as error:
        problem = str(error)
    node = SalvageNode(storage.root, list_log_files(storage), survey_log(storage.root), problem)
    return decoding_of_source(SalvageSource(storage.root, (node,), None), name)
