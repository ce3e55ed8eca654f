"""``jetool journal list``: the journal databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from engine.contents.frontend_images import FORMATS
from engine.contents.journals import STAR_MANAGER
from engine.contents.operations import PRODUCTS
from engine.fields import Bool, Choices, Int, Like, Lsn, SizeBytes, Text, Time, record
from engine.journals.check import OVERLAP
from engine.journals.extents import JournalExtents, read_epochs
from engine.journals.id_range import IdRange
from engine.journals.images import CHECKSUMS, ImageFile, problem_of
from engine.journals.reader import JournalReader
from engine.verdict import VERDICTS as WORDS
from jetool.commands.journal.group import (
    JOURNAL_EXITS,
    Journals,
    UnseenReason,
    journal,
    open_journals,
    product_option,
)
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import reading_code
from jetool.frame.options import Run
from jetool.output.verdicts import VERDICT_HELP, VerdictFields


@record()
class JournalDatabase(NamedTuple):
    """A journal database."""

    name: Annotated[Text, "the database"]
    first: Annotated[Int | None, "id of its first journal; null when it is empty"]
    last: Annotated[Int | None, "id of its last one"]
    journals: Annotated[Int, "how many there are"]
    missing: Annotated[Int, "ids that are missing between the two"]
    holes: Annotated[Sequence[IdRange], "where: the first thousand holes"]
    overlap: Annotated[Int, "ids from its name on that the database before it has"]
    gap: Annotated[Int, "ids that are missing between the database before it and its name"]
    bytes: Annotated[SizeBytes, "their entries in the log"]
    first_time: Annotated[Time | None, "when the first was committed"]
    last_time: Annotated[Time | None, "when the last was committed"]


@record()
class JournalsAfterDamage(NamedTuple):
    """Journals after damage in the log."""

    starmgr: Annotated[Bool, "they are the StarManager's"]
    damage: Annotated[Lsn, "where the log is damaged"]
    journals: Annotated[Int, "intact journals after it, or whose Commit it may have destroyed"]
    first: Annotated[Int | None, "the first of them; null without any"]
    last: Annotated[Int | None, "the last one"]
    destroyed: Annotated[Sequence[IdRange], "ids before the last one without an intact entry"]
    broken_txns: Annotated[Int, "transactions, of any database, whose Commit is there and whose records are not"]


@record()
class ImageRow(NamedTuple):
    """An image file."""

    path: Annotated[Text, "the file, in the directory image"]
    id: Annotated[Int, "id of the last journal in the image, from its name"]
    bytes: Annotated[SizeBytes, "length of the file"]
    format: Annotated[Text | None, "its format; null for none that is known", Choices(tuple(FORMATS))]
    meta_version: Annotated[Int | None, "version of the metadata, from its header"]
    header_id: Annotated[Int | None, "id of the last journal, from its header; null when the format does not have it"]
    stored: Annotated[Int | None, "the stored checksum; null without one, or with one per block"]
    checksum: Annotated[Text, "whether the file is what was written", Choices(tuple(CHECKSUMS))]
    problem: Annotated[
        Text | None, "what is wrong with it, or why it is unchecked although others are checked; null for nothing"
    ]


FITS: Final = "fits"
BAD_IMAGE: Final = "bad-image"
UNSEEN: Final = "unseen"
NO_IMAGE: Final = "no-image"
_NOT_READ: Final = "; the journals themselves were not read: jetool journal check reads them"
VERDICTS: Final = {
    FITS: "the journal after the image is there, and all after it",
    "holes": "journals after the image are missing",
    OVERLAP: "journals after the image are in two databases",
    "behind": "journals between the image and the first one are gone",
    "ahead": "the image is newer than the newest journal",
    BAD_IMAGE: "the newest image is not what was written",
    NO_IMAGE: "no image was found beside the environment",
    UNSEEN: "the log is damaged and not all of it was seen: journals may be missing after the last one",
}


@record("journals")
class JournalList(NamedTuple):
    """The journals of a frontend."""

    state: Annotated[Text, "as verdict of other commands; " + VERDICT_HELP, Choices(tuple(WORDS))]
    why: Annotated[Text, Like(VerdictFields)]
    environment: Annotated[Text, "directory of the environment"]
    product: Annotated[Text | None, "whose journals they are; null when that cannot be told", Choices(tuple(PRODUCTS))]
    node: Annotated[Text | None, "name of the node, from the file ROLE"]
    role: Annotated[Text | None, "FOLLOWER or OBSERVER, from the file ROLE"]
    cluster: Annotated[Text | None, "id of the cluster, from the file VERSION"]
    images: Annotated[Sequence[Int], "ids up to which there are images"]
    image_files: Annotated[Sequence[ImageRow], "the files of the images"]
    epochs: Annotated[Int, "masterships that the node has seen"]
    highest_epoch: Annotated[Int, "the highest of them"]
    first: Annotated[Int | None, "the first id"]
    last: Annotated[Int | None, "the last id"]
    journals: Annotated[Int, "how many there are"]
    last_by_count: Annotated[
        Int | None, "the last id as the product computes it: last name plus count; null if there is none"
    ]
    verdict: Annotated[Text, "how image and journals fit together", Choices(tuple(VERDICTS))]
    databases: Annotated[Sequence[JournalDatabase], "the journal databases"]
    starmgr: Annotated[Sequence[JournalDatabase], "journals of the StarManager inside StarRocks"]
    unseen: UnseenReason
    after_damage: Annotated[
        Sequence[JournalsAfterDamage], "journals after the damage: JE cuts them away when it opens the environment"
    ]


@command(
    "list",
    parent=journal,
    outputs=lambda: Outputs("document", (JournalList,)),
    features=("fields", "progress", "times", "cache"),
    examples=(
        ("What a frontend has", "jetool journal list /data/fe/meta"),
        ("The last id, for a script", "jetool journal list /data/fe/meta/bdb --json --fields last,verdict"),
    ),
    exits={
        **JOURNAL_EXITS,
        exits.DONE: "listed; image and journals fit together, or there is no image",
        exits.FINDINGS: "listed; they do not fit together, or committed transactions after a bad entry were not read",
    },
)
@environment
@product_option
def journal_list(run: Run, env: str, product: str | None) -> int:
    """List the journal databases: first and last id, count, holes, overlaps, bytes, and times of writing.

    Only the nodes of the trees are read, not the journals. ROLE, VERSION and the images are read from the directory
    image beside the environment, if it exists. Of each image file the header is shown, and whether its checksum is
    right: StarRocks has one per block or a file checksum.N; the one of Doris (unchecked) only Doris can compute, so
    header, footer and places of the parts are compared. Nothing is created or changed.
    """
    with open_journals(run, env, product) as found:
        own, *others = found.families
        epochs, files = read_epochs(found.env), found.files
        last = own.databases[-1]
        image_files = found.image_files()
        fit = verdict(own, found.image, found.env.unseen, problem_of(image_files, found.image))
        fits = fit in (FITS, NO_IMAGE)
        code = exits.worst([reading_code(found.env), exits.DONE if fits else exits.FINDINGS])
        said = exits.verdict(code, f"{VERDICTS[fit]}{_NOT_READ if fits else ''}", partly=True)
        listed = JournalList(
            state=said.word,
            why=said.why,
            environment=found.home,
            product=found.product,
            node=files.node if files else None,
            role=files.role if files else None,
            cluster=files.cluster if files else None,
            images=list(files.images) if files else [],
            image_files=[_image(one) for one in image_files],
            epochs=epochs.records,
            highest_epoch=epochs.highest,
            first=own.first,
            last=own.last,
            journals=own.journals,
            last_by_count=last.name_id + last.journals - 1 if last.journals else None,
            verdict=fit,
            databases=_databases(found, own),
            starmgr=[one for family in others for one in _databases(found, family)],
            unseen=found.env.unseen,
            after_damage=_after_damage(found),
        )
    run.out.document(listed)
    return code


def _image(one: ImageFile) -> ImageRow:
    return ImageRow(
        path=one.path,
        id=one.id,
        bytes=one.size_bytes,
        format=one.header.format if one.header is not None else None,
        meta_version=one.header.meta_version if one.header is not None else None,
        header_id=one.header.journal_id if one.header is not None else None,
        stored=one.checksum,
        checksum=one.state,
        problem=one.problem,
    )


def verdict(extents: JournalExtents, image: int | None, unseen: str | None = None, problem: str | None = None) -> str:
    """The verdict on whether the newest image and the journals fit together (``VERDICTS``).

    Arguments:
        unseen: the part of the log that was not read; if there is one, journals after the image cannot be judged.
        problem: what is wrong with the newest image; None for nothing.
    """
    if unseen is not None:
        return UNSEEN
    if image is None:
        return NO_IMAGE
    if problem is not None:
        return BAD_IMAGE
    first, last = extents.first, extents.last
    if first is not None and image < first - 1:
        return "behind"
    if last is None or image > last:
        return "ahead"
    gone = [hole for one in extents.databases for hole in one.holes]
    gone += [passage.hole for passage in extents.passages if passage.hole is not None]
    for one in extents.databases:
        if one.first is not None and one.first > one.name_id:
            gone.append(IdRange(first=one.name_id, last=one.first - 1))
    if any(hole.last > image for hole in gone):
        return "holes"
    doubled = (passage.overlap for passage in extents.passages)
    return OVERLAP if any(one is not None and one.last > image for one in doubled) else FITS


def _after_damage(found: Journals) -> list[JournalsAfterDamage]:
    listed = []
    for extents in found.families:
        unseen = JournalReader(found.env, extents).unseen
        if unseen is None:
            continue
        journals = unseen.journals
        listed.append(
            JournalsAfterDamage(
                starmgr=extents.family == STAR_MANAGER,
                damage=unseen.damage_lsn,
                journals=len(journals),
                first=journals[0].id if journals else None,
                last=journals[-1].id if journals else None,
                destroyed=unseen.destroyed,
                broken_txns=unseen.broken_txns,
            )
        )
    return listed


def _databases(found: Journals, extents: JournalExtents) -> list[JournalDatabase]:
    reader = found.reader(star_manager=extents.family != found.families[0].family)
    return [
        JournalDatabase(
            name=one.name,
            first=one.first,
            last=one.last,
            journals=one.journals,
            missing=one.missing,
            holes=one.holes,
            overlap=passage.overlap.length if passage is not None and passage.overlap is not None else 0,
            gap=passage.hole.length if passage is not None and passage.hole is not None else 0,
            bytes=one.size_bytes,
            first_time=reader.time_of(one.first) if one.first is not None else None,
            last_time=reader.time_of(one.last) if one.last is not None else None,
        )
        for one, passage in zip(extents.databases, (None, *extents.passages), strict=True)
    ]
