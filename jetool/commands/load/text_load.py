"""``jetool load`` of CSV and JSON lines without pyarrow, through the engine.

The records are sorted in a scratch file and put in key order, in transactions of ``--batch`` records. The result is the
same as that of the pipeline; one process does the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.catalog.name_operations import DatabaseOptions
from engine.db.database import Database
from engine.db.environment import Environment
from engine.errors import JetoolError, JobError, plural
from engine.log.files import list_log_files
from engine.pipeline.load.input import sources, text_records
from engine.pipeline.load.input.recipe import RecordForm, resolve
from engine.pipeline.load.plan import UNCHANGED, LoadResult
from engine.pipeline.load.reject_file import RejectedRecord, RejectFile
from engine.pipeline.python_side import (
    COLUMN_PACKAGES,
    INSTALL_COLUMN_PACKAGES,
    missing_columns,
    require,
    require_columns,
)
from engine.storage.disk import DiskStorage
from engine.storage.sidecar import access_of
from engine.storage.sorted_pairs import in_byte_order
from engine.txn.payload import PutMode
from engine.txn.txn import Durability
from jetool.commands.load import pipeline
from jetool.commands.load.held_signals import HeldSignals
from jetool.frame.environments import lead_if_replicated, open_to_write, require_database, require_place
from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.catalog.catalog import Catalog

_RANK_BYTES: Final = 8
_SHOWN_BYTES: Final = 32


class _TextLoad:
    """One load."""

    def __init__(
        self, run: Run, request: pipeline.LoadRequest, source: text_records.TextSource, form: RecordForm
    ) -> None:
        self._run, self._request = run, request
        self._source, self._form = source, form
        self.read = self.rejected = self.duplicates = self.records = self.refused = 0

    def pairs(self, rejects: RejectFile | None) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values in key order, one value for each key.

        Raises:
            JobError: equal keys, and none may be dropped.
        """
        self.read = self.rejected = self.duplicates = 0
        keep = self._request.on_duplicate
        for key, same in groupby(in_byte_order(self._ranked(rejects), self._run.listener), key=itemgetter(0)):
            chosen, seen = b"", 0
            # Only one value of a key is held, however often the source repeats it.
            for seen, (_, value) in enumerate(same, 1):
                if seen > 1 and keep == "error":
                    raise JobError("two records have the same key", found=f"0x{key[:_SHOWN_BYTES].hex()}")
                chosen = chosen if seen > 1 and keep == "first" else value
            self.duplicates += seen - 1
            yield key, chosen[_RANK_BYTES:]

    def _ranked(self, rejects: RejectFile | None) -> Iterator[tuple[bytes, bytes]]:
        """Keys, and values with their rank in the source before them; the rank orders records with equal keys."""
        for found in text_records.records(self._source, self._form):
            self.read += 1
            if isinstance(found, RejectedRecord):
                self.rejected += 1
                if rejects is not None:
                    rejects.add(found)
                continue
            yield found[0], self.read.to_bytes(_RANK_BYTES, "big") + found[1]

    def sorted_pairs(self, rejects: RejectFile | None) -> Iterator[tuple[bytes, bytes]]:
        """``pairs``, after the whole source was read and sorted.

        Raises:
            JetoolError: nothing was changed.
        """
        pairs = self.pairs(rejects)
        try:
            first = list(islice(pairs, 1))
        except JetoolError as error:
            error.consequence = UNCHANGED
            raise
        return chain(first, pairs)

    def put(self, env: Environment, db: Database, pairs: Iterator[tuple[bytes, bytes]]) -> None:
        """Put all records, in transactions.

        Raises:
            JetoolError: a record cannot be put; the error states how many records were put before it.
        """
        mode = PutMode.OVERWRITE if self._request.overwrite else PutMode.INSERT_ONLY
        more = True
        try:
            with HeldSignals() as held:
                while more:
                    done, more = self._put_batch(env, db, pairs, mode, held)
                    # Count after the commit, because an error before it rolls the batch back.
                    self.records, self.refused = self.records + done[0], self.refused + done[1]
                    held.release()
                    self._run.listener.step("load", self.records, 0)
        except JetoolError as error:
            error.consequence = f"{plural(self.records, 'record is', 'records are')} in the database and durable"
            error.hint = "remove the cause and run the same command again"
            raise

    def _put_batch(
        self, env: Environment, db: Database, pairs: Iterator[tuple[bytes, bytes]], mode: PutMode, held: HeldSignals
    ) -> tuple[tuple[int, int], bool]:
        """Put one batch in a transaction; returns the numbers of records written and refused, and whether there may be
        more records.
        """
        written = refused = 0
        more = False
        with env.begin(durability=Durability.SYNC) as txn:
            for key, value in pairs:
                held.hold()
                done = db.put(key, value, txn, mode=mode)
                held.release()
                written += done
                refused += not done
                if written + refused >= self._request.batch:
                    more = True
                    break
            held.hold()
        return (written, refused), more


def load(run: Run, request: pipeline.LoadRequest) -> pipeline.LoadReport:
    """Load the sources. If the request needs the pipeline, the error names the packages to install.

    Raises:
        UnsupportedError: the source or an option needs pyarrow. JetoolError: as ``_TextLoad.put`` says.
    """
    layout = sources.layout_of(request.paths(), request.source_format, request.delimiter, header=request.header)
    if request.engine == "spark" or run.master is not None or run.conf:
        require("pyspark", "pandas", *COLUMN_PACKAGES)
    for is_asked, option in (
        (request.resume, "--resume"),
        (request.order_by is not None, "--order-by"),
        (request.value_format == "avro", "--value-format avro"),
        (not text_records.is_readable(layout), f"a source in the format {layout.name}"),
    ):
        if is_asked:
            require_columns(option)
    if request.rejects is not None:
        require_place(request.rejects, "--rejects")
    list_log_files(DiskStorage(request.env))
    source = text_records.open_source(layout)
    form = resolve(pipeline.wanted(request), layout.form, tuple(source.kinds), source.style)
    work = _TextLoad(run, request, source, form)
    run.messages.notice(
        f"without {missing_columns()}, the source is read line by line, in one process",
        hint=f"{INSTALL_COLUMN_PACKAGES}  reads faster, and Parquet and ORC files too",
    )
    if request.on_duplicate == "error" or run.dry_run:
        # Read everything once before the load: equal keys must be an error before anything changes, and a dry run only
        # counts.
        work.records = sum(1 for _ in work.sorted_pairs(None))

    def check(catalog: Catalog) -> None:
        if not request.create:
            require_database(request.env, request.db, "--create makes it")(catalog)

    with ExitStack() as stack:
        rejects = None
        if not run.dry_run:
            rejects = stack.enter_context(RejectFile(pipeline.rejects_directory(request), access_of(request.env)))
        env = stack.enter_context(open_to_write(run, request.env, check=check))
        lead_if_replicated(env)
        created = request.db not in env.database_names() and not run.dry_run
        if not run.dry_run:
            work.records = 0
            pairs = work.sorted_pairs(rejects)
            db = env.create_database(request.db, DatabaseOptions()) if created else env.open_database(request.db)
            with db:
                work.put(env, db, pairs)
    path: Path | None = None if rejects is None else rejects.path
    loaded = LoadResult(
        read=work.read,
        records=work.records,
        rejected=work.rejected,
        duplicates=work.duplicates,
        files=0,
        size=0,
        rejects=path,
    )
    return pipeline.LoadReport(loaded, work.refused, created, None)
