"""``jetool journal list``: the journal databases."""

from __future__ import annotations

from typing import Final

from engine.contents.journals import STAR_MANAGER
from engine.contents.operations import PRODUCTS
from engine.journals.check import OVERLAP
from engine.journals.extents import IdRange, JournalExtent, JournalExtents, read_epochs
from engine.journals.reading import JournalReader
from jetool.app import exits
from jetool.app.command import Outputs, command, environment
from jetool.app.opening import reading_code
from jetool.app.options import Run
from jetool.commands.journal.group import (
    JOURNAL_EXITS,
    UNSEEN_REASON,
    Journals,
    journal,
    open_journals,
    product_option,
)
from jetool.output.shape import Field, Row, Shape, row_of

_RANGE: Final = (
    Field("first", "int", "the first id"),
    Field("last", "int", "the last id"),
)
_DATABASE: Final = (
    Field("name", "text", "the database"),
    Field("first", "int", "id of its first journal; null when it is empty", null=True),
    Field("last", "int", "id of its last one", null=True),
    Field("journals", "int", "how many there are"),
    Field("missing", "int", "ids that are missing between the two"),
    Field("holes", "records", "where: the first thousand holes", fields=_RANGE),
    Field("overlap", "int", "ids from its name on that the database before it has"),
    Field("gap", "int", "ids that are missing between the database before it and its name"),
    Field("bytes", "size_bytes", "their entries in the log"),
    Field("first_time", "time", "when the first was committed", null=True),
    Field("last_time", "time", "when the last was committed", null=True),
)
_AFTER: Final = (
    Field("starmgr", "bool", "they are the StarManager's"),
    Field("damage", "lsn", "where the log is damaged"),
    Field("journals", "int", "intact journals after it, or whose Commit it may have destroyed"),
    Field("first", "int", "the first of them; null when there is none", null=True),
    Field("last", "int", "the last one", null=True),
    Field("destroyed", "records", "ids before the last one without an intact entry", fields=_RANGE),
    Field("broken_txns", "int", "transactions, of any database, whose Commit is there and whose records are not"),
)
FITS: Final = "fits"
UNSEEN: Final = "unseen"
VERDICTS: Final = {
    FITS: "the journal after the image is there, and all after it",
    "holes": "journals after the image are missing",
    OVERLAP: "journals after the image are in two databases",
    "behind": "journals between the image and the first one are gone",
    "ahead": "the image is newer than the newest journal",
    "no-image": "no image was found beside the environment",
    UNSEEN: "the log is damaged and not all of it was seen: journals may be missing after the last one",
}
LISTED: Final = Shape(
    "journals",
    "The journals of a frontend.",
    (
        Field("environment", "text", "directory of the environment"),
        Field("product", "text", "whose journals they are; null when that cannot be told", null=True,
              choices=tuple(PRODUCTS)),
        Field("node", "text", "name of the node, from the file ROLE", null=True),
        Field("role", "text", "FOLLOWER or OBSERVER, from the file ROLE", null=True),
        Field("cluster", "text", "id of the cluster, from the file VERSION", null=True),
        Field("images", "ints", "ids up to which there are images"),
        Field("epochs", "int", "masterships that the node has seen"),
        Field("highest_epoch", "int", "the highest of them"),
        Field("first", "int", "the first id", null=True),
        Field("last", "int", "the last id", null=True),
        Field("journals", "int", "how many there are"),
        Field("last_by_count", "int", "the last id as the product reckons it: last name plus count; null without one",
              null=True),
        Field("verdict", "text", "how image and journals fit together", choices=tuple(VERDICTS)),
        Field("databases", "records", "the journal databases", fields=_DATABASE),
        Field("starmgr", "records", "those of the StarManager inside StarRocks", fields=_DATABASE),
        UNSEEN_REASON,
        Field("after_damage", "records", "journals after the damage: JE cuts them away when it opens the environment",
              fields=_AFTER),
    ),
)  # fmt: skip


