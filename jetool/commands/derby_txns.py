"""``txns`` on a Derby database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple

from engine.derby.database import DerbyDatabase
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles
from engine.derby.log_walk import DerbyDamage, walk
from engine.derby.xact_fates import ABORTED, COMMITTED, OPEN, PREPARED, XactFate, fates
from engine.fields import Bool, Choices, Instant, Int, SizeBytes, Text, record
from engine.storage.base import Storage
from jetool.commands.derby_log_ends import find_ends, is_harmful, note_holder, warn_of_ends
from jetool.commands.info.derby_rows import global_id_text
from jetool.frame import exits
from jetool.frame.options import Run

FATES: Final = (COMMITTED, ABORTED, OPEN, PREPARED)


@record("txn")
class DerbyTxn(NamedTuple):
    """One transaction of a Derby log."""

    transaction: Annotated[Int, "its number; numbers start again after each start of the database"]
    fate: Annotated[Text, "what became of it", Choices(FATES)]
    first: Annotated[Instant, "its begin record; null when the record is no longer in the log"]
    last: Annotated[Instant, "its last record"]
    records: Annotated[Int, "its records, begin and end included"]
    clrs: Annotated[Int, "compensation records among them"]
    bytes: Annotated[SizeBytes, "their bytes, envelopes included"]
    internal: Annotated[Bool, "a structure change or a checkpoint"]
    after_end: Annotated[Bool, "its last record is after the end of the log: recovery does not read it"]
    global_id: Annotated[Text | None, "format:global:branch of an XA transaction, the last two in hex"]


@record("summary")
class XactCounts(NamedTuple):
    """Numbers of transactions by fate, including those that were not printed."""

    committed: Annotated[Int, "transactions that are committed"]
    aborted: Annotated[Int, "transactions that are aborted"]
    open: Annotated[Int, "transactions that are open"]
    prepared: Annotated[Int, "transactions that are prepared"]
    after_end: Annotated[Int, "transactions whose last record recovery does not see"]
    printed: Annotated[Int, "transactions above"]
    entries: Annotated[Int, "records read"]
    bad: Annotated[Int, "stretches of damage"]


_STEP: Final = 4096


class _RecordCounter:
    """Yield the records of the log, and count them."""

    def __init__(self, run: Run, log: DerbyLogFiles) -> None:
        self._run, self._log = run, log
        self.records = self.bad = 0

    def __iter__(self) -> Iterator[Record]:
        total = sum(self._log.size(number) for number in self._log.numbers())
        done = 0
        for item in walk(self._log):
            if isinstance(item, DerbyDamage):
                self.bad += 1
                continue
            self.records += 1
            done += item.end - item.instant
            if self.records % _STEP == 0:
                self._run.listener.step("txns", done, total)
            yield item


def print_txns(
    run: Run,
    storage: Storage,
    filters: tuple[tuple[str, ...], tuple[int, ...]],
    limit: int | None,
    *,
    last: bool = False,
    reverse: bool = False,
) -> int:
    """Print the fate of every transaction in the log.

    Arguments:
        run: the run.
        storage: the database directory.
        filters: fates and transactions to print; empty for all.
        limit: most transactions to print.
        last: the limit leaves out the first transactions instead of the last.
        reverse: whether the newest comes first.

    Returns:
        The exit code.
    """
    database = DerbyDatabase(storage)
    database.require_clear()
    controls = database.controls()
    database.require_version(controls)
    note_holder(run, database)
    log = DerbyLogFiles(database)
    ends = find_ends(log, controls)
    # 0 if the end is not known; then no transaction counts as after the end.
    append = ends.end.append if ends.end else 0
    reader = _RecordCounter(run, log)
    found = fates(reader)
    chosen = _chosen(found, filters, limit, last=last, reverse=reverse)
    after_end = sum(bool(append) and one.last >= append for one in found)
    with run.out.stream(DerbyTxn) as stream:
        for one in chosen:
            stream.row(_fate(one, append))
        # Count all transactions, so that the summary does not depend on filters.
        counts = Counter(one.outcome for one in found)
        stream.end(
            XactCounts(
                committed=counts[COMMITTED],
                aborted=counts[ABORTED],
                open=counts[OPEN],
                prepared=counts[PREPARED],
                after_end=after_end,
                printed=len(chosen),
                entries=reader.records,
                bad=reader.bad,
            )
        )
    warn_of_ends(run, database, log, ends)
    # The check reads the log again, so run it only if damage was found.
    harmful = (reader.bad or after_end or ends.end is None) and is_harmful(log, controls)
    return exits.FINDINGS if harmful else exits.DONE


def _chosen(
    found: list[XactFate],
    filters: tuple[tuple[str, ...], tuple[int, ...]],
    limit: int | None,
    *,
    last: bool,
    reverse: bool,
) -> list[XactFate]:
    wanted, ids = filters
    chosen = [one for one in found if (not wanted or one.outcome in wanted) and (not ids or one.number in ids)]
    if reverse or last:
        chosen.reverse()
    chosen = chosen[:limit]
    return chosen[::-1] if last and not reverse else chosen


def _fate(one: XactFate, append: int) -> DerbyTxn:
    after_end = bool(append) and one.last >= append
    return DerbyTxn(
        transaction=one.number,
        fate=one.outcome,
        first=one.first,
        last=one.last,
        records=one.records,
        clrs=one.compensations,
        bytes=one.log_bytes,
        internal=one.internal,
        after_end=after_end,
        global_id=global_id_text(one.global_id),
    )
