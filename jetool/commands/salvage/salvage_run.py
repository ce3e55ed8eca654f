"""Running a salvage: records and findings go to their output files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.diagnosis.losses import of_lost_key
from engine.diagnosis.record import MOST_NAMES
from engine.errors import NotFoundError
from engine.rescue.salvage.collect import Salvage
from engine.rescue.salvage.results import LostVersion, Salvaged, SalvagedRecord
from engine.rescue.salvage.sources import SalvageSource
from jetool.commands.salvage.output_files import SourceFiles
from jetool.commands.salvage.rows import SavedDatabase

if TYPE_CHECKING:
    from engine.diagnosis.record import LostName
    from engine.inspect.contents import DecodingPlan

_LDIF: Final = "ldif"


def save(
    done: Salvage,
    sources: list[SalvageSource],
    staging: Path | None,
    form: str,
    decodings: Sequence[DecodingPlan | None] | None = None,
    names: list[LostName] | None = None,
) -> list[SavedDatabase]:
    """Write all output below a directory (None: write nothing); returns the rows of the databases.

    Arguments:
        decodings: for each source, how its records are decoded in CSV and NDJSON; None for no decoding.
        names: gets the first lost keys by name; None if they are not wanted.
    """
    saved: Counter[int] = Counter()
    lost: Counter[int] = Counter()
    with ExitStack() as stack:
        files = []
        for source, decoding in zip(sources, decodings or [None] * len(sources), strict=True):
            where = None if staging is None else staging / source.name if len(sources) > 1 else staging
            files.append(SourceFiles(where, source.name, "env" if form == _LDIF else form, decoding))
            stack.callback(files[-1].abandon)
            for node in source.nodes:
                for damage in node.survey.damages:
                    files[-1].skipped(node.env, damage)
        for batch in done.batches():
            number = batch[0].database
            database = done.databases[number]
            records = [one for one in batch if isinstance(one, SalvagedRecord)]
            files[database.source].take(number, database, batch, records)
            saved[number] += len(records)
            if database.orphan:
                done.counts["orphans"] += len(records)
            if len(records) < len(batch):
                lost[number] += _note_lost(batch, database.db.name, names)
        for written in files:
            written.close()
        stack.pop_all()
    if form == _LDIF and staging is not None:
        for source in sources:
            _write_entries(staging / source.name if len(sources) > 1 else staging)
    rows = []
    for number, database in enumerate(done.databases):
        source, place = sources[database.source], files[database.source].places.get(number)
        if place is not None and len(sources) > 1:
            place = f"{source.name}/{place}"
        if database.orphan:
            place = "orphans.ndjson" if len(sources) == 1 else f"{source.name}/orphans.ndjson"
        named = database.db
        rows.append(
            SavedDatabase(
                source=source.name,
                name=named.name,
                duplicates=named.duplicates,
                records=saved[number],
                lost=lost[number],
                in_=place,
            )
        )
    return rows


def _note_lost(batch: Sequence[Salvaged], db: str, names: list[LostName] | None) -> int:
    """Add the first lost keys of a batch to the names; returns how many there are."""
    gone = [one for one in batch if isinstance(one, LostVersion)]
    if names is not None:
        room = max(MOST_NAMES - len(names), 0)
        names += [of_lost_key(db, one.key, one.lsn) for one in gone[:room]]
    return len(gone)


def _write_entries(directory: Path) -> None:
    """Write the LDAP entries of the saved environment as LDIF beside it."""
    from jetool.output.ldif import write_ldif

    if not (directory / "env").exists():
        raise NotFoundError("no records were saved, so that there are no entries", file=str(directory), hint="--as env")
    with Environment(directory / "env", EnvironmentConfig(read_only=True)) as env:
        write_ldif(env, directory / "entries.ldif")
