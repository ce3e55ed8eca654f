"""``jetool journal check``: check whether a frontend could start with these journals."""

from __future__ import annotations

import os
from typing import Annotated, Final, NamedTuple

import click

from engine.contents.frontend_files import image_ids
from engine.errors import UsageError, plural
from engine.fields import Bool, Choices, Int, Like, Row, SizeBytes, Text, record
from engine.journals.check import (
    AHEAD,
    BAD_IMAGE,
    BEHIND,
    DESTROYED,
    HOLE,
    KINDS,
    OPERATION,
    OVERLAP,
    PAYLOAD,
    UNREADABLE,
    UNSEEN,
    JournalCheck,
    JournalFinding,
    check_journals,
)
from engine.journals.images import problem_of
from engine.verdict import CheckVerdict
from jetool.commands.journal.group import (
    JOURNAL_EXITS,
    Journals,
    UnseenReason,
    journal,
    open_journals,
    operation_text,
    product_option,
    star_option,
)
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.options import Run
from jetool.output.shape import Style, to_text
from jetool.output.verdicts import VerdictFields


@record("finding")
class JournalFindingRow(NamedTuple):
    """Something wrong with the journals."""

    kind: Annotated[Text, "; ".join(f"{kind}: {text}" for kind, text in KINDS.items()), Choices(tuple(KINDS))]
    stops: Annotated[Bool, "a frontend that replays stops there"]
    db: Annotated[Text | None, "the database; null when it is no single one"]
    first: Annotated[Int | None, "the first id that it is about; null when it is about none"]
    last: Annotated[Int | None, "the last one"]
    op: Annotated[Int | None, "the operation; null when it is about none"]
    name: Annotated[Text | None, "its name; null for one that is not known"]
    skippable: Annotated[Bool | None, "the product passes over it when it is told to; null when that is not known"]
    text: Annotated[Text, "what is wrong"]


