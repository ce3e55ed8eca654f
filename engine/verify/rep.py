"""The replicated side of an environment, checked against its log: index, stream, group.

If they differ, the log is right. The facts of the log come from one pass over all entries
(``engine.inspect.log_stream``). The index is passed both as stored and as opening for writing would leave it
(``engine.db.vlsn_index.view``), since opening merges the entries after the checkpoint into it.

* Every mapping of the merged index must refer to the visible entry of its VLSN. One header is read per mapping.
* The range of the index must equal the range of the log. It may begin later: log cleaning cuts the index before it
  deletes files.
* ``last_sync`` and ``last_txn_end`` must equal those of the log; the latter may be missing if it is at or before the
  first VLSN, or no longer known to the index (D-10).
* A failed merge is a finding, and then the stored buckets are checked by themselves.

Example: stored range 1..76, the first VLSN after CkptStart is 79: JE-REP-001, and 77 and 78 are searched for in the
log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from engine.errors import DamageError, FormatError, JetoolError, plural
from engine.format.entry.group_db import GROUP_KEY, GroupNode, RepGroup, decode_group, decode_group_node
from engine.format.entry.internal_db import RANGE_KEY, decode_vlsn_bucket, decode_vlsn_range
from engine.format.header import HEADER_WITH_VLSN_BYTES, REPLICATED, decode_header, is_invisible
from engine.format.lsn import NULL_LSN, file_of, format_lsn, offset_of
from engine.format.stream_facts import StreamFacts
from engine.format.tuples import parse_long_key, parse_string_key
from engine.format.vlsn import NULL_VLSN
from engine.log.access import LogAccess
from engine.verify import rep_rules as rules
from engine.verify.report import Finding, Rule, finding
from engine.vlsn.ghost import bucket_of
from engine.vlsn.index import VLSNIndex
from engine.vlsn.vlsn_range import VLSNRange

_MOST_SHOWN: Final = 100


class IndexState(NamedTuple):
    """The index as input of a check.

    Attributes:
        records: the stored records by key; None without an index.
        merged: the index as opening for writing leaves it; None if the merge failed (``refused``).
        refused: why that fails.
    """

    records: Mapping[bytes, bytes] | None
    merged: VLSNIndex | None
    refused: DamageError | None


def check_stream(facts: StreamFacts, open_rollbacks: Iterable[int] = (), begins: int = NULL_VLSN) -> Iterator[Finding]:
    """Check the stream by itself: gaps, interrupted rollbacks, durable VLSNs.

    Arguments:
        facts: of the whole log.
        open_rollbacks: LSNs of the RollbackStarts of open top-level periods.
        begins: the first VLSN of the index; VLSNs missing before it were cleaned with their files.
    """
    for first, last, lsn in facts.gaps:
        if last < begins:
            continue
        yield finding(rules.GAP, f"{first}..{last}, {last - first + 1} of them, before {format_lsn(lsn)}", lsn=lsn)
    for lsn in open_rollbacks:
        yield finding(rules.OPEN_ROLLBACK, f"RollbackStart {format_lsn(lsn)} has no RollbackEnd", lsn=lsn)
    highest = 0
    for point in facts.sync_points:
        # Masters of old releases write 0.
        if point.is_txn_end and point.dtvlsn:
            if point.dtvlsn < highest:
                message = f"VLSN {point.vlsn} has {point.dtvlsn}, an earlier one has {highest}"
                yield finding(rules.DTVLSN_ORDER, message, lsn=point.lsn)
            highest = max(highest, point.dtvlsn)


def check_index(access: LogAccess, facts: StreamFacts, index: IndexState) -> Iterator[Finding]:
    """The index against the log.

    Arguments:
        access: the log.
        facts: of its stream.
        index: the index.
    """
    # An empty stored index is right if the whole stream comes after the checkpoint; the merged index then has it.
    if index.records is None or (not index.records and index.merged is not None and index.merged.range.is_empty):
        if facts.first != NULL_VLSN:
            yield finding(rules.NO_INDEX, f"VLSNs {facts.first}..{facts.last}")
        return
    malformed = list(_malformed(index.records))
    yield from malformed
    if index.refused is not None and not malformed:
        if index.refused.expected is None:
            # The merge failed because of damage in the log or in a bucket, not because of a gap between log and index.
            rule = rules.CONTRADICTORY if index.refused.lsn is None else rules.UNREADABLE
            yield finding(rule, str(index.refused))
        else:
            yield finding(rules.HOLE, f"{index.refused.expected}, found {index.refused.found}")
    # Without a merge, only the stored buckets can be checked.
    if index.merged is None or malformed:
        yield from _wrong_mappings(access, facts, _stored_mappings(index.records))
    else:
        yield from check_merged(access, facts, index.merged)


def check_merged(access: LogAccess, facts: StreamFacts, merged: VLSNIndex) -> Iterator[Finding]:
    """Check the index of an open environment against the log: its structure, its range, every mapping."""
    for problem in merged.verify():
        yield finding(rules.CONTRADICTORY, problem)
    yield from _range(merged.range, facts)
    yield from _wrong_mappings(access, facts, merged.mappings())


def check_group(records: Mapping[bytes, bytes], facts: StreamFacts) -> Iterator[Finding]:
    """Check the group database: it is readable, has one group, and its ids are consistent."""
    group: RepGroup | None = None
    nodes: list[GroupNode] = []
    for key, data in records.items():
        name = key.hex()
        try:
            name = str(parse_string_key(key))
            if name == GROUP_KEY:
                group = decode_group(data)
            else:
                nodes.append(decode_group_node(data))
        except FormatError as error:
            yield finding(rules.BAD_GROUP, f"{name}: {error}")
    if group is None:
        if facts.first != NULL_VLSN:
            yield finding(rules.NO_GROUP, f"VLSNs {facts.first}..{facts.last}, {plural(len(nodes), 'member')}")
        return
    seen: dict[int, str | None] = {}
    for node in nodes:
        if node.id in seen:
            yield finding(rules.NODE_IDS, f"{node.name} and {seen[node.id]} both have id {node.id}")
        if node.id > group.last_node_id:
            yield finding(rules.NODE_IDS, f"{node.name} has id {node.id}, the group's last is {group.last_node_id}")
        seen[node.id] = node.name


def _malformed(records: Mapping[bytes, bytes]) -> Iterator[Finding]:
    for key, data in records.items():
        name = key.hex()
        try:
            number = parse_long_key(key)
            name = "range" if number == RANGE_KEY else f"bucket {number}"
            if number == RANGE_KEY:
                decode_vlsn_range(data)
            elif (first := bucket_of(decode_vlsn_bucket(data)).first) != number:
                yield finding(rules.MALFORMED, f"the bucket of VLSN {first} is stored under {number}")
        except JetoolError as error:
            yield finding(rules.MALFORMED, f"{name}: {error}")


def _stored_mappings(records: Mapping[bytes, bytes]) -> Iterator[tuple[int, int]]:
    for key, data in sorted(records.items()):
        try:
            if parse_long_key(key) != RANGE_KEY:
                yield from bucket_of(decode_vlsn_bucket(data)).mappings()
        except JetoolError:
            # Reported as malformed.
            continue


def _range(found: VLSNRange, facts: StreamFacts) -> Iterator[Finding]:
    if found.is_empty:
        if facts.first != NULL_VLSN:
            yield finding(rules.NO_INDEX, f"its range is empty; VLSNs {facts.first}..{facts.last} are in the log")
        return
    if found.last > facts.last:
        yield finding(rules.RANGE_BEYOND, f"at {found.last}, the log at {_shown(facts.last)}")
    elif found.last < facts.last:
        yield finding(rules.RANGE_SHORT, f"at {found.last}, the log at {facts.last}")
    if found.first < facts.first:
        yield finding(rules.RANGE_EARLY, f"at {found.first}, the log at {facts.first}")
    elif NULL_VLSN != facts.first < found.first:
        # Cleaning cuts the index durably before it deletes a file (R-VLSN-54).
        yield finding(rules.RANGE_LATE, f"{facts.first}..{found.first - 1}")
    # If the ends differ, ``last_sync`` and ``last_txn_end`` differ too; one finding is enough.
    if found.last == facts.last:
        yield from _landmarks(found, facts)


def _landmarks(found: VLSNRange, facts: StreamFacts) -> Iterator[Finding]:
    points = facts.sync_points
    sync = points[-1].vlsn if len(points) else NULL_VLSN
    end = next((point.vlsn for point in reversed(points) if point.is_txn_end), NULL_VLSN)
    # VLSNs cut off at the head do not count, and a last end that became the first VLSN is forgotten (D-10).
    if found.last_sync != sync and sync >= found.first:
        yield finding(rules.LANDMARK, f"last sync point {_shown(found.last_sync)}, in the log {_shown(sync)}")
    if found.last_txn_end != end and not (found.last_txn_end == NULL_VLSN and end <= found.first):
        yield finding(rules.LANDMARK, f"last transaction end {_shown(found.last_txn_end)}, in the log {_shown(end)}")


def _wrong_mappings(access: LogAccess, facts: StreamFacts, mappings: Iterable[tuple[int, int]]) -> Iterator[Finding]:
    shown = 0
    for vlsn, lsn in mappings:
        rule, message = _look(access, vlsn, lsn)
        if rule is None:
            continue
        if vlsn > facts.last:
            # The finding about the range already covers mappings beyond the end of the log.
            continue
        shown += 1
        if shown > _MOST_SHOWN:
            yield finding(rules.WRONG_ENTRY, f"more than {_MOST_SHOWN} mappings are wrong; the rest is not listed")
            return
        yield finding(rule, f"VLSN {vlsn} at {format_lsn(lsn)}: {message}", lsn=lsn)


def _look(access: LogAccess, vlsn: int, lsn: int) -> tuple[Rule | None, str]:
    """Describe the entry at the place that a mapping gives."""
    number, offset = file_of(lsn), offset_of(lsn)
    if lsn == NULL_LSN or not access.has_file(number):
        return rules.WRONG_ENTRY, "there is no such log file"
    head = access.handle(number).read(offset, HEADER_WITH_VLSN_BYTES)
    # The minimum size of an entry of the stream, whose header has a VLSN.
    if len(head) < HEADER_WITH_VLSN_BYTES:
        return rules.WRONG_ENTRY, "the file ends before it"
    version = access.version_of(number)
    header = decode_header(head, 0, version)
    if not header.flags & REPLICATED or header.vlsn != vlsn:
        other = f"VLSN {header.vlsn}" if header.flags & REPLICATED and header.vlsn > 0 else "no entry of the stream"
        return rules.WRONG_ENTRY, f"{other} stands there"
    if is_invisible(header.flags, version):
        return rules.MAPPED_INVISIBLE, "the entry is invisible"
    return None, ""


def _shown(vlsn: int) -> str:
    return "none" if vlsn == NULL_VLSN else str(vlsn)
