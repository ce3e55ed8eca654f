"""``jetool journal show``: journals by id, decoded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Annotated, Final, NamedTuple

import click

from engine.contents.operations import OPERATIONS, PRODUCTS, codes_of
from engine.errors import UsageError
from engine.events import heard
from engine.fields import Bool, Int, record
from engine.journals.id_range import IdRange
from engine.journals.reader import FoundJournal, JournalReader
from jetool.commands.journal.group import (
    IDS,
    JOURNAL_EXITS,
    UnseenReason,
    journal,
    open_journals,
    product_option,
    star_option,
)
from jetool.commands.journal.rows import PrintedJournal, journal_line, printed_journal
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import reading_code
from jetool.frame.options import Run

_LAST: Final = (1 << 63) - 2
_LIST: Final = "list"


@record("summary")
class JournalsEnd(NamedTuple):
    """The end of the journals."""

    journals: Annotated[Int, "how many were printed"]
    complete: Annotated[Bool, "false when --limit or --tail left some out, or when the log was not completely read"]
    after_damage: Annotated[Int, "how many of them come after damage, or may have lost their Commit to it"]
    destroyed: Annotated[Sequence[IdRange], "ids of these journals that have no intact entry because of damage"]
    unseen: UnseenReason


def _check(_: Run, *, limit: int | None, tail: int | None, **__: object) -> None:
    if limit is not None and tail is not None:
        raise UsageError("--tail and --limit exclude each other", hint="leave one of them out")


@command(
    "show",
    parent=journal,
    check=_check,
    outputs=lambda: Outputs("stream", (PrintedJournal,), JournalsEnd),
    features=("fields", "progress", "times", "cache"),
    examples=(
        ("The journal at which a frontend stopped", "jetool journal show /data/fe/meta 349360906"),
        ("The last ten journals", "jetool journal show /data/fe/meta --tail 10"),
        ("What was dropped since noon", "jetool journal show /data/fe/meta --op DROP_TABLE --since 2026-11-21T12:00Z"),
        ("The operations by name, and the releases that have them", "jetool journal show /data/fe/meta --op list"),
        ("What a recovery would lose", "jetool journal show /data/fe/meta --after-damage"),
        (
            "All that names a table, for a script",
            "jetool journal show /data/fe/meta 5000.. --grep orders_2026 --format ndjson",
        ),
    ),
    exits={exits.DONE: "printed", **JOURNAL_EXITS},
)
@environment
@click.argument("ids", metavar="[A..B]", type=IDS, required=False, help="The ids.  [default: all]")
@click.option(
    "--op", "operations", multiple=True, metavar="NAME", help="Only this operation, by name or code; list prints them."
)
@click.option("--grep", "word", metavar="TEXT", help="Only journals whose payload contains this text.")
@click.option("--since", type=params.TIME, help="Only journals committed since TIME.")
@click.option("--until", type=params.TIME, help="Only journals committed until TIME.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Print N journals at most.")
@click.option("--tail", type=click.IntRange(1), metavar="N", help="The last N journals.")
@click.option("--reverse", is_flag=True, help="Newest first.")
@click.option("--after-damage", is_flag=True, help="Only journals that a recovery would lose to damage in the log.")
@star_option
@product_option
def journal_show(
    run: Run,
    env: str,
    ids: tuple[int, int | None] | None,
    operations: tuple[str, ...],
    word: str | None,
    since: int | None,
    until: int | None,
    limit: int | None,
    tail: int | None,
    reverse: bool,
    after_damage: bool,
    star_manager: bool,
    product: str | None,
) -> int:
    """Print journals: id, time, operation, payload as JSON, padding, transaction, LSN, VLSN.

    Unknown parts of a payload are printed in hex and flagged, never guessed. Journals are found through the trees.
    Intact journals after damage in the log come last and are marked: JE cuts them away when it opens the environment.
    --op list prints no journal but the operations of the product, with the lowest release whose public source has each
    (since) and the release from which on it is gone or has another name (until). --after-damage prints only journals
    after damage; the summary names the ids that the damage has destroyed. Journals that the trees
    have lost may still be in the log (jetool history, jetool salvage). Nothing is created or changed.
    """
    with open_journals(run, env, product) as found:
        if _LIST in operations:
            run.out.text(_operations_text(found.product))
            return exits.DONE
        reader = found.reader(star_manager)
        codes = _codes(found.product, operations)
        first, last = ids or (0, None)
        high = _LAST if last is None else last
        unseen = _since(reader.read_unseen(first, high), since)
        destroyed = list(reader.destroyed(first, high))
        if not after_damage and ids is not None and first == last and not reader.is_unseen(first):
            # If a single journal is requested and missing, ``find`` raises an error that states why.
            reader.find(first)
        backward = reverse or tail is not None
        seen = iter(()) if after_damage else _seen(reader, first, high, since, backward=backward)
        read = chain(reversed(list(unseen)), seen) if backward else chain(seen, unseen)
        chosen = _chosen(heard(read, run.listener, "journals"), codes, word, until, backward=backward)
        wanted: Iterator[FoundJournal | None] = chosen
        if tail is not None:
            wanted = _last(chosen, tail, reverse=reverse)
        with run.out.stream(PrintedJournal, line=journal_line) as stream:
            printed, after, complete = 0, 0, True
            for one in wanted:
                if one is None or (limit is not None and printed >= limit):
                    complete = False
                    break
                stream.row(printed_journal(found.product, one))
                printed, after = printed + 1, after + (not one.seen)
            reason = found.env.unseen
            complete = complete and reason is None
            stream.end(
                JournalsEnd(journals=printed, complete=complete, after_damage=after, destroyed=destroyed, unseen=reason)
            )
        return reading_code(found.env)


def _seen(reader: JournalReader, first: int, last: int, since: int | None, *, backward: bool) -> Iterator[FoundJournal]:
    """The journals of a range of ids that recovery reads, committed since a time."""
    begin = first if since is None else reader.first_since(since)
    if begin is None:
        return iter(())
    return (reader.read_back if backward else reader.read)(max(first, begin), last)


def _since(journals: Iterable[FoundJournal], since: int | None) -> Iterator[FoundJournal]:
    """Drop journals committed before a time; keep journals without a time."""
    return (one for one in journals if since is None or one.time_ms is None or one.time_ms >= since)


def _codes(product: str | None, operations: tuple[str, ...]) -> frozenset[int]:
    found: set[int] = set()
    for operation in operations:
        codes = codes_of(product, operation)
        if not codes:
            raise UsageError(
                f"no operation {operation!r}",
                hint="jetool journal show ENV --op list prints all of them",
            )
        found |= codes
    return frozenset(found)


def _operations_text(product: str | None) -> str:
    """The list that ``--op list`` prints: of both products when the product is not known."""
    named = PRODUCTS if product is None else {product: PRODUCTS[product]}
    lines = [
        f"{one.code:>5}  {one.name:<42} {title:<10} since {one.since}" + (f", until {one.until}" if one.until else "")
        for key, title in named.items()
        for one in OPERATIONS[key]
    ]
    return "\n".join([" code  operation                                  product    releases", *lines])


def _last(newest_first: Iterator[FoundJournal], count: int, *, reverse: bool) -> Iterator[FoundJournal | None]:
    """The last journals in the wanted order, then None if there are more."""
    found = list(islice(newest_first, count))
    yield from found if reverse else reversed(found)
    if next(newest_first, None) is not None:
        yield None


def _chosen(
    journals: Iterable[FoundJournal], codes: frozenset[int], word: str | None, until: int | None, *, backward: bool
) -> Iterator[FoundJournal]:
    for one in journals:
        if until is not None and one.time_ms is not None and one.time_ms > until:
            if backward:
                continue
            return
        if codes and (one.journal is None or one.journal.code not in codes):
            continue
        if word is not None and not _has(one, word):
            continue
        yield one


def _has(one: FoundJournal, word: str) -> bool:
    """Whether the stored or the printed payload contains a text."""
    if word.encode("utf-8", "surrogateescape") in one.value:
        return True
    return one.journal is not None and word in json.dumps(one.journal.payload.value, ensure_ascii=False)
