"""``jetool journal truncate``: cut a frontend's environment after a journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Annotated, Final, NamedTuple

import click

from engine.contents.journals import product_of
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import DamageError, NotFoundError, RefusedError
from engine.fields import Bool, Int, Lsn, SizeBytes, Text, record
from engine.inspect.contents import EnvironmentSource
from engine.journals.extents import read_extents
from engine.journals.reader import FoundJournal, JournalReader
from engine.rescue.points import LSN, TXN, Point, as_of
from engine.storage.base import Storage
from jetool.commands.journal.group import home_of, journal, operation_text, product_option
from jetool.commands.journal.rows import PrintedJournal, printed_journal
from jetool.commands.truncate.truncation import CutDone, cut_log, say_what_went
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS
from jetool.frame.options import Run

_MOST_SHOWN: Final = 20
_LAST: Final = (1 << 63) - 2


@record()
class CutOperation(NamedTuple):
    """Removed journals of one operation."""

    op: Annotated[Int | None, "code of the operation; null for a value that is too short"]
    name: Annotated[Text, "its name; ? for one that is not known"]
    journals: Annotated[Int, "how many go"]


@record("cut")
class JournalCut(NamedTuple):
    """The cut, or its preview."""

    environment: Annotated[Text, "directory of the environment"]
    changed: Annotated[Bool, "something was cut off, or would be"]
    dry_run: Annotated[Bool, "nothing was changed"]
    after: Annotated[Int, "the last journal that stays"]
    journals: Annotated[Int, "journals that go"]
    last: Annotated[Int | None, "the last of them; null when none goes"]
    end_lsn: Annotated[Lsn, "where the log ends now, or would"]
    commits: Annotated[Int, "Commits that go"]
    removed_files: Annotated[Sequence[Text], "log files after it; they are saved completely"]
    cut_bytes: Annotated[SizeBytes, "bytes that go"]
    plan: Annotated[Text, "names this plan for --plan"]
    backup: Annotated[Text | None, "where the old bytes were saved; null when nothing was"]
    saved_bytes: Annotated[SizeBytes, "how many"]
    operations: Annotated[Sequence[CutOperation], "what they are"]
    first_lost: Annotated[Sequence[PrintedJournal], "the first twenty that go"]


class _Loss:
    """The journals after the last one to keep, found in the log that is cut."""

    def __init__(self, after: int, product: str | None) -> None:
        self.after = after
        self.product = product
        self.journals = 0
        self.last: int | None = None
        self.operations: Counter[int | None] = Counter()
        self.first: list[FoundJournal] = []

    def point_in(self, storage: Storage) -> Point:
        """The cut point: the end of the transaction of the last journal to keep.

        Raises:
            NotFoundError: the journal does not exist. RefusedError: the transaction of the journal also wrote later
                journals.
        """
        with Environment(storage, EnvironmentConfig(read_only=True)) as env:
            extents = read_extents(env)[0]
            reader = JournalReader(env, extents)
            kept = reader.find(self.after)
            if self.product is None:
                self.product = product_of(EnvironmentSource(env))
            lost = list(islice(reader.read(self.after + 1, _LAST), _MOST_SHOWN))
            self.first = lost
            for _, raw in reader.raw(self.after + 1, _LAST):
                self.journals, self.last = self.journals + 1, raw.id
                code = int.from_bytes(raw.value[:2], "big", signed=True) if len(raw.value) > 1 else None
                self.operations[code] += 1
        if kept.txn is not None and lost and lost[0].txn == kept.txn:
            self._refuse_batch(storage, kept, lost)
        if kept.txn is not None:
            return Point(TXN, kept.txn, f"journal {self.after}")
        if not lost:
            raise NotFoundError(
                f"no journal after {self.after}",
                file=storage.root,
                consequence="nothing was changed",
                hint="jetool journal list shows the last journal",
            )
        # Without a transaction id the cleaner has rewritten the journal, so its LSN is not that of its commit. Cut
        # before the next journal instead; the cut is refused if the rest does not end with this journal.
        return Point(LSN, lost[0].lsn, f"journal {self.after}")

    def _refuse_batch(self, storage: Storage, kept: FoundJournal, lost: list[FoundJournal]) -> None:
        end = next((one.id for one in lost if one.txn != kept.txn), None)
        raise RefusedError(
            f"journals {self.after} and {self.after + 1} are of one transaction",
            file=storage.root,
            consequence="a log can be cut only where a transaction ends; nothing was changed",
            hint="name an earlier id"
            if end is None
            else f"the transaction ends with journal {end - 1}: --after {end - 1} keeps it",
        )


@command(
    "truncate",
    parent=journal,
    outputs=lambda: Outputs("document", (JournalCut,)),
    features=("fields", "progress", "times", "lock", "write"),
    examples=(
        ("Preview removing all journals after one", "jetool journal truncate /data/fe/meta --after 349360905 -n"),
        ("Cut it off", "jetool journal truncate /data/fe/meta --after 349360905 --yes"),
    ),
    exits={
        exits.DONE: "nothing was after that journal; no committed transaction was removed",
        **WRITE_EXITS,
        exits.REFUSED: (
            "the environment is locked; --yes is missing; the next journal belongs to the same transaction; the rest "
            "would not be complete, or would not end with that journal; the files changed since the plan"
        ),
        exits.NOT_FOUND: "no environment, no journals, no such journal",
        exits.DATA_GIVEN_UP: "cut; later journals were removed, and their bytes saved",
    },
)
@environment
@click.option("--after", type=click.IntRange(0), required=True, metavar="ID", help="The last journal to keep.")
@click.option("--plan", "token", metavar="ID", help="Refuse if the plan differs from the one that a dry run printed.")
@product_option
def journal_truncate(run: Run, env: str, after: int, token: str | None, product: str | None) -> int:
    """Cut the environment of a stopped frontend after a journal, which becomes its last one.

    The log is cut where the transaction of that journal ends, as jetool truncate does: the rest is recovered in memory
    first, the cut is refused if the rest would not be complete, the removed bytes are saved, and jetool undo restores
    them. With -n the command prints what would be removed: the number of journals by operation, and the first twenty.
    The other frontends of the group still have these journals: cut all of them at the same id, or add them again from
    this one.
    """
    home = home_of(env)
    loss = _Loss(after, product)
    done = cut_log(run, home, _checked(loss), token)
    run.out.document(_cut(run, home, loss, done))
    return say_what_went(run, home, done)


def _checked(loss: _Loss) -> Callable[[Storage], Point]:
    """A function for the cut point; it checks that the cut keeps the last journal to keep, and no later one."""

    def point_in(storage: Storage) -> Point:
        point = loss.point_in(storage)
        from engine.log.files import list_log_files
        from engine.rescue.points import find_cut

        cut = find_cut(storage, list_log_files(storage), point)
        with Environment(as_of(storage, cut.end_lsn), EnvironmentConfig(read_only=True)) as env:
            try:
                last = read_extents(env)[0].last
            except (NotFoundError, DamageError):
                last = None
        if last != loss.after:
            raise RefusedError(
                f"the log cannot be cut so that journal {loss.after} is the last one",
                file=storage.root,
                found="no journal would be left" if last is None else f"journal {last} would be",
                consequence="nothing was changed",
                hint="name an id near it; jetool truncate cuts at other points",
            )
        return point

    return point_in


def _cut(run: Run, home: str, loss: _Loss, done: CutDone) -> JournalCut:
    plan = done.plan
    operations = [
        CutOperation(op=code, name="?" if code is None else operation_text(loss.product, code), journals=count)
        for code, count in loss.operations.most_common()
    ]
    return JournalCut(
        environment=home,
        changed=plan.changes,
        dry_run=run.dry_run,
        after=loss.after,
        journals=loss.journals,
        last=loss.last,
        end_lsn=plan.cut.end_lsn,
        commits=plan.content.commits,
        removed_files=[file.path for file in plan.removed],
        cut_bytes=plan.content.size_bytes,
        plan=plan.token,
        backup=done.backup,
        saved_bytes=done.saved_bytes,
        operations=operations,
        first_lost=[printed_journal(loss.product, one) for one in loss.first],
    )
