"""Problems that would stop a frontend's replay, or surprise its operator (fe-journals.md 2, 3).

A frontend loads its newest image, which holds everything up to an id, and replays the journals after it, one by one. It
stops at a missing id and at an unknown operation. It computes the largest id from the name and the record count of the
last database, so a hole makes it overwrite ids, or look for ids that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.contents.base import parse_json
from engine.contents.journals import BYTES, STAR_MANAGER, decode_journal
from engine.contents.operations import NAMES, may_skip, source_releases
from engine.db.environment import Environment
from engine.errors import FormatError, JetoolError, plural
from engine.events import SILENT, Listener, Progress
from engine.format.lsn import format_lsn
from engine.journals.extents import JournalExtent, JournalExtents, Passage
from engine.journals.id_range import IdRange
from engine.journals.reader import JournalReader, RawJournal

# Kinds of findings, and whether replay stops there.
HOLE: Final = "hole"
OVERLAP: Final = "overlap"
NAME: Final = "name"
WRONG_KEY: Final = "wrong-key"
OPERATION: Final = "unknown-operation"
PAYLOAD: Final = "unreadable-payload"
UNREADABLE: Final = "unreadable-journal"
BEHIND: Final = "image-behind"
AHEAD: Final = "image-ahead"
BAD_IMAGE: Final = "image-damaged"
UNSEEN: Final = "unseen"
DESTROYED: Final = "destroyed"
KINDS: Final = {
    HOLE: "ids are missing",
    OVERLAP: "two databases should have the same ids",
    NAME: "the name of a database is not that of the one before it plus its count, or not the id of its first journal",
    WRONG_KEY: "a key that is not an id",
    OPERATION: "an operation that the product is not known to have",
    PAYLOAD: "a payload that cannot be read",
    UNREADABLE: "a journal that the log does not give back",
    BEHIND: "journals between the image and the first one are gone",
    AHEAD: "the image is newer than the newest journal",
    BAD_IMAGE: "the image is not what was written: its header, footer or checksum is wrong",
    UNSEEN: "the log is damaged and was not completely read; intact journals after the damage are listed",
    DESTROYED: "no intact entry of these ids, and later ids follow the damage of the log",
}
# The number of single journals that are listed per kind; others are only counted.
MOST_NAMED: Final = 1000


class JournalFinding(NamedTuple):
    """Something wrong.

    Attributes:
        kind: of ``KINDS``.
        stops: whether replay stops there.
        database: the database concerned; None if it is not a single one.
        first, last: the ids concerned, or None.
        code: the operation concerned, or None.
        skips: whether StarRocks can be configured to skip the journal; None if that is unknown.
        text: what is wrong, in words.
    """

    kind: str
    stops: bool
    database: str | None
    first: int | None
    last: int | None
    code: int | None
    skips: bool | None
    text: str


class JournalCheck(NamedTuple):
    """The result of a check.

    Attributes:
        findings: by id; for single journals the first ``MOST_NAMED`` of each kind.
        unnamed: number of further findings, which are not listed.
        journals: number of journals read.
        padded, padding_bytes: number of journals with zero bytes after their payload, and number of these bytes.
        undecoded: number of payloads in unknown formats; they are not findings.
        image: the image that replay starts from; None if there is no image.
        replayed: the ids that can be replayed from the image; None if no journal can be replayed.
        stops_at: the id at which replay stops; None if it reaches the end.
    """

    findings: list[JournalFinding]
    unnamed: int
    journals: int
    padded: int
    padding_bytes: int
    undecoded: int
    image: int | None
    replayed: IdRange | None
    stops_at: int | None


class _Tally:
    """Counts and findings collected so far."""

    def __init__(self) -> None:
        self.findings: list[JournalFinding] = []
        self.named: dict[str, int] = {}
        self.unnamed = self.journals = self.padded = self.padding_bytes = self.undecoded = 0

    def add(self, finding: JournalFinding) -> None:
        """Note a finding about one journal."""
        count = self.named[finding.kind] = self.named.get(finding.kind, 0) + 1
        if count <= MOST_NAMED:
            self.findings.append(finding)
        else:
            self.unnamed += 1


def check_journals(
    env: Environment,
    extents: JournalExtents,
    product: str | None,
    image: int | None = None,
    listener: Listener = SILENT,
    *,
    since: int = 0,
    problem: str | None = None,
) -> JournalCheck:
    """Check all journals of one family.

    Arguments:
        product: the product whose operations count as known; None: the operations of both.
        image: the id up to which the newest image goes; None if unknown.
        problem: what is wrong with the file of this image; None for nothing.
        since: operations and payloads of journals before this id are not read; missing ids are found everywhere.
    """
    tally = _Tally()
    for extent in extents.databases:
        tally.findings += _of_keys(extent)
    for after, passage in zip(extents.databases[1:], extents.passages, strict=True):
        tally.findings += _of_passage(after, passage)
    if image is not None:
        tally.findings += _of_image(extents, image)
    if problem is not None:
        tally.findings.append(_finding(BAD_IMAGE, f"image {image}: {problem}"))
    # StarManager's journals have their own codes, which no table lists.
    codes = frozenset(NAMES[product]) if product is not None else frozenset().union(*NAMES.values())
    progress = Progress(listener, "journals", extents.journals, 1 << 14)
    reader = JournalReader(env, extents)
    tally.findings += _of_damage(env, reader)
    known = None if extents.family == STAR_MANAGER else codes
    _read_all(reader, tally, known, product, progress, since)
    tally.findings.sort(key=lambda one: (one.first is None, one.first or 0))
    replayed, stops_at = _replay(extents, tally.findings, image)
    return JournalCheck(
        findings=tally.findings,
        unnamed=tally.unnamed,
        journals=tally.journals,
        padded=tally.padded,
        padding_bytes=tally.padding_bytes,
        undecoded=tally.undecoded,
        image=image,
        replayed=replayed,
        stops_at=stops_at,
    )


def _of_keys(extent: JournalExtent) -> Iterator[JournalFinding]:
    if extent.first is not None and extent.first != extent.name_id:
        later = extent.first > extent.name_id
        yield _finding(
            HOLE if later else NAME,
            f"database {extent.name} begins with journal {extent.first}",
            database=extent.name,
            first=extent.name_id if later else extent.first,
            last=extent.first - 1 if later else extent.name_id - 1,
        )
    for hole in extent.holes:
        yield _finding(
            HOLE,
            f"{plural(hole.length, 'journal is', 'journals are')} missing in database {extent.name}",
            extent.name,
            hole.first,
            hole.last,
        )
    if extent.wrong_keys:
        text = f"database {extent.name} has {plural(extent.wrong_keys, 'key')} without an id"
        yield _finding(WRONG_KEY, text, extent.name, stops=False)


def _of_passage(after: JournalExtent, passage: Passage) -> Iterator[JournalFinding]:
    if passage.hole is not None:
        text = f"{plural(passage.hole.length, 'journal is', 'journals are')} missing before database {after.name}"
        yield _finding(HOLE, text, after.name, passage.hole.first, passage.hole.last)
    if passage.overlap is not None:
        text = f"database {after.name} should have journals that the one before it has"
        yield _finding(OVERLAP, text, after.name, passage.overlap.first, passage.overlap.last)
    if passage.by_count is not None and passage.hole is None and passage.overlap is None:
        text = f"database {after.name}: by name and count of the one before it it would be {passage.by_count}"
        yield _finding(NAME, text, after.name, stops=False)


def _of_image(extents: JournalExtents, image: int) -> Iterator[JournalFinding]:
    first, last = extents.first, extents.last
    if first is not None and image < first - 1:
        text = f"the image ends at journal {image}, and the journals begin at {first}"
        yield _finding(BEHIND, text, first=image + 1, last=first - 1)
    if last is not None and image > last:
        text = f"the image ends at journal {image}, and the journals at {last}"
        yield _finding(AHEAD, text, first=last + 1, last=image)


def _of_damage(env: Environment, reader: JournalReader) -> Iterator[JournalFinding]:
    """Findings about journals after damage, where recovery does not read. Replay does not stop at such journals: the
    frontend starts without them.
    """
    if env.unseen is None:
        return
    unseen = reader.unseen
    if unseen is not None:
        damage = format_lsn(unseen.damage_lsn)
        for gone in unseen.destroyed:
            text = f"no intact entry of {plural(gone.length, 'journal')}; the log is damaged at {damage}"
            yield _finding(DESTROYED, text, first=gone.first, last=gone.last, stops=False)
        if unseen.broken_txns and not unseen.destroyed:
            broken = plural(unseen.broken_txns, "transaction")
            text = f"{broken} committed after the damage at {damage}, with an entry in it"
            yield _finding(DESTROYED, text, stops=False)
    if unseen is None or not unseen.journals:
        yield _finding(UNSEEN, f"the log was not completely read: {env.unseen}", stops=False)
        return
    first, last, count = unseen.journals[0].id, unseen.journals[-1].id, len(unseen.journals)
    lost = sum(not one.committed for one in unseen.journals)
    text = f"{plural(count - lost, 'journal stands', 'journals stand')} after damage of the log at {damage}"
    if lost:
        text += f", {plural(lost, 'journal')} before it may have lost the Commit to it"
    text += f": {env.unseen}"
    yield _finding(UNSEEN, text, first=first, last=last, stops=False)


def _finding(
    kind: str,
    text: str,
    database: str | None = None,
    first: int | None = None,
    last: int | None = None,
    *,
    stops: bool = True,
    code: int | None = None,
    skips: bool | None = None,
) -> JournalFinding:
    return JournalFinding(
        kind=kind, stops=stops, database=database, first=first, last=last, code=code, skips=skips, text=text
    )


def _read_all(
    reader: JournalReader,
    tally: _Tally,
    codes: frozenset[int] | None,
    product: str | None,
    progress: Progress,
    since: int,
) -> None:
    """Read every journal from an id on; nearly all need only a quick test for the usual form: JSON with its length, and
    zeros after it.
    """
    try:
        for database, raw in reader.raw(since):
            value = raw.value
            tally.journals += 1
            if tally.journals & _TOLD == 0:
                progress.add(_TOLD + 1)
            code = int.from_bytes(value[:2], "big", signed=True)
            end = 6 + int.from_bytes(value[2:6], "big", signed=True)
            if len(value) < 6 or not 6 < end <= len(value):
                _look(tally, database, raw, product)
            else:
                try:
                    parse_json(value[6:end])
                except (ValueError, RecursionError):
                    _look(tally, database, raw, product)
                else:
                    if end != len(value):
                        _padding(tally, database, raw, value[end:], product)
            if codes is not None and code not in codes and len(value) > 1:
                text = (
                    f"journal {raw.id} has operation {code}, which is not in the table (made from the sources of "
                    f"{source_releases(product)}; another release may have the code)"
                )
                tally.add(_finding(OPERATION, text, database, raw.id, raw.id, code=code))
    except JetoolError as error:
        # An unreadable journal also stops a frontend; journals after it are not checked.
        tally.add(_finding(UNREADABLE, f"a journal cannot be read: {error}"))


_TOLD: Final = (1 << 12) - 1


def _padding(tally: _Tally, database: str, raw: RawJournal, rest: bytes, product: str | None) -> None:
    if rest.strip(b"\0"):
        _look(tally, database, raw, product)
        return
    tally.padded += 1
    tally.padding_bytes += len(rest)


def _look(tally: _Tally, database: str, raw: RawJournal, product: str | None) -> None:
    """Check a journal that does not have the usual form."""
    try:
        code, payload = decode_journal(raw.value)
    except FormatError:
        text = f"journal {raw.id} has {plural(len(raw.value), 'byte')}, less than the code of an operation"
        tally.add(_finding(PAYLOAD, text, database, raw.id, raw.id))
        return
    if payload.padding:
        tally.padded += 1
        tally.padding_bytes += payload.padding
    if payload.kind == BYTES and _claims_json(raw.value):
        text = f"journal {raw.id}: its payload begins as JSON but is not JSON"
        skips = may_skip(product, code)
        tally.add(_finding(PAYLOAD, text, database, raw.id, raw.id, code=code, skips=skips))
    elif not payload.known:
        tally.undecoded += 1


def _claims_json(value: bytes) -> bool:
    """Whether an unreadable payload begins with a length and an opening bracket of JSON."""
    length = int.from_bytes(value[2:6], "big", signed=True) if len(value) > 6 else 0
    return length > 0 and value[6:7] in (b"{", b"[")


def _replay(
    extents: JournalExtents, findings: list[JournalFinding], image: int | None
) -> tuple[IdRange | None, int | None]:
    """The ids that can be replayed, and where replay stops."""
    if extents.first is None or extents.last is None:
        return None, None
    start = extents.first if image is None else image + 1
    stops = [one.first for one in findings if one.stops and one.first is not None and (one.last or 0) >= start]
    stop = max(min(stops), start) if stops else None
    last = extents.last if stop is None else stop - 1
    return (IdRange(first=start, last=last) if last >= start else None), stop
