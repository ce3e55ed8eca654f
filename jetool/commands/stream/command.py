"""``jetool stream HOST:PORT...``: print the changes in a running group."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from engine.contents.registry import AUTO, names
from engine.errors import NotFoundError, UsageError
from engine.fields import named_row, shape_of
from engine.inspect.contents import DecodingPlan, decoding_by_name
from engine.inspect.selection import database_id
from engine.rep.changes.after_copy import position_after
from engine.rep.changes.columns import change_values, retraction_values, torn_values
from engine.rep.changes.feed import BEGIN, LATEST
from engine.rep.changes.position import Position
from engine.rep.changes.state_file import StateFile
from engine.rep.changes.subscriber import Quiet, Retraction, Subscriber, SubscriberSettings
from engine.rep.changes.transactions import CommittedTransaction
from engine.rep.client.connection import Address, Network
from engine.rep.client.group_state import check_group
from engine.storage.disk import DiskStorage
from jetool.commands.stream import rows
from jetool.commands.stream.column_files import row_file
from jetool.commands.stream.files import FILE_BYTES, FILE_SECONDS, ChangeFiles
from jetool.commands.stream.idleness import BEHIND, Idleness
from jetool.commands.stream.stream_options import COLUMN_FORMATS, NDJSON, stream_options
from jetool.frame import exits
from jetool.frame.command import Outputs, command
from jetool.frame.decode_option import decode_option, decoded_shape, decoding_for
from jetool.frame.environments import open_to_read
from jetool.frame.kinds import require_je
from jetool.frame.networks import network_of
from jetool.frame.options import Run
from jetool.output.base import Encoder, OutputStream, StreamLayout
from jetool.output.jsonl import NdjsonEncoder

_SAVE_S: Final = 1.0
_BATCH: Final = 1000


def _check(
    run: Run,
    *,
    group: str | None,
    begin: str | None,
    state: str | None,
    to: str | None,
    limit: int | None,
    until_idle: float | None,
    after: str | None,
    file_size: int | None,
    file_seconds: float | None,
    file_format: str | None,
    decode: str | None,
    **_: object,
) -> None:
    if group is not None:
        check_group(group)
    if run.out.format in ("json", "csv") and limit is None and until_idle is None:
        raise UsageError(
            f"the stream has no end, which --format {run.out.format} needs", hint="add --format ndjson, or --limit"
        )
    if to is not None and (state is not None or _is_file(begin)):
        raise UsageError("the directory of --out keeps its own state", hint="leave the state file out")
    if state is not None and _is_file(begin):
        raise UsageError("the state file is given twice, by --from and --state")
    if after is not None and begin is not None:
        raise UsageError("--from and --after both set the start of the stream")
    if to is None and any(given is not None for given in (file_size, file_seconds, file_format)):
        raise UsageError("--file-format, --file-size and --file-seconds are for --out")
    if decode == AUTO and after is None:
        raise UsageError(
            "--decode auto cannot recognise the application from a stream",
            hint=f"name the decoder ({', '.join(names())}), or a copy of a node with --after",
        )
    if decode is not None and file_format in COLUMN_FORMATS:
        raise UsageError(f"--decode is not for --file-format {file_format}", hint="write ndjson, or leave one out")
    if file_format in COLUMN_FORMATS:
        row_file(file_format)


def _is_file(begin: str | None) -> bool:
    return begin not in (None, BEGIN, LATEST) and not (begin or "").isdigit()


@command(
    "stream",
    check=_check,
    outputs=lambda: Outputs(
        "stream",
        (rows.StreamedChange, rows.StreamedTransaction, rows.StreamRetraction, rows.ChangeFile),
        rows.StreamSummary,
    ),
    formats=("ndjson", "text", "json", "csv"),
    features=("fields", "times", "keys", "tls"),
    examples=(
        ("Commits from now on", "jetool stream fe1:9010 fe2:9010"),
        (
            "All changes of one database, until nothing new arrives for 10 s",
            "jetool stream fe1:9010 --from begin --db orders --until-idle 10",
        ),
        (
            "Continuously, each transaction exactly once, in files",
            "jetool stream fe1:9010 --from begin --out /data/changes",
        ),
        ("The same in Parquet", "jetool stream fe1:9010 --from begin --out /data/changes --file-format parquet"),
        (
            "All changes after a copy (jetool backup fe1:9010, jetool restore), without a gap",
            "jetool stream fe1:9010 --after /data/fe --out /data/changes",
        ),
        ("What a Doris frontend commits, decoded", "jetool stream fe1:9010 --from begin --decode doris"),
        ("Continue where the last run ended", "jetool stream fe1:9010 --state orders.state --from begin"),
    ),
    exits={
        exits.DONE: "ended by --limit, --until-idle, SIGTERM or SIGINT",
        exits.REFUSED: (
            "the group or its UUID is another one, the master refuses, or the state file or the directory is not one "
            "of this command; --durable: the group does not report what is durable"
        ),
        exits.NOT_FOUND: "no node answers, or the VLSN is not there yet",
        exits.UNSUPPORTED: "a release of JE outside 7.3 to 25.3, or the group refuses the release of this client",
        exits.INCOMPLETE: (
            "--until-idle ended the run before everything was read, the place to continue from no longer exists, no "
            "master for too long, the reader is too slow, or (--durable) the group has rolled back durable "
            "transactions; the state file has the position"
        ),
    },
)
@stream_options
@decode_option
def stream(run: Run, /, addresses: tuple[Address, ...], **options: Any) -> int:
    """Print the commits of a running group, transaction by transaction, in commit order.

    The command uses JE's own protocol, without Java: a node of type EXTERNAL follows the current master. It never
    counts for acknowledgements or elections, writes nothing in the group, and leaves before the master has to keep
    files for it. Each change is a row, and the row of the transaction follows its changes. Names of databases come from
    the stream: with --from begin all names are known; with --from now, only those of databases created since; with
    --after, those of all databases of the environment. Transactions that were open at the end of that environment are
    printed whole when they commit. Expiration of a record is not a change. A range that the application discards at
    once (discardExtinctRecords) is one change: op discard removes all records from its key up to its data (exclusive);
    op discard_some removes only records that the application's filter selects.

    Files of --out are NDJSON as printed, or Avro or Parquet with the columns of the Spark source jegroup. In those two,
    a torn transaction without any change is a row with op torn, and with --fast a row with op retract revokes the
    commits after its VLSN.

    A state file lets a later run continue the stream. With --out, each transaction is written exactly once, however the
    run ends; printed transactions are repeated only if the run was killed. SIGTERM and SIGINT end the run cleanly.
    """
    files = begin = None
    network = network_of(run)
    copy = DiskStorage(options["after"]) if options["after"] is not None else None
    if copy is not None:
        require_je(copy)
    state = StateFile.at(options["state"]) if options["state"] is not None else None
    if _is_file(options["begin"]):
        state = StateFile.at(options["begin"])
        if state.read() is None:
            raise NotFoundError("no such state file", file=options["begin"], hint="--state makes one")
    if options["to"] is not None:
        size, seconds = options["file_size"], options["file_seconds"]
        form = options["file_format"] or NDJSON
        files = ChangeFiles(
            options["to"],
            form,
            size or FILE_BYTES,
            FILE_SECONDS if seconds is None else seconds,
            row_file(form) if form in COLUMN_FORMATS else None,
        )
        begin = files.begin()
    elif state is not None:
        found = state.read()
        begin = found[0] if found is not None else None
    try:
        decoding, decode = None, options["decode"]
        if copy is not None and (begin is None or decode is not None):
            with open_to_read(run, copy.root) as opened:
                begin = begin or position_after(opened, copy, run.listener)
                decoding = decoding_for(run, opened, decode)
        elif decode is not None:
            decoding = decoding_by_name(decode)
        return _Printing(run, network, addresses, options, begin, state, files, decoding).run()
    finally:
        if files is not None:
            files.close()


class _Printing:
    """One run."""

    def __init__(
        self,
        run: Run,
        network: Network,
        addresses: tuple[Address, ...],
        options: dict[str, Any],
        begin: Position | None,
        state: StateFile | None,
        files: ChangeFiles | None,
        decoding: DecodingPlan | None,
    ) -> None:
        self._run = run
        self._decoding = decoding
        self._options = options
        self._state = state
        self._files = files
        self._wanted = frozenset(options["names"])
        self._ids = frozenset(map(database_id, self._wanted))
        # Ids of databases for which a warning was printed.
        self._named: set[int] = set()
        self._transactions = self._changes = self._retractions = 0
        self._json_names: dict[str | None, str] = {}
        self._encoder: Encoder
        self._fast = False
        self._in_columns = options["file_format"] in COLUMN_FORMATS
        settings = SubscriberSettings(
            group=options["group"],
            durable=options["durable"],
            timeout_s=options["timeout"],
            patience_s=options["patience"],
            hold_bytes=options["max_hold"],
            force=options["force"],
        )
        start = options["begin"] or LATEST
        idle = options["until_idle"]
        self._idleness = Idleness(idle, options["timeout"], time.monotonic()) if idle is not None else None
        self._subscriber = Subscriber(
            network, addresses, settings, begin or (int(start) if start.isdigit() else start), self._notice
        )

    def run(self) -> int:
        """Print the stream until it ends."""
        out = self._run.out
        printed = (decoded_shape(rows.StreamedChange, self._decoding), rows.StreamedTransaction, rows.StreamRetraction)
        with _stopping() as stopped, out.stream(*(printed if self._files is None else (rows.ChangeFile,))) as stream:
            to_file = self._files is not None
            self._encoder = (
                NdjsonEncoder(StreamLayout(tuple(map(shape_of, printed)), None, out.style))
                if to_file
                else stream.encoder
            )
            plain = self._decoding is None and rows.is_plain(out.style) and (to_file or out.selected is None)
            self._fast = plain and (to_file or out.format == "ndjson")
            ended = self._follow(stream, stopped)
            self._save(stream)
            position = self._subscriber.position
            last = position.last if position is not None else None
            stream.end(
                rows.StreamSummary(
                    group=position.group if position is not None else None,
                    transactions=self._transactions,
                    changes=self._changes,
                    retractions=self._retractions,
                    connections=self._subscriber.connections,
                    last_vlsn=last.vlsn if last is not None else None,
                    ended=ended,
                )
            )
        if ended == BEHIND:
            assert self._idleness is not None
            self._run.messages.warning(
                f"nothing new has come for {self._idleness.quiet_s:.0f} s, and not everything is read",
                found=self._idleness.why,
                consequence="the output is complete up to the last VLSN of the summary; later ones are missing",
                hint="jetool group show shows the nodes; stream again from that VLSN, or with the state file",
            )
            return exits.INCOMPLETE
        return exits.DONE

    def _follow(self, stream: OutputStream, stopped: list[int]) -> str:
        limit, idleness = self._options["limit"], self._idleness
        saved = time.monotonic()
        events = self._subscriber.events()
        try:
            for event in events:
                if isinstance(event, Quiet):
                    stream.flush()
                    now = time.monotonic()
                    if now - saved >= _SAVE_S:
                        self._save_due(stream)
                        saved = now
                    ended = idleness.ended(event, self._subscriber.newest_vlsn, now) if idleness is not None else None
                    if ended is not None:
                        return ended
                elif isinstance(event, Retraction):
                    self._retracted(stream, event)
                    if idleness is not None:
                        idleness.news(time.monotonic())
                elif self._printed(stream, event):
                    if idleness is not None:
                        idleness.news(time.monotonic())
                    if self._files is not None and self._files.is_due:
                        self._save(stream)
                    if self._transactions == limit:
                        return "limit"
                if stopped:
                    return "signal"
        finally:
            events.close()
        raise AssertionError

    def _printed(self, stream: OutputStream, transaction: CommittedTransaction) -> bool:
        """Print a transaction, unless none of its changes is wanted."""
        point = transaction.point
        changes = transaction.changes(internal=self._options["internal"])
        if self._wanted:
            changes = (change for change in changes if self._wants(change.db, change.db_id))
        count = 0
        # Print the changes in batches, because a transaction may not fit into memory.
        while batch := list(islice(changes, _BATCH)):
            count += len(batch)
            if self._files is not None and self._in_columns:
                self._files.write_rows(point.vlsn, change_values(transaction, batch))
                continue
            if self._fast:
                data = rows.fast_lines(batch, point.txn_id, self._json_names)
            else:
                shown = [rows.streamed_change(one, point.txn_id, self._decoding) for one in batch]
                data = self._encoder.rows([named_row(one) for one in shown])
            self._write(stream, point.vlsn, data)
        # For a transaction that arrived without its changes (torn), print only the end, which states that they are
        # missing.
        if not count and (self._wanted or not transaction.torn):
            return False
        if self._files is not None and self._in_columns:
            if not count:
                self._files.write_rows(point.vlsn, [torn_values(transaction)])
        else:
            end = rows.streamed_transaction(transaction, count)
            self._write(stream, point.vlsn, self._encoder.rows([named_row(end)]))
        self._transactions += 1
        self._changes += count
        if self._files is not None:
            self._files.count(count)
        return True

    def _retracted(self, stream: OutputStream, retraction: Retraction) -> None:
        self._retractions += 1
        self._notice("the group has another history", f"what came after VLSN {retraction.to_vlsn} does not count")
        if self._files is not None and self._in_columns:
            self._files.write_rows(retraction.to_vlsn, [retraction_values(retraction.to_vlsn, datetime.now(UTC))])
            return
        data = self._encoder.rows([named_row(rows.stream_retraction(retraction))])
        self._write(stream, retraction.to_vlsn, data)

    def _write(self, stream: OutputStream, vlsn: int, data: bytes) -> None:
        if self._files is not None:
            self._files.write(vlsn, data)
        else:
            stream.write(data)

    def _wants(self, name: str | None, db_id: int) -> bool:
        if name in self._wanted or db_id in self._ids:
            return True
        # A number in --db is a name, so warn if the user seems to mean an id.
        if (name is None or str(db_id) in self._wanted) and db_id not in self._named:
            self._named.add(db_id)
            self._run.messages.warning(
                f"the stream has not told the name of database {db_id}"
                if name is None
                else f"{db_id} is the id of database {name!r}, and --db takes names",
                consequence="its changes are left out",
                hint=f"begin with --from begin, or name it by its id: --db id:{db_id}",
            )
        return False

    def _save_due(self, stream: OutputStream) -> None:
        if self._files is None or self._files.is_due:
            self._save(stream)

    def _save(self, stream: OutputStream) -> None:
        """Save the position; everything up to it has been printed."""
        position = self._subscriber.position
        if position is None:
            return
        if self._files is not None:
            finished = self._files.finish(position)
            if finished is not None:
                stream.row(
                    rows.ChangeFile(
                        path=finished.path,
                        first_vlsn=finished.first_vlsn,
                        last_vlsn=finished.last_vlsn,
                        transactions=finished.transactions,
                        changes=finished.changes,
                        bytes=finished.size_bytes,
                    )
                )
                stream.flush()
        elif self._state is not None:
            stream.flush()
            self._state.write(position)

    def _notice(self, text: str, found: str) -> None:
        self._run.messages.warning(text, found=found)


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """Signals that request the end of the run: the first one is noted, the next one has its usual effect."""
    seen: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def note(number: int, _: object) -> None:
        seen.append(number)
        for each, handler in before.items():
            signal.signal(each, handler)

    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
