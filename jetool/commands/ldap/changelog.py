"""``jetool ldap changelog``: what each replica has in the replication changelog, and whether its files are intact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, NamedTuple

import click

from engine.changelog.check import KINDS, ChangelogCheck, ChangelogFindings, IndexReport, ReplicaReport, plain_dn
from engine.changelog.directory import DomainDirectory, domain_directories, require_changelog
from engine.errors import NotFoundError, plural
from engine.fields import Bool, Choices, Int, Like, Row, SizeBytes, Text, Time, record
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.verdict import CheckVerdict
from jetool.commands.ldap.group import ldap
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.kinds import JE, require
from jetool.frame.options import Run
from jetool.output.shape import Style, to_text
from jetool.output.verdicts import VerdictFields

CHANGELOG_EXITS: Final = {
    exits.NOT_FOUND: "no changelog, no such base DN, no such server id",
    exits.INCOMPLETE: "a file that cannot be read, or that is larger than any that the server writes",
}


@record()
class ReplicaRow(NamedTuple):
    """The log of a replica."""

    base: Annotated[Text | None, "the base DN; null when domains.state does not have it"]
    server: Annotated[Int | None, "the server id; null when the directory has none in its name"]
    generation: Annotated[Text | None, "the generation id of the domain"]
    directory: Annotated[Text, "its directory"]
    files: Annotated[Int, "log files"]
    bytes: Annotated[SizeBytes, "their length"]
    records: Annotated[Int, "updates, with those that cannot be decoded"]
    encrypted: Annotated[Int, "how many of them are encrypted"]
    oldest: Annotated[Text | None, "the CSN of the first update that can be read"]
    oldest_time: Annotated[Time | None, "its time, by the clock of the replica"]
    newest: Annotated[Text | None, "the newest CSN that can be read"]
    newest_time: Annotated[Time | None, "its time"]
    offline: Annotated[Text | None, "the CSN at which the replica went offline; null when it is online"]
    offline_time: Annotated[Time | None, "its time"]


@record("index")
class ChangeNumberRow(NamedTuple):
    """The change number index."""

    files: Annotated[Int, "log files"]
    bytes: Annotated[SizeBytes, "their length"]
    records: Annotated[Int, "entries"]
    first: Annotated[Int | None, "the first change number"]
    last: Annotated[Int | None, "the last one"]


@record("finding")
class ChangelogFindingRow(NamedTuple):
    """Something wrong with the changelog."""

    kind: Annotated[Text, "; ".join(f"{kind}: {text}" for kind, text in KINDS.items()), Choices(tuple(KINDS))]
    stops: Annotated[Bool, "the server refuses the changelog for it"]
    file: Annotated[Text, "the file or directory"]
    at: Annotated[Int | None, "the offset; null when it is about none"]
    text: Annotated[Text, "what is wrong"]


@record("summary")
class ChangelogSummary(NamedTuple):
    """What was checked."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    domains: Annotated[Int, "base DNs"]
    replicas: Annotated[Int, "logs of replicas"]
    records: Annotated[Int, "updates"]
    findings: Annotated[Int, "findings, those that are not listed too"]


@command(
    "changelog",
    parent=ldap,
    outputs=lambda: Outputs("stream", (ReplicaRow, ChangeNumberRow, ChangelogFindingRow), ChangelogSummary),
    features=("fields", "times"),
    examples=(
        (
            "What each replica has in the changelog, and whether it is intact",
            "jetool ldap changelog /opendj/changelogDb",
        ),
        (
            "Findings about one replica, for a script",
            "jetool ldap changelog /opendj/changelogDb --server 7 --format ndjson",
        ),
    ),
    exits={
        **CHANGELOG_EXITS,
        exits.DONE: "nothing is wrong",
        exits.FINDINGS: "there are findings",
    },
)
@environment
@click.option("--base", "wanted", metavar="DN", help="Only this base DN.")
@click.option("--server", type=click.IntRange(0, 65535), metavar="ID", help="Only the replica of this server id.")
def ldap_changelog(run: Run, env: str, wanted: str | None, server: int | None) -> int:
    """List the replicas of a replication changelog that OpenDJ keeps in files, and check the files.

    ENV is the directory changelogDb of a replication server, from OpenDJ 3 on. For each replica the command prints the
    base DN, the server id, the generation id, the number of updates, the oldest and the newest CSN with its time, and
    the CSN at which the replica went offline; then first and last number of the change number index.

    It finds files that end inside a record, bytes that are no record, block pointers that lead elsewhere, records
    that cannot be decoded, CSNs out of order or of another replica, names of files that do not fit their records,
    directories that domains.state does not have, an unreadable offline.state, attributes that cannot be decoded,
    and entries of the change number index without their update. For the end of head.log it says what the server
    will do when it starts: cut the file at the last whole record, cut it inside the record, or refuse it. A running
    server may be writing the last record; check a copy, or a second time. Nothing is created or changed.
    """
    storage = DiskStorage(env)
    require(JE, storage, "ldap changelog")
    require_changelog(storage)
    chosen = wanted_domain(storage, wanted)
    require_server(storage, chosen, server)
    check = ChangelogCheck(storage, chosen, server)
    replicas = list(check.replicas())
    index = check.index()
    code = exits.FINDINGS if check.findings.listed else exits.DONE
    said = exits.verdict(code, _why(check.findings, replicas), partly=wanted is not None or server is not None)
    with run.out.stream(ReplicaRow, ChangeNumberRow, ChangelogFindingRow, line=_line, verdict=said) as stream:
        for one in replicas:
            stream.row(_replica(one))
        if index is not None:
            stream.row(_index(index))
        for finding in check.findings.listed:
            stream.row(
                ChangelogFindingRow(
                    kind=finding.kind, stops=finding.stops, file=finding.file, at=finding.at, text=finding.text
                )
            )
        stream.end(_summary(said, check.findings, replicas))
    if check.findings.unlisted:
        run.messages.notice(f"findings that are not listed: {check.findings.unlisted}")
    return code


