"""``jetool ldap export`` and ``ldap check``: LDAP backends of the OpenDJ family, without their server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Annotated, Any, Final, NamedTuple

import click

from engine.contents.opendj import LdapEntry, entry_json
from engine.db.environment import Environment
from engine.errors import NotFoundError, plural
from engine.events import Listener
from engine.fields import Choices, Int, Json, Like, Row, Text, record, shape_of
from engine.inspect.ldap_backend import KINDS, BackendCheck, BackendEntry, BackendFinding, backend_entries, base_dns
from jetool.commands.ldap.group import LDIF, check_ldif, ldap
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import READ_EXITS, open_to_read, reading_code
from jetool.frame.options import Run
from jetool.output.ldif import LdifEncoder, is_whole, ldif_of
from jetool.output.shape import Style, to_text
from jetool.output.verdicts import VerdictFields

_MOST_HELD: Final = 1000
_EXITS: Final = {**READ_EXITS, exits.NOT_FOUND: "no environment, no entries in it, no such base DN"}


@record("entry")
class ExportedEntry(NamedTuple):
    """One entry."""

    base: Annotated[Text, "the base DN that it is under"]
    id: Annotated[Int | None, "its id; null when the key is not an id"]
    dn: Annotated[Text | None, "its DN; null when neither the entry nor dn2id has it"]
    entry: Annotated[Json | None, "its attributes; null when it is encrypted or cannot be decoded"]


@record("summary")
class EntryCount(NamedTuple):
    """The end of the entries."""

    entries: Annotated[Int, "entries that were written"]
    left_out: Annotated[Int, "entries that are encrypted, cannot be decoded, or have no DN"]


@record("finding")
class Disagreement(NamedTuple):
    """An inconsistency."""

    kind: Annotated[Text, "; ".join(f"{kind}: {text}" for kind, text in KINDS.items()), Choices(tuple(KINDS))]
    base: Annotated[Text, "the base DN"]
    id: Annotated[Int | None, "the entry; null when it is about none"]
    dn: Annotated[Text | None, "its DN, where that is known"]
    text: Annotated[Text, "what is wrong"]


@record("summary")
class BackendSummary(NamedTuple):
    """What was checked."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    bases: Annotated[Sequence[Text], "base DNs"]
    entries: Annotated[Int, "entries of id2entry"]
    dns: Annotated[Int, "DNs of dn2id"]
    counters: Annotated[Int, "records of id2childrencount"]
    findings: Annotated[Int, "findings above"]


@command(
    "export",
    parent=ldap,
    check=check_ldif,
    outputs=lambda: Outputs("stream", (ExportedEntry,), EntryCount),
    formats=(LDIF, "json", "ndjson", "csv"),
    features=("fields", "progress", "cache"),
    examples=(
        ("All entries as LDIF", "jetool ldap export /opendj/db/userRoot --output all.ldif"),
        (
            "One base DN, for a script",
            "jetool ldap export /opendj/db/userRoot --base dc=example,dc=com --format ndjson",
        ),
    ),
    exits={
        **_EXITS,
        exits.DONE: "every entry was written",
        exits.FINDINGS: "written; some entries are encrypted, cannot be decoded, or have no DN",
    },
)
@environment
@click.option("--base", "wanted", metavar="DN", help="Only entries under this base DN.")
def ldap_export(run: Run, env: str, wanted: str | None) -> int:
    """Print the entries of a backend as LDIF, by id: user attributes first, then operational ones.

    An entry that is encrypted or cannot be decoded is replaced by a comment. DNs are those stored with the entries; if
    the server does not store them, they are assembled from dn2id, normalized. Entries come in the order of their ids: a
    parent comes before its children unless entries were moved. Nothing is created or changed.
    """
    with open_to_read(run, env) as found:
        bases = _bases(found, wanted)
        encoder = LdifEncoder() if run.out.format == LDIF else None
        written = left_out = 0
        with run.out.stream(ExportedEntry, encoder=encoder) as stream:
            for one in _entries(found, bases, run.listener):
                whole = is_whole(one)
                written, left_out = written + whole, left_out + (not whole)
                if encoder is not None:
                    stream.rows([(shape_of(ExportedEntry).rec, [(LDIF, "text", ldif_of(one))])])
                else:
                    stream.row(_exported(one))
            stream.end(EntryCount(entries=written, left_out=left_out))
        return exits.worst([reading_code(found), exits.FINDINGS if left_out else exits.DONE])