@record("summary")
class JournalCheckSummary(NamedTuple):
    """What was checked."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    journals: Annotated[Int, "journals that were read"]
    findings: Annotated[Int, "findings, those that are not listed too"]
    image: Annotated[Int | None, "the image that replay begins from; null without one"]
    replay_first: Annotated[Int | None, "the first id to replay; null when not one can be"]
    replay_last: Annotated[Int | None, "the last id that can be replayed"]
    stops_at: Annotated[Int | None, "the id at which a frontend would stop; null when it comes to the end"]
    padded: Annotated[Int, "journals with zero bytes after the payload"]
    padding_bytes: Annotated[SizeBytes, "how many zero bytes"]
    undecoded: Annotated[Int, "payloads of a form that is not known; they are no findings"]
    next: Annotated[Text | None, "the next command"]
    unseen: UnseenReason


@command(
    "check",
    parent=journal,
    outputs=lambda: Outputs("stream", (JournalFindingRow,), JournalCheckSummary),
    features=("fields", "progress", "cache"),
    examples=(
        ("Would the frontend come up", "jetool journal check /data/fe/meta"),
        (
            "A copy of the journals against an image elsewhere",
            "jetool journal check /copies/bdb --image /backup/image.349360000",
        ),
    ),
    exits={
        **JOURNAL_EXITS,
        exits.DONE: "nothing is wrong",
        exits.FINDINGS: "there are problems, or committed transactions after a bad entry were not read",
    },
)
@environment
@click.option(
    "--image",
    metavar="FILE|N",
    help="The image to replay from: image.N, or N.  [default: the newest in the image directory beside the "
    "environment]",
)
@star_option
@product_option
def journal_check(run: Run, env: str, image: str | None, star_manager: bool, product: str | None) -> int:
    """Check the journals as a frontend reads them: no id missing, every operation known, replay possible from the
    image.

    The command finds missing ids, databases that overlap, names that do not follow from name and count of the previous
    one (the product derives its highest id this way), unknown operations, truncated payloads, and journals after damage
    in the log. JE cuts off journals after damage when it opens the environment, and the frontend starts without them.
    The file of the image is read too: header, footer, and checksums where the format has some that can be computed.
    The summary gives the ids that can be replayed from the image, and where a frontend would stop. Nothing is created
    or changed.
    """
    with open_journals(run, env, product) as found:
        number = found.image if image is None else _image_id(image)
        if star_manager and image is None:
            # StarManager has its own images in a subdirectory.
            number = None
        problem = problem_of(found.image_files(), number) if image is None else None
        done = check_journals(
            found.env, found.extents(star_manager), found.product, number, run.listener, problem=problem
        )
        unseen = found.env.unseen
        if any(finding.kind == UNREADABLE for finding in done.findings):
            code = exits.INCOMPLETE
        else:
            code = exits.FINDINGS if done.findings or unseen else exits.DONE
        said = exits.verdict(code, _why(done, unseen))
        with run.out.stream(JournalFindingRow, line=_line, verdict=said) as stream:
            for finding in done.findings:
                stream.row(_finding(found, finding))
            stream.end(_summary(env, said, done, unseen))
    if done.unnamed:
        run.messages.notice(f"findings about single journals that are not listed: {done.unnamed}")
    return code


def _why(done: JournalCheck, unseen: str | None) -> str:
    """What the verdict rests on: where replay stops, the first finding, or what can be replayed."""
    if not done.findings and not unseen:
        read = f"{plural(done.journals, 'journal')} read, nothing is missing or unknown"
        if done.replayed is None or done.image is None:
            return read
        return f"{read}; {done.replayed.first} to {done.replayed.last} can be replayed after image {done.image}"
    first = next((one for one in done.findings if one.stops), done.findings[0] if done.findings else None)
    stop = f"replay stops at {done.stops_at}: " if done.stops_at is not None else ""
    count = len(done.findings) + done.unnamed
    more = f"; {plural(count, 'finding')}" if count > 1 else ""
    return f"{stop}{first.text if first is not None else unseen}{more}"


def _image_id(text: str) -> int:
    """The id of an image given by file name or number."""
    ids = image_ids((os.path.basename(text), f"image.{text}"))
    if not ids:
        raise UsageError(f"{text!r} names no image", expected="a file image.N, or a number")
    return ids[0]


def _finding(found: Journals, one: JournalFinding) -> JournalFindingRow:
    name = None if one.code is None else operation_text(found.product, one.code)
    return JournalFindingRow(
        kind=one.kind,
        stops=one.stops,
        db=one.database,
        first=one.first,
        last=one.last,
        op=one.code,
        name=name,
        skippable=one.skips,
        text=one.text,
    )


_SKIPS: Final = {"yes": "; StarRocks may be told to skip it", "no": "; StarRocks would not skip it"}


def _line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - the signature of TextLine
    values = {name: to_text(kind, value, style) for name, kind, value in row}
    if "text" not in values or "kind" not in values:
        return "  ".join(values.values())
    ids = values.get("first", "-")
    if values.get("last", ids) != ids:
        ids = f"{ids}-{values['last']}"
    stop = "  replay stops here" if values.get("stops") == "yes" else ""
    skips = _SKIPS.get(values.get("skippable", ""), "")
    return f"{values['kind']:<18}  {ids}  {values['text']}{stop}{skips}"


def _summary(env: str, verdict: CheckVerdict, done: JournalCheck, unseen: str | None) -> JournalCheckSummary:
    replayed = done.replayed
    return JournalCheckSummary(
        verdict=verdict.word,
        why=verdict.why,
        journals=done.journals,
        findings=len(done.findings) + done.unnamed,
        image=done.image,
        replay_first=replayed.first if replayed else None,
        replay_last=replayed.last if replayed else None,
        stops_at=done.stops_at,
        padded=done.padded,
        padding_bytes=done.padding_bytes,
        undecoded=done.undecoded,
        next=_next(env, done),
        unseen=unseen,
    )


def _next(env: str, done: JournalCheck) -> str | None:
    """The remedy for the finding at which replay stops, or for the first finding."""
    if not done.findings:
        return None
    at_stop = (
        one
        for one in done.findings
        if one.stops
        and done.stops_at is not None
        and (one.first is None or one.first <= done.stops_at <= (one.last or one.first))
    )
    first = next(at_stop, done.findings[0])
    if first.kind in (HOLE, BEHIND, OVERLAP):
        return f"jetool journal compare {env} OTHER shows whether another node has journal {first.first}"
    if first.kind in (OPERATION, PAYLOAD):
        return f"jetool journal plan-skip {env} {first.first}"
    if first.kind == AHEAD:
        return "start from another node, or from an image that is not newer; jetool journal compare says which node"
    if first.kind in (UNSEEN, DESTROYED) and first.first is not None:
        return (
            f"jetool journal show {env} {first.first}.. shows what is left; jetool journal compare {env} OTHER shows "
            "whether another node has these journals"
        )
    if first.kind == BAD_IMAGE:
        return "start from another node, or move the image away so that an older one is loaded; jetool journal compare"
    if first.kind in (UNREADABLE, UNSEEN, DESTROYED):
        return f"jetool verify {env} says what is damaged"
    return f"jetool journal list {env}"