def wanted_domain(storage: Storage, wanted: str | None) -> Callable[[DomainDirectory], bool] | None:
    """A filter for the domain of a base DN; None for all domains. NotFoundError: there is no such domain."""
    if wanted is None:
        return None
    bases = [domain.dn for domain in domain_directories(storage) if domain.dn is not None]
    plain = plain_dn(wanted)
    if not any(plain_dn(base) == plain for base in bases):
        raise NotFoundError(f"no base DN {wanted!r}", file=storage.root, found=", ".join(bases) or "none")
    return lambda domain: domain.dn is not None and plain_dn(domain.dn) == plain


def require_server(storage: Storage, chosen: Callable[[DomainDirectory], bool] | None, server: int | None) -> None:
    """NotFoundError: none of the chosen domains has a replica of this server id."""
    domains = [domain for domain in domain_directories(storage) if chosen is None or chosen(domain)]
    there = sorted({one.server for domain in domains for one in domain.replicas if one.server is not None})
    if server is not None and server not in there:
        found = ", ".join(map(str, there)) or "none"
        raise NotFoundError(f"no replica with the server id {server}", file=storage.root, found=found)


def _replica(one: ReplicaReport) -> ReplicaRow:
    generations = one.domain.generations
    return ReplicaRow(
        base=one.domain.dn,
        server=one.replica.server,
        generation=generations[0] if generations else None,
        directory=one.replica.path,
        files=len(one.replica.files),
        bytes=sum(file.bytes for file in one.replica.files),
        records=one.records,
        encrypted=one.encrypted,
        **_stamp("oldest", one.oldest),
        **_stamp("newest", one.newest),
        **_stamp("offline", one.offline),
    )


def _stamp(name: str, csn: Any) -> dict[str, Any]:
    return {name: None if csn is None else str(csn), f"{name}_time": None if csn is None else csn.time_ms}


def _index(index: IndexReport) -> ChangeNumberRow:
    return ChangeNumberRow(
        files=len(index.files),
        bytes=sum(file.bytes for file in index.files),
        records=index.records,
        first=index.first,
        last=index.last,
    )


def _line(rec: str, row: Row, style: Style) -> str:
    """A replica, the index, or a finding as a line of text."""
    values = {name: to_text(kind, value, style) for name, kind, value in row}
    if rec == "finding" and "stops" in values:
        values["stops"] = "the server refuses the changelog" if values["stops"] == "yes" else "-"
    if "records" not in values or "files" not in values or "bytes" not in values:
        return "  ".join(value for value in values.values() if value != "-")
    counts = plural(int(values["records"]), "record"), plural(int(values["files"]), "file")
    size = f"{counts[0]} in {counts[1]}, {values['bytes']}"
    if rec == "index":
        return f"change number index  {values.get('first')} to {values.get('last')}  {size}"
    shown = [values.get("base", "-"), f"server {values.get('server')}", f"generation {values.get('generation')}", size]
    for name in ("oldest", "newest", "offline"):
        if values.get(name, "-") != "-":
            shown.append(f"{name} {values[name]} {values.get(f'{name}_time', '')}".rstrip())
    return "  ".join(shown)


def _why(findings: ChangelogFindings, replicas: Sequence[ReplicaReport]) -> str:
    """What the verdict rests on: the first finding, if possible one for which the server refuses the changelog."""
    if not findings.listed:
        return f"{plural(sum(one.records for one in replicas), 'update')} of {plural(len(replicas), 'replica')} read"
    first = next((one for one in findings.listed if one.stops), findings.listed[0])
    count = len(findings.listed) + findings.unlisted
    more = f"; {plural(count, 'finding')}" if count > 1 else ""
    return f"{first.file}: {first.text}{more}"


def _summary(verdict: CheckVerdict, findings: ChangelogFindings, replicas: Sequence[ReplicaReport]) -> ChangelogSummary:
    return ChangelogSummary(
        verdict=verdict.word,
        why=verdict.why,
        domains=len({one.domain.path for one in replicas}),
        replicas=len(replicas),
        records=sum(one.records for one in replicas),
        findings=len(findings.listed) + findings.unlisted,
    )
