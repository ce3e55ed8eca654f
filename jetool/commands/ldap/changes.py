"""``jetool ldap changes``: the updates in the replication changelog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, NamedTuple

import click

from engine.changelog.directory import domain_directories, require_changelog
from engine.changelog.updates import FoundUpdate, domain_updates
from engine.contents.changelog_ldif import change_record, changes_json
from engine.contents.changelog_updates import KINDS, has_readable_content
from engine.fields import Bool, Choices, Int, Json, Row, SizeBytes, Text, Time, record, shape_of
from engine.storage.disk import DiskStorage
from jetool.commands.ldap.changelog import CHANGELOG_EXITS, require_server, wanted_domain
from jetool.commands.ldap.group import LDIF, check_ldif, ldap
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.kinds import JE, require
from jetool.frame.options import Run
from jetool.output.ldif import LdifEncoder
from jetool.output.shape import Style, to_text

_UNREADABLE: Final = "unreadable"


@record("change")
class ReplicatedChange(NamedTuple):
    """An update."""

    csn: Annotated[Text | None, "its CSN; null when it is encrypted or cannot be decoded"]
    time: Annotated[Time | None, "the time in the CSN, by the clock of the replica"]
    server: Annotated[Int | None, "the server id of the replica"]
    op: Annotated[Text, "the kind of update; unreadable: it cannot be decoded", Choices((*KINDS, _UNREADABLE))]
    dn: Annotated[Text | None, "the DN of the entry, before a change of its DN"]
    uuid: Annotated[Text | None, "the entryUUID of the entry"]
    new_rdn: Annotated[Text | None, "the new RDN"]
    new_superior: Annotated[Text | None, "the new parent; null when the entry stays below its parent"]
    parent_uuid: Annotated[Text | None, "the entryUUID of the parent of an added entry, or of the new parent"]
    changes: Annotated[
        Json | None,
        "attributes of an added entry, or modifications; null when it has none or they cannot be decoded; as text "
        "without their values",
    ]
    bytes: Annotated[SizeBytes, "the length of the record"]
    file: Annotated[Text, "its log file"]
    at: Annotated[Int, "its offset in the file"]


@record("summary")
class ChangeCount(NamedTuple):
    """The end of the updates."""

    changes: Annotated[Int, "updates that were printed"]
    unreadable: Annotated[Int, "how many of them, or of their attributes and modifications, cannot be decoded"]
    complete: Annotated[Bool, "false when --limit left some out"]


@command(
    "changes",
    parent=ldap,
    check=check_ldif,
    outputs=lambda: Outputs("stream", (ReplicatedChange,), ChangeCount),
    formats=("text", LDIF, "json", "ndjson", "csv"),
    features=("fields", "times"),
    examples=(
        ("What the replicas changed since noon", "jetool ldap changes /opendj/changelogDb --since 2026-11-29T12:00Z"),
        (
            "The first changes of one replica, for a script",
            "jetool ldap changes /opendj/changelogDb --server 7 --limit 100 --format ndjson",
        ),
        (
            "The changes of an hour as change records of LDIF",
            "jetool ldap changes /opendj/changelogDb --since -1h --format ldif --output changes.ldif",
        ),
    ),
    exits={
        **CHANGELOG_EXITS,
        exits.DONE: "every update was printed",
        exits.FINDINGS: "printed; some updates cannot be decoded",
    },
)
@environment
@click.option("--base", "wanted", metavar="DN", help="Only this base DN.")
@click.option("--server", type=click.IntRange(0, 65535), metavar="ID", help="Only the replica of this server id.")
@click.option("--since", type=params.TIME, help="Only updates made since TIME.")
@click.option("--until", type=params.TIME, help="Only updates made until TIME.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Print N updates at most.")
def ldap_changes(
    run: Run,
    env: str,
    wanted: str | None,
    server: int | None,
    since: int | None,
    until: int | None,
    limit: int | None,
) -> int:
    """Print the updates in a replication changelog that OpenDJ keeps in files, by base DN and CSN.

    ENV is the directory changelogDb. Each update has its CSN, time, server id, kind, DN, entryUUID, and attributes
    or modifications. Text names the attributes; the other formats have their values too, stored passwords included.
    As LDIF each update is a change record (RFC 2849) with all attributes that the update has, also those that only
    servers set, which a server refuses from its clients; updates of no entry, and those that cannot be decoded,
    become comments. Bytes that are no record are skipped (jetool ldap changelog finds them). Encrypted updates, and
    those that cannot be decoded, are printed too: they come after the update that precedes them in their file, and
    --since and --until do not leave them out. Nothing is created or changed.
    """
    storage = DiskStorage(env)
    require(JE, storage, "ldap changes")
    require_changelog(storage)
    chosen = wanted_domain(storage, wanted)
    require_server(storage, chosen, server)
    domains = [one for one in domain_directories(storage) if chosen is None or chosen(one)]
    printed = unreadable = 0
    complete = True
    encoder = LdifEncoder() if run.out.format == LDIF else None
    with run.out.stream(ReplicatedChange, line=_line, encoder=encoder) as stream:
        for one in _within(
            (one for domain in domains for one in domain_updates(storage, domain, server)), since, until
        ):
            if limit is not None and printed >= limit:
                complete = False
                break
            if encoder is not None:
                stream.rows([(shape_of(ReplicatedChange).rec, [(LDIF, "text", _ldif(one))])])
            else:
                stream.row(_row(one))
            printed, unreadable = printed + 1, unreadable + (not _is_readable(one))
        stream.end(ChangeCount(changes=printed, unreadable=unreadable, complete=complete))
    return exits.FINDINGS if unreadable else exits.DONE


def _within(updates: Iterator[FoundUpdate], since: int | None, until: int | None) -> Iterator[FoundUpdate]:
    for one in updates:
        csn = None if one.update is None else one.update.csn
        if csn is not None and since is not None and csn.time_ms < since:
            continue
        if csn is not None and until is not None and csn.time_ms > until:
            continue
        yield one


def _line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - the signature of TextLine
    values = {name: _names(value) if name == "changes" else to_text(kind, value, style) for name, kind, value in row}
    shown = {name: value for name, value in values.items() if value != "-"}
    names = {"new_rdn": "new RDN", "new_superior": "new parent", "parent_uuid": "parent", "file": "in", "at": "at"}
    return "  ".join(f"{names[name]} {value}" if name in names else value for name, value in shown.items())


def _names(changes: Any) -> str:
    """The attributes that an update has, with the kind of each modification."""
    return ", ".join(" ".join(filter(None, (one.get("op"), one["attribute"]))) for one in changes or ()) or "-"


def _is_readable(one: FoundUpdate) -> bool:
    return one.update is not None and has_readable_content(one.update)


def _ldif(one: FoundUpdate) -> str:
    found = None if one.update is None else change_record(one.update)
    if found is not None:
        return found
    kind = _UNREADABLE if not _is_readable(one) or one.update is None else one.update.kind
    csn = "" if one.update is None or one.update.csn is None else f"{one.update.csn} "
    return f"# {csn}{kind}: {one.file.path} at {one.at}\n\n"


def _row(one: FoundUpdate) -> ReplicatedChange:
    update = one.update
    csn = None if update is None else update.csn
    return ReplicatedChange(
        csn=None if csn is None else str(csn),
        time=None if csn is None else csn.time_ms,
        server=one.replica.server if csn is None else csn.server,
        op=_UNREADABLE if update is None else update.kind,
        dn=None if update is None else update.dn,
        uuid=None if update is None else update.uuid,
        new_rdn=None if update is None else update.new_rdn,
        new_superior=None if update is None else update.new_superior,
        parent_uuid=None if update is None else update.parent_uuid,
        changes=None if update is None else changes_json(update),
        bytes=one.size,
        file=one.file.path,
        at=one.at,
    )
