"""``dump-log`` on a Derby database.

First the end of the log is found in the same way as by recovery, so that each record is known to be before or after it.
Then the whole log is read, continuing after damage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from engine.derby.database import DerbyDatabase
from engine.derby.explain import explain
from engine.derby.format import instant
from engine.derby.format.operations.transaction import Checksum
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles
from engine.derby.log_walk import DerbyDamage, RecordSelection, walk
from engine.errors import DamageError
from engine.events import heard
from engine.fields import named_row
from engine.storage.base import Storage
from jetool.commands.derby_log_ends import find_ends, is_harmful, note_holder, warn_of_ends
from jetool.commands.dump_log import derby_statistics
from jetool.commands.dump_log.derby_rows import ENTRY, BadPlace, bad_place, entry_row
from jetool.commands.dump_log.derby_selection import operation_list, refuse_foreign, selection
from jetool.commands.dump_log.derby_text import heading, text_line
from jetool.commands.dump_log.modes import refuse_together
from jetool.commands.dump_log.rows import DumpSummary
from jetool.frame import exits
from jetool.frame.options import Run
from jetool.output.base import OutputStream

_BATCH: Final = 500
_STEP: Final = 4096

Item = Record | DerbyDamage


def dump_database(run: Run, storage: Storage, options: dict[str, Any]) -> int:
    """Print the log of a Derby database.

    Arguments:
        run: the run.
        storage: the database directory.
        options: the parameters of the command.

    Returns:
        The exit code.

    Raises:
        UsageError: options without a meaning for Derby, or options that exclude each other.
        UnsupportedError: encrypted, or of an unknown release.
        DamageError: with ``--stop-on-error``, at the first damage.
    """
    refuse_foreign(options, run.out.format)
    refuse_together(options, "tail", ("limit",))
    if any(not types.words for types in options["types"]):
        run.out.text(operation_list())
        return exits.DONE
    dump = _Dump(run, storage, options)
    return dump.count() if options["stats"] else dump.print()


class _Dump:
    """One run."""

    def __init__(self, run: Run, storage: Storage, options: dict[str, Any]) -> None:
        database = DerbyDatabase(storage)
        database.require_clear()
        controls = database.controls()
        database.require_version(controls)
        self._run, self._options = run, options
        self._database, self._controls = database, controls
        self._log = DerbyLogFiles(database)
        self._ends = find_ends(self._log, controls)
        self._selection = selection(database, self._log, options, self._ends)
        # 0 if the end is not known; then no record counts as after the end.
        self._append = self._ends.end.append if self._ends.end else 0
        self._total = sum(self._log.size(number) for number in self._numbers())
        self._entries = self._bad = self._skipped = self._after_end = 0
        note_holder(run, database)
        self._explained = {one.record.instant: one for one in explain(storage)} if options["explain"] else {}

    def print(self) -> int:
        """Print records and damage, then the summary."""
        plain = self._run.out.format == "text" and not self._run.out.selected
        with self._run.out.stream(ENTRY, BadPlace, line=text_line if plain else None) as stream:
            if plain:
                stream.write(f"{heading(self._run.out.style.width)}\n".encode())
            self._write(stream, self._items())
            stream.end(self._summary())
        return self._code()

    def count(self) -> int:
        """Count records and print a table."""
        refuse_together(self._options, "stats", ("limit", "tail", "reverse", "explain"))
        totals: derby_statistics.Counts = {}
        for item in self._forward():
            self._note(item)
            if isinstance(item, Record):
                derby_statistics.add(totals, self._options["stats"], item)
        derby_statistics.print_counts(self._run, totals, self._summary())
        return self._code()

    def _summary(self) -> DumpSummary:
        return DumpSummary(
            entries=self._entries,
            bad=self._bad,
            skipped_bytes=self._skipped,
            files=len(self._numbers()),
            complete=True,
        )

    def _write(self, stream: OutputStream, items: Iterable[Item]) -> None:
        batch: list[tuple[str, Any]] = []
        for item in items:
            self._note(item)
            batch.append(self._row(item))
            stop = isinstance(item, DerbyDamage) and not self._options["keep_going"]
            if stop or len(batch) >= _BATCH:
                # Records before the damage are printed before the run stops.
                stream.write(stream.encoder.rows(batch))
                batch = []
            if stop and isinstance(item, DerbyDamage):
                raise self._stopped(item)
        if batch:
            stream.write(stream.encoder.rows(batch))

    def _note(self, item: Item) -> None:
        if isinstance(item, DerbyDamage):
            self._bad += 1
            self._skipped += item.skipped_bytes
            return
        self._entries += 1
        self._after_end += self._is_after_end(item)

    def _row(self, item: Item) -> tuple[str, Any]:
        if isinstance(item, DerbyDamage):
            return named_row(bad_place(item, self._log.path(instant.file_of(item.at))))
        matches = self._log.group_matches(item) if isinstance(item.operation, Checksum) else None
        after_end = self._is_after_end(item)
        explained = self._explained.get(item.instant)
        data = self._options["data"]
        return "entry", entry_row(item, after_end=after_end, checksum_ok=matches, data=data, explained=explained)

    def _is_after_end(self, one: Record) -> bool:
        return bool(self._append) and one.instant >= self._append

    def _items(self) -> Iterable[Item]:
        """The requested items in the order of printing."""
        tail, limit = self._options["tail"], self._options["limit"]
        if tail:
            # Read backward, so that only the last files are read.
            last = deque(_first(self._backward(), tail))
            return last if self._options["reverse"] else reversed(last)
        items = self._backward() if self._options["reverse"] else self._forward()
        return _first(items, limit) if limit else items

    def _forward(self) -> Iterator[Item]:
        done = 0
        for count, item in enumerate(walk(self._log, self._selection)):
            if isinstance(item, Record):
                done += item.end - item.instant
            if count % _STEP == 0:
                self._run.listener.step("dump", done, self._total)
            yield item

    def _backward(self) -> Iterator[Item]:
        """Newest first; holds the records of one file at a time."""
        numbers = self._numbers()
        for done, number in enumerate(reversed(numbers)):
            self._run.listener.step("dump", done, len(numbers))
            # Damage can only be skipped while reading forward.
            found = walk(self._log, self._selection._replace(files=frozenset((number,))))
            yield from reversed(list(heard(found, self._run.listener, "read")))

    def _numbers(self) -> list[int]:
        """The log files to read."""
        return [number for number in self._log.numbers() if _wants_file(self._selection, number)]

    def _stopped(self, damage: DerbyDamage) -> DamageError:
        return DamageError(
            f"stopped at the first damage: {damage.reason}",
            file=self._database.name(self._log.path(instant.file_of(damage.at))),
            lsn=instant.show(damage.at),
            consequence="what follows it was not read",
            hint="leave out --stop-on-error to go on after the damage",
        )

    def _code(self) -> int:
        warn_of_ends(self._run, self._database, self._log, self._ends)
        if not self._bad and not self._after_end:
            return exits.DONE
        # Every crash leaves a torn tail, which is not a finding; only the check of the log distinguishes it from
        # damage.
        return exits.FINDINGS if is_harmful(self._log, self._controls) else exits.DONE


def _first(items: Iterator[Item], count: int) -> Iterator[Item]:
    """The first items up to a number of records, including damage between them."""
    for item in items:
        yield item
        # A limit counts records; damage is printed but not counted.
        count -= isinstance(item, Record)
        if count <= 0:
            return


def _wants_file(wanted: RecordSelection, number: int) -> bool:
    if wanted.files and number not in wanted.files:
        return False
    if wanted.start and number < instant.file_of(wanted.start):
        return False
    return not wanted.stop or number <= instant.file_of(wanted.stop)
