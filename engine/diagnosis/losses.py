"""What would be lost by starting, by name: journals, DNs, keys of tables, or keys.

Commits after damage are found in the log (``engine.inspect.unread_records``), records of missing files by
``engine.rescue.missing_files``, records in damaged places by ``verify``.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import Final

from engine.contents.base import DecodedRecord, Json
from engine.contents.journals import KEY_BYTES, journal_id, journal_name
from engine.contents.ldap_names import DN2ID, ID2ENTRY, dn_of, index_name
from engine.contents.opendj import entry_id
from engine.db.environment import Environment
from engine.diagnosis.record import DATABASE, DN, JOURNAL, KEY, MOST_NAMES, RANGE, LostName
from engine.errors import FormatError, plural
from engine.format.bytecursor import split_two_part_key
from engine.format.entry.ln import LN
from engine.format.entry_types import COMMIT
from engine.format.lsn import NULL_LSN, format_lsn
from engine.inspect.contents import DecodingPlan
from engine.inspect.key_formats import show
from engine.inspect.unread_records import UnreadRecord, read_unread
from engine.journals.unseen import UnseenJournals
from engine.log.files import list_log_files
from engine.log.scan import LogScan, scan_log
from engine.rescue.missing_files import MissingReport
from engine.tree.database_state import INTERNAL_PREFIX
from engine.verify.report import ERROR, Finding

# Names that are kept; the others are counted.
_LONGEST_NAME: Final = 200


def of_journals(unseen: UnseenJournals) -> list[LostName]:
    """Journals after damage, and those that the damage has destroyed."""
    found = [
        LostName(
            kind=JOURNAL,
            db=one.database,
            name=str(one.id),
            key=None,
            place=format_lsn(one.lsn),
            certain=one.committed,
        )
        for one in unseen.journals
    ]
    for gone in unseen.destroyed:
        ids = str(gone.first) if gone.first == gone.last else f"{gone.first}-{gone.last}"
        place = format_lsn(unseen.damage_lsn)
        found.append(LostName(kind=JOURNAL, db=None, name=ids, key=None, place=place, certain=True))
    return sorted(found, key=lambda one: int(one.name.partition("-")[0]))


def of_records(env: Environment, plan: DecodingPlan | None) -> tuple[list[LostName], int]:
    """Records of any application whose Commit comes after damage, each once; and how many of their transactions have a
    record in the damaged bytes.
    """

    def is_users(database: str, record: LN) -> bool:
        return not database.startswith(INTERNAL_PREFIX) and bool(record.key)

    unread = read_unread(env, is_users)
    if unread is None:
        return [], 0
    tail = env.engine.tail
    # Only a damaged Commit makes a transaction before the damage doubtful; others were open when the process stopped.
    is_commit = tail is not None and tail.damage is not None and tail.damage.type_number == COMMIT
    suspects = unread.suspects if is_commit else ()
    log = scan_log(env.engine.storage, list_log_files(env.engine.storage), marker=True)
    found: dict[tuple[str, str], LostName] = {}
    for records, certain in ((unread.committed, True), (suspects, False)):
        for one in records[: MOST_NAMES * 10]:
            named = _named(env, log, plan, one, certain=certain)
            if named is not None:
                found.setdefault((named.kind, named.name if named.kind == DN else f"{named.db}\0{named.name}"), named)
    return list(found.values()), unread.broken_txns


def _named(
    env: Environment, log: LogScan, plan: DecodingPlan | None, one: UnreadRecord, *, certain: bool
) -> LostName | None:
    """A record by name; None for a record of an index, which its entry names."""
    tree = index_name(one.database)
    is_ldap = plan is not None and tree is not None
    if is_ldap and tree is not None and tree.tree not in (DN2ID, ID2ENTRY):
        return None
    decoded = plan.logged(one.db_id, one.key, _data(log, one)) if plan is not None else None
    key = _plain_key(env, one)
    kind, name = (DN, _dn(decoded)) if is_ldap else (KEY, _text(decoded, key))
    if not name:
        kind, name = KEY, _text(None, key)
    if one.deleted:
        name += " (deleted)"
    return LostName(
        kind=kind, db=one.database or None, name=name, key=one.key, place=format_lsn(one.lsn), certain=certain
    )


def _plain_key(env: Environment, one: UnreadRecord) -> bytes:
    """The key of a record; in a database with sorted duplicates without the data."""
    catalog = env.engine.catalog
    state = catalog.by_id(one.db_id)
    if state is None or not state.duplicates:
        return one.key
    try:
        return split_two_part_key(one.key)[0]
    except (FormatError, IndexError, ValueError):
        # Before log version 8 the key stands alone.
        return one.key


def _data(log: LogScan, one: UnreadRecord) -> bytes | None:
    if one.deleted:
        return None
    entry = log.entry_at(one.lsn)
    try:
        record: object = entry.record() if entry is not None else None
    except FormatError:
        return None
    return record.data if isinstance(record, LN) else None


def _dn(decoded: DecodedRecord | None) -> str:
    """The DN in a decoded record of ``dn2id`` or ``id2entry``; empty if it has none."""
    for part in (decoded.key, decoded.data) if decoded is not None else ():
        if isinstance(part, dict) and isinstance(part.get("dn"), str):
            return str(part["dn"])[:_LONGEST_NAME]
    return ""


def _text(decoded: DecodedRecord | None, key: bytes) -> str:
    """The key as its application has it, or as text, or in hex."""
    found = decoded.key if decoded is not None else None
    if isinstance(found, str):
        return found[:_LONGEST_NAME]
    if isinstance(found, dict) and "major" in found:
        return _path(found)[:_LONGEST_NAME]
    if found is not None and not (isinstance(found, dict) and set(found) == {"hex"}):
        return json.dumps(found, ensure_ascii=False)[:_LONGEST_NAME]
    try:
        text = key.decode("utf-8")
    except ValueError:
        text = ""
    return text[:_LONGEST_NAME] if text.isprintable() and text else f"0x{show(key[:_LONGEST_NAME], 'hex')}"


def _path(key: Json) -> str:
    """A key of Oracle NoSQL, as its own tools write it: ``/major/-/minor``, after the id of the table."""
    minor = ["-", *key["minor"]] if key["minor"] else []
    path = "/" + "/".join([*key["major"], *minor])
    return f"table {key['table']} {path}" if "table" in key else path


def _of_key(plan: DecodingPlan | None, db: str, key: bytes) -> tuple[str, str]:
    """Kind and name of a record whose data cannot be read."""
    named, tree = journal_name(db), index_name(db)
    if named is not None and len(key) == KEY_BYTES:
        return JOURNAL, str(journal_id(key))
    try:
        if plan is not None and tree is not None and tree.tree == DN2ID:
            return DN, dn_of(tree.base, key)[:_LONGEST_NAME]
        if plan is not None and tree is not None and tree.tree == ID2ENTRY:
            return KEY, f"entry {entry_id(key)}"
    except (FormatError, ValueError):
        return KEY, _text(None, key)
    return KEY, _text(None if plan is None else plan.record(db, key, None), key)


def of_lost_key(db: str, key: bytes, lsn: int) -> LostName:
    """A key whose newest version is lost, in an environment that may not open: a journal, a DN, or a key."""
    kind, name = _of_key(None, db, key)
    tree = index_name(db)
    if tree is not None and tree.tree == DN2ID:
        # Otherwise the key is printed as it is.
        with contextlib.suppress(FormatError, ValueError):
            kind, name = DN, dn_of(tree.base, key)[:_LONGEST_NAME]
    place = None if lsn == NULL_LSN else format_lsn(lsn)
    return LostName(kind=kind, db=db or None, name=name, key=key, place=place, certain=True)


def of_missing(report: MissingReport, plan: DecodingPlan | None) -> list[LostName]:
    """Databases, keys and parts of trees that stood only in missing files."""
    found = [
        LostName(kind=DATABASE, db=name, name=name, key=None, place=None, certain=True) for name in report.databases
    ]
    for key in report.keys:
        if not key.internal:
            place = None if key.lsn == NULL_LSN else format_lsn(key.lsn)
            kind, name = _of_key(plan, key.db, key.key)
            found.append(LostName(kind=kind, db=key.db, name=name, key=key.key, place=place, certain=True))
    for one in report.subtrees:
        if not one.internal:
            low, high = ("" if end is None else _of_key(plan, one.db, end)[1] for end in (one.low, one.high))
            name = f"{low}..{high}, about {plural(one.records, 'record')}"
            place = format_lsn(one.lsn)
            found.append(LostName(kind=RANGE, db=one.db, name=name, key=one.low, place=place, certain=True))
    return found


def gone_by(report: MissingReport) -> int:
    """How many records missing files held, about."""
    keys = sum(not key.internal for key in report.keys)
    return keys + sum(one.records for one in report.subtrees if not one.internal)


def of_findings(findings: Iterable[Finding], plan: DecodingPlan | None) -> Iterator[LostName]:
    """Records of users that ``verify --data`` could not read."""
    seen = set()
    for one in findings:
        if one.severity != ERROR or one.key is None or (one.db or "").startswith(INTERNAL_PREFIX):
            continue
        if (one.db, one.key) not in seen:
            seen.add((one.db, one.key))
            place = None if one.lsn == NULL_LSN else format_lsn(one.lsn)
            kind, name = _of_key(plan, one.db or "", one.key)
            yield LostName(kind=kind, db=one.db, name=name, key=one.key, place=place, certain=True)
