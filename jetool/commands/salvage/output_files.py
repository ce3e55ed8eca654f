"""The files that ``salvage`` writes.

::

    DIR/env/                a new environment                (--as env)
    DIR/NAME.dump           a JE dump of each database       (--as je, or env where the keys are in a Java order)
    DIR/NAME.csv, .ndjson   keys and data in hex, and where each record comes from
    DIR/provenance.ndjson   where each record comes from     (--as env, je)
    DIR/lost.ndjson         keys whose newest version cannot be read
    DIR/doubt.ndjson        newer versions of transactions without an end
    DIR/orphans.ndjson      records of databases that nothing names
    DIR/skipped.ndjson      what could not be read, and why

With several sources, each has its own directory. The name of a database comes from the disk: in a file name, bytes
other than letters, digits, ``.``, ``_`` and ``-`` are written as ``%xx``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from engine.fields import named_row
from engine.format.lsn import NULL_LSN, file_of
from engine.log.entry import REASONS, Damage
from engine.log.files import log_file_name
from engine.rescue.salvage.results import DoubtfulVersion, LostVersion, Salvaged, SalvagedDatabase, SalvagedRecord
from engine.rescue.salvage.target import NewEnvironment
from engine.storage.disk import DiskStorage
from jetool.commands.salvage.provenance import ProvenanceLines
from jetool.commands.salvage.rows import DoubtLine, LostLine, RecordKey, SavedRecord, SkippedStretch
from jetool.frame.decode_option import DecodedFields, decoded, decoded_shape
from jetool.output import jsonl
from jetool.output.base import Encoder, StreamLayout
from jetool.output.csv import CsvEncoder
from jetool.output.je_dump import JeDumpEncoder
from jetool.output.shape import PLAIN

if TYPE_CHECKING:
    from engine.inspect.contents import DecodingPlan

_ENVIRONMENT: Final = "env"
_MOST_NAME: Final = 150
_BUFFER: Final = 1 << 20


class SourceFiles:
    """The files of one source.

    Arguments:
        directory: the output directory; None writes nothing.
        source: the name of the source.
        form: of ``FORMS``.
        decoding: how records are decoded in CSV and NDJSON; None for no decoding.
    """

    def __init__(self, directory: Path | None, source: str, form: str, decoding: DecodingPlan | None = None) -> None:
        self._decoding = decoding
        self._directory = directory
        self._source = source
        self._form = form
        self._environment: NewEnvironment | None = None
        self._records: tuple[int, IO[bytes], Encoder] | None = None
        self._sides: dict[str, IO[bytes]] = {}
        self._provenance: ProvenanceLines | None = None
        self._names: dict[str, int] = {}
        self.places: dict[int, str] = {}
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            # Create these files even if they stay empty, because a missing file would be ambiguous.
            for name in ("lost", "doubt", "orphans", "skipped"):
                self._side(name)

    def take(
        self, number: int, database: SalvagedDatabase, batch: Sequence[Salvaged], records: Sequence[SalvagedRecord]
    ) -> None:
        """Write records, and the findings about some of them.

        Arguments:
            number, database: the database of the batch.
            batch: records and findings.
            records: only the records of the batch.
        """
        if records and not database.orphan and number not in self.places:
            self.places[number] = self._place(database)
        if self._directory is None:
            return
        for one in batch if len(records) < len(batch) else ():
            if isinstance(one, LostVersion):
                self._say("lost", self._lost(database, one))
            elif isinstance(one, DoubtfulVersion):
                self._say("doubt", self._doubtful(database, one))
        if database.orphan:
            for record in records:
                self._say("orphans", self._saved(database, record, DecodedFields()))
        elif records:
            self._write(number, database, records)

    def skipped(self, env: str, damage: Damage) -> None:
        """Note a stretch that could not be read."""
        if self._directory is not None:
            self._say(
                "skipped",
                SkippedStretch(
                    environment=env,
                    file=damage.path,
                    lsn=damage.lsn,
                    bytes=damage.length,
                    reason=REASONS.get(damage.reason, damage.found or damage.reason),
                    found=damage.found_by or "-",
                ),
            )

    def close(self) -> None:
        """Finish all files."""
        self._end_records()
        if self._environment is not None:
            self._environment.close()
        for file in self._sides.values():
            file.close()

    def abandon(self) -> None:
        """Clean up after an error: remove the written files."""
        with contextlib.suppress(Exception):
            self.close()

    def _write(self, number: int, database: SalvagedDatabase, records: Sequence[SalvagedRecord]) -> None:
        if self.places[number] == _ENVIRONMENT:
            if self._environment is None:
                assert self._directory is not None
                place = self._directory / _ENVIRONMENT
                place.mkdir()
                self._environment = NewEnvironment(DiskStorage(place))
            self._environment.put(database, records)
        elif self._form in ("env", "je"):
            file, encoder = self._file_of(number, database)
            assert isinstance(encoder, JeDumpEncoder)
            file.write(encoder.records([(record.key, record.data) for record in records]))
        else:
            file, encoder = self._file_of(number, database)
            saved = [self._saved(database, one, self._meaning(database, one.key, one.data)) for one in records]
            file.write(encoder.rows([named_row(one) for one in saved]))
            return
        if self._provenance is None or self._provenance.number != number:
            self._provenance = ProvenanceLines(number, self._source, database.db.name)
        self._side("provenance").write(self._provenance.lines(records))

    def _file_of(self, number: int, database: SalvagedDatabase) -> tuple[IO[bytes], Encoder]:
        if self._records is not None and self._records[0] == number:
            return self._records[1:]
        self._end_records()
        encoder: Encoder
        layout = StreamLayout((decoded_shape(SavedRecord, self._decoding),))
        if self._form == "csv":
            encoder = CsvEncoder(layout)
        elif self._form == "ndjson":
            encoder = jsonl.NdjsonEncoder(layout)
        else:
            encoder = JeDumpEncoder(duplicates=database.db.duplicates, printable=False)
        assert self._directory is not None
        file = (self._directory / self.places[number]).open("xb", buffering=_BUFFER)
        file.write(encoder.head())
        self._records = number, file, encoder
        return file, encoder

    def _end_records(self) -> None:
        if self._records is not None:
            _, file, encoder = self._records
            if isinstance(encoder, JeDumpEncoder):
                file.write(encoder.foot([]))
            file.close()
            self._records = None

    def _place(self, database: SalvagedDatabase) -> str:
        """The output file for a database: a plain name that cannot point outside the directory."""
        if self._form == "env" and not database.db.comparator:
            return _ENVIRONMENT
        ending, name = self._form if self._form in ("csv", "ndjson") else "dump", database.db.name
        plain = "".join(
            chr(byte) if (chr(byte).isalnum() and byte < 0x80) or byte in b"._-" else f"%{byte:02x}"
            for byte in name.encode("utf-8", "surrogateescape")
        )[:_MOST_NAME]
        # The name must not be hidden or equal to a side file.
        plain = f"db-{plain}" if not plain or plain.startswith(".") or plain in _SIDES else plain
        self._names[plain.lower()] = count = self._names.get(plain.lower(), 0) + 1
        return f"{plain}.{ending}" if count == 1 else f"{plain}~{count}.{ending}"

    def _key(self, database: SalvagedDatabase, one: Salvaged) -> RecordKey:
        return RecordKey(
            source=self._source,
            db=database.db.name,
            key_hex=one.key,
            environment=one.env,
            file="-" if one.lsn == NULL_LSN else log_file_name(file_of(one.lsn)),
            lsn=one.lsn,
        )

    def _saved(self, database: SalvagedDatabase, one: SalvagedRecord, meaning: DecodedFields) -> SavedRecord:
        return SavedRecord(
            **self._key(database, one)._asdict(),
            data_hex=one.data,
            from_=one.origin,
            vlsn=one.vlsn,
            txn=one.txn,
            time=one.time_ms,
            stood_in=one.stood_in,
            confirmed=one.confirmed,
            expiration=one.expiration or None,
            **meaning._asdict(),
        )

    def _lost(self, database: SalvagedDatabase, one: LostVersion) -> LostLine:
        meaning = self._meaning(database, one.key, None)
        return LostLine(**self._key(database, one)._asdict(), stood_in=one.stood_in, **meaning._asdict())

    def _doubtful(self, database: SalvagedDatabase, one: DoubtfulVersion) -> DoubtLine:
        meaning = self._meaning(database, one.key, one.data)
        return DoubtLine(**self._key(database, one)._asdict(), txn=one.txn, data_hex=one.data, **meaning._asdict())

    def _meaning(self, database: SalvagedDatabase, key: bytes, data: bytes | None) -> DecodedFields:
        """The fields of ``--decode``; absent without the option, and for records of databases without a name."""
        if self._decoding is None or database.orphan:
            return DecodedFields()
        return decoded(self._decoding.record(database.db.name, key, data))

    def _say(self, name: str, said: NamedTuple) -> None:
        self._side(name).write(jsonl.record_line(said, PLAIN))

    def _side(self, name: str) -> IO[bytes]:
        file = self._sides.get(name)
        if file is None:
            assert self._directory is not None
            file = self._sides[name] = (self._directory / f"{name}.ndjson").open("xb", buffering=_BUFFER)
        return file


_SIDES: Final = ("lost", "doubt", "orphans", "skipped", "provenance")