@command(
    "list",
    parent=journal,
    outputs=lambda: Outputs("document", (LISTED,)),
    features=("fields", "progress", "times", "cache"),
    examples=(
        ("What a frontend has", "jetool journal list /data/fe/meta"),
        ("The last id, for a script", "jetool journal list /data/fe/meta/bdb --json --fields last,verdict"),
    ),
    exits={exits.DONE: "listed", **JOURNAL_EXITS},
)
@environment
@product_option
def journal_list(run: Run, env: str, product: str | None) -> int:
    """List the journal databases: first and last id, count, holes, overlaps, bytes, when they were written.

    Only the nodes of the trees are read, not the journals. ROLE, VERSION and the images are read from the directory
    image beside the environment, where it is there. Nothing is created or changed.
    """
    with open_journals(run, env, product) as found:
        own, *others = found.families
        epochs, files = read_epochs(found.env), found.files
        last = own.databases[-1]
        row = LISTED.row(
            (
                found.home, found.product, files.node if files else None, files.role if files else None,
                files.cluster if files else None, list(files.images) if files else [], epochs.records, epochs.highest,
                own.first, own.last, own.journals, last.name_id + last.journals - 1 if last.journals else None,
                verdict(own, found.image, found.env.unseen), _rows(found, own),
                [row for one in others for row in _rows(found, one)], found.env.unseen, _after_damage(found),
            )
        )  # fmt: skip
        code = reading_code(found.env)
    run.out.document(LISTED, row)
    return code


def verdict(extents: JournalExtents, image: int | None, unseen: str | None = None) -> str:
    """How the newest image and the journals fit together (``VERDICTS``).

    Arguments:
        unseen: what of the log was not seen. Then what was seen shows nothing of what follows the image.
    """
    if unseen is not None:
        return UNSEEN
    if image is None:
        return "no-image"
    first, last = extents.first, extents.last
    if first is not None and image < first - 1:
        return "behind"
    if last is None or image > last:
        return "ahead"
    gone = [hole for one in extents.databases for hole in one.holes]
    gone += [passage.hole for passage in extents.passages if passage.hole is not None]
    for one in extents.databases:
        if one.first is not None and one.first > one.name_id:
            gone.append(IdRange(one.name_id, one.first - 1))
    if any(hole.last > image for hole in gone):
        return "holes"
    doubled = (passage.overlap for passage in extents.passages)
    return OVERLAP if any(one is not None and one.last > image for one in doubled) else FITS


def _after_damage(found: Journals) -> list[Row]:
    rows = []
    for extents in found.families:
        unseen = JournalReader(found.env, extents).unseen
        if unseen is None:
            continue
        journals = unseen.journals
        rows.append(
            row_of(
                _AFTER,
                (
                    extents.family == STAR_MANAGER, unseen.damage_lsn, len(journals),
                    journals[0].id if journals else None, journals[-1].id if journals else None,
                    [row_of(_RANGE, one) for one in unseen.destroyed], unseen.broken_txns,
                ),
            )
        )  # fmt: skip
    return rows


def _rows(found: Journals, extents: JournalExtents) -> list[Row]:
    reader = found.reader(star_manager=extents.family != found.families[0].family)
    rows = []
    for one, passage in zip(extents.databases, (None, *extents.passages), strict=True):
        overlap = passage.overlap.length if passage is not None and passage.overlap is not None else 0
        gap = passage.hole.length if passage is not None and passage.hole is not None else 0
        ends = [reader.time_of(end) if end is not None else None for end in (one.first, one.last)]
        rows.append(row_of(_DATABASE, (*_counted(one), overlap, gap, one.size_bytes, *ends)))
    return rows


def _counted(one: JournalExtent) -> tuple[object, ...]:
    return one.name, one.first, one.last, one.journals, one.missing, [row_of(_RANGE, hole) for hole in one.holes]