def _bases(found: Environment, wanted: str | None) -> list[str]:
    bases = base_dns(found)
    if wanted is None:
        return bases
    chosen = [base for base in bases if base.lower().replace(" ", "") == wanted.lower().replace(" ", "")]
    if not chosen:
        raise NotFoundError(f"no base DN {wanted!r}", file=found.home, found=", ".join(bases))
    return chosen


def _entries(found: Environment, bases: list[str], listener: Listener) -> Iterator[BackendEntry]:
    for base in bases:
        yield from backend_entries(found, base, listener)


def _exported(one: BackendEntry) -> ExportedEntry:
    value: Any = None
    if isinstance(one.entry, LdapEntry):
        value = entry_json(one.entry)
    return ExportedEntry(base=one.base, id=one.id, dn=one.dn, entry=value)


@command(
    "check",
    parent=ldap,
    outputs=lambda: Outputs("stream", (Disagreement,), BackendSummary),
    features=("fields", "progress", "cache"),
    examples=(
        ("Do entries, DNs and counters agree", "jetool ldap check /opendj/db/userRoot"),
        ("What is wrong, for a script", "jetool ldap check /opendj/db/userRoot --format ndjson"),
    ),
    exits={
        **_EXITS,
        exits.DONE: "all agree",
        exits.FINDINGS: "there are inconsistencies, or committed transactions after a bad entry were not read",
    },
)
@environment
@click.option("--base", "wanted", metavar="DN", help="Only this base DN.")
def ldap_check(run: Run, env: str, wanted: str | None) -> int:
    """Check the entries of a backend against its DNs and its counters of children.

    The command finds entries without a DN, DNs without an entry or without a parent, entries with two DNs in dn2id,
    entries whose stored DN differs from that in dn2id, entries that cannot be decoded, and wrong counters. DNs are
    compared by the letters and digits of their values, ignoring case, so that values which the server's schema
    considers equal are not findings. The server's rebuild-index repairs the indexes; entries missing from id2entry
    exist only on a replica or in a backup. Nothing is created or changed.
    """
    with open_to_read(run, env) as found:
        bases = _bases(found, wanted)
        checks = [BackendCheck(found, base, run.listener) for base in bases]
        rest = (one for check in checks for one in check.findings())
        # The verdict comes first, and damage may leave as many findings as there are entries.
        first = list(islice(rest, _MOST_HELD))
        code = exits.worst([reading_code(found), exits.FINDINGS if first else exits.DONE])
        said = exits.verdict(code, _why(checks, first, found.unseen))
        with run.out.stream(Disagreement, line=_line, verdict=said) as stream:
            count = 0
            for one in chain(first, rest):
                stream.row(Disagreement(kind=one.kind, base=one.base, id=one.id, dn=one.dn, text=one.text))
                count += 1
            stream.end(
                BackendSummary(
                    verdict=said.word,
                    why=said.why,
                    bases=bases,
                    entries=sum(check.totals.entries for check in checks),
                    dns=sum(check.totals.dns for check in checks),
                    counters=sum(check.totals.counters for check in checks),
                    findings=count,
                )
            )
        return code


def _why(checks: Sequence[BackendCheck], first: Sequence[BackendFinding], unseen: str | None) -> str:
    """What the verdict rests on.

    Arguments:
        first: the first findings; if there are ``_MOST_HELD``, there may be more.
        unseen: the part of the log that was not read.
    """
    parts = []
    if first:
        count = plural(len(first), "inconsistency", "inconsistencies")
        parts.append(f"{'at least ' if len(first) == _MOST_HELD else ''}{count}, the first: {first[0].text}")
    if unseen:
        parts.append(unseen)
    if not parts:
        entries = sum(check.totals.entries for check in checks)
        parts.append(f"{plural(entries, 'entry agrees', 'entries agree')} with their DNs and counters")
    return "; ".join(parts)


def _line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - the signature of TextLine
    values = {name: to_text(kind, value, style) for name, kind, value in row}
    shown = [values[name] for name in ("kind", "base", "text") if name in values]
    if values.get("dn", "-") != "-":
        shown.append(values["dn"])
    return "  ".join(shown)
