"""What is wrong with a changelog, and what each replica has in it."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from engine.changelog.directory import (
    DOMAINS_STATE,
    OFFLINE_STATE,
    DomainDirectory,
    LogFileName,
    ReplicaDirectory,
    domain_directories,
    index_files,
    read_domain_names,
    read_log_file,
    read_offline_state,
)
from engine.changelog.updates import is_numbered, is_update
from engine.contents.changelog_blocks import BLOCK, DamagedBytes, FramedFile, framed, tail_recovery
from engine.contents.changelog_updates import Csn, decode_numbered, decode_update, has_readable_content
from engine.errors import FormatError, plural
from engine.storage.base import Storage

TORN: Final = "torn-tail"
DAMAGED: Final = "damaged-bytes"
POINTER: Final = "wrong-pointer"
BAD_RECORD: Final = "unreadable-record"
CONTENT: Final = "unreadable-content"
NO_UPDATE: Final = "index-without-update"
ORDER: Final = "order"
FOREIGN: Final = "foreign-update"
NAME: Final = "file-name"
DOMAINS: Final = "domains-state"
GENERATION: Final = "generation-id"
OFFLINE_FILE: Final = "offline-state"
SERVER: Final = "server-directory"
KINDS: Final = {
    TORN: "a log file that ends inside a record",
    DAMAGED: "bytes in a log file that are no record",
    POINTER: "a block pointer that does not lead to its record",
    BAD_RECORD: "a record that cannot be decoded",
    CONTENT: "an update whose attributes or modifications cannot be decoded",
    NO_UPDATE: "an entry of the change number index whose update is not in the log of its replica",
    ORDER: "a record that is not newer than the one before it",
    FOREIGN: "an update of another replica",
    NAME: "a name of a log file that is not that of its first and last record",
    DOMAINS: "domains.state and the directories of domains differ",
    GENERATION: "no single generation id",
    OFFLINE_FILE: "an offline.state that is not a CSN of the replica",
    SERVER: "a directory of a replica without a server id",
}
# Findings of one kind that are listed for one file.
_MOST_OF_A_KIND: Final = 20


class ChangelogFinding(NamedTuple):
    """A finding.

    Attributes:
        kind: of ``KINDS``.
        stops: whether the server refuses the changelog for it.
        file: the file or directory, below the root of the changelog.
        at: an offset in the file; None if it is about none.
        text: what is wrong.
    """

    kind: str
    stops: bool
    file: str
    at: int | None
    text: str


class ChangelogFindings:
    """A list of findings.

    Attributes:
        listed: the findings.
        unlisted: the number of findings that are left out because a file has many of their kind.
    """

    def __init__(self) -> None:
        self.listed: list[ChangelogFinding] = []
        self.unlisted = 0
        self._seen: Counter[tuple[str, str]] = Counter()

    def add(self, kind: str, file: str, text: str, *, at: int | None = None, stops: bool = False) -> None:
        """Add a finding; the arguments are the attributes of ``ChangelogFinding``."""
        self._seen[kind, file] += 1
        if self._seen[kind, file] > _MOST_OF_A_KIND:
            self.unlisted += 1
        else:
            self.listed.append(ChangelogFinding(kind=kind, stops=stops, file=file, at=at, text=text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReport:
    """The log of a replica.

    Attributes:
        domain, replica: their directories.
        records: records, with those that cannot be decoded.
        encrypted: how many of them are encrypted.
        oldest, newest: the first and the last CSN that can be read.
        offline: the CSN at which it went offline; None if it is online, or if that cannot be read.
    """

    domain: DomainDirectory
    replica: ReplicaDirectory
    records: int
    encrypted: int
    oldest: Csn | None
    newest: Csn | None
    offline: Csn | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """The change number index: its files, records, and first and last change number."""

    files: Sequence[LogFileName]
    records: int
    first: int | None
    last: int | None


def plain_dn(dn: str) -> str:
    """A DN in the form in which two are compared."""
    return dn.lower().replace(" ", "")


class KnownUpdates:
    """The CSNs in the log of one replica: 16 bytes for each, ascending.

    Attributes:
        is_whole: False if records could not be read, so that an absent CSN proves nothing.
        is_torn: whether the log ends inside a record, so that an absent newer CSN proves nothing.
    """

    def __init__(self) -> None:
        self._times = array("q")
        self._sequences = array("q")
        self.is_whole = True
        self.is_torn = False

    @property
    def newest(self) -> tuple[int, int]:
        """Time and counter of the last one; (-1, -1) without any."""
        return (self._times[-1], self._sequences[-1]) if self._times else (-1, -1)

    def add(self, csn: Csn) -> None:
        """Add the next CSN; one that is not newer makes the list incomplete."""
        if (csn.time_ms, csn.sequence) <= self.newest:
            self.is_whole = False
            return
        self._times.append(csn.time_ms)
        self._sequences.append(csn.sequence)

    def may_have(self, csn: Csn) -> bool:
        """Whether the log has the update, had it before it was purged, or cannot be read well enough to tell."""
        if not self.is_whole or not self._times:
            return True
        wanted = (csn.time_ms, csn.sequence)
        if wanted < (self._times[0], self._sequences[0]) or (self.is_torn and wanted > self.newest):
            return True
        at = bisect_left(self._times, csn.time_ms)
        while at < len(self._times) and self._times[at] == csn.time_ms:
            if self._sequences[at] == csn.sequence:
                return True
            at += 1
        return False


class ChangelogCheck:
    """The check of a changelog.

    Arguments:
        storage: the changelog.
        wanted: which domains; None for all and the index.
        server: only this replica; None for all and the index.

    Attributes:
        findings: findings so far; complete after ``replicas`` and ``index``.
    """

    def __init__(
        self,
        storage: Storage,
        wanted: Callable[[DomainDirectory], bool] | None = None,
        server: int | None = None,
    ) -> None:
        self._storage = storage
        self._domains = domain_directories(storage)
        self._wanted = wanted
        self._server = server
        self.findings = ChangelogFindings()
        self._updates: dict[tuple[str, int], KnownUpdates] = {}
        # A running server appends to a replica's log first. So what the index has now is in logs that are read later.
        self._index = index_files(storage)
        self._check_names()

    def _check_names(self) -> None:
        """Check ``domains.state``, generation ids, and names of directories, as far as they belong to what is asked."""
        names = read_domain_names(self._storage)
        if names.bad_line is not None:
            self.findings.add(DOMAINS, DOMAINS_STATE, f"a line without a domain: {names.bad_line[:60]!r}", stops=True)
        if self._wanted is None and self._server is None:
            there = {domain.id for domain in self._domains}
            for number in sorted(set(names.dns) - there):
                text = f"{names.dns[number]} has no directory {number}.dom"
                self.findings.add(DOMAINS, DOMAINS_STATE, text, stops=True)
        for domain in self._domains:
            if self._has(domain):
                self._check_domain(domain, is_known=domain.id in names.dns)

    def _has(self, domain: DomainDirectory) -> bool:
        """Whether a domain belongs to what is asked."""
        if self._wanted is not None and not self._wanted(domain):
            return False
        return self._server is None or any(replica.server == self._server for replica in domain.replicas)

    def _check_domain(self, domain: DomainDirectory, *, is_known: bool) -> None:
        if not is_known:
            self.findings.add(DOMAINS, domain.path, f"{DOMAINS_STATE} has no domain {domain.id}", stops=True)
        if len(domain.generations) > 1:
            text = f"{len(domain.generations)} generation ids: {', '.join(domain.generations[:5])}"
            self.findings.add(GENERATION, domain.path, text)
        for text in domain.generations:
            if not re.fullmatch(r"-?[0-9]{1,19}", text):
                self.findings.add(GENERATION, domain.path, f"{text[:40]!r} is not a number", stops=True)
        for replica in domain.replicas:
            if replica.server is None and self._server is None:
                self.findings.add(SERVER, replica.path, "the name of the directory has no server id", stops=True)

    def replicas(self) -> Iterator[ReplicaReport]:
        """Read and check the replicas, by domain and server id."""
        for domain in filter(self._has, self._domains):
            for replica in domain.replicas:
                if self._server is None or replica.server == self._server:
                    yield self._replica(domain, replica)

    def index(self) -> IndexReport | None:
        """Read and check the change number index; None without an index, or if only some replicas were asked for."""
        files = index_files(self._storage)
        if not files or self._wanted is not None or self._server is not None:
            return None
        log = _LogCheck(self._storage, self.findings, files, _number_of, is_numbered)
        log.run()
        self._compare(files)
        return IndexReport(files=files, records=log.records, first=log.first, last=log.last)

    def _compare(self, files: Sequence[LogFileName]) -> None:
        """Look for the update of each index entry in the log of its replica.

        The server purges the index first, and a log may lose its oldest files; such an entry is passed over by readers
        of the external changelog. Any other entry without its update is one that they do not get, or at which they
        fail.
        """
        before, now = _replica_files(self._domains), _replica_files(domain_directories(self._storage))
        if before != now or [file.path for file in files] != [file.path for file in self._index]:
            # A running server has begun or deleted a file meanwhile, so what was read may lack a part.
            return
        newest = max((one.newest for one in self._updates.values()), default=(-1, -1))
        for file in self._index:
            for one in framed(read_log_file(self._storage, file)[: file.bytes], is_numbered).records:
                try:
                    change = decode_numbered(one.data)
                except (FormatError, ValueError):
                    continue
                known = self._updates.get((plain_dn(change.dn), change.csn.server))
                if known is None or known.may_have(change.csn):
                    continue
                fails = (change.csn.time_ms, change.csn.sequence) > newest
                does = "fail there" if fails else "do not get it"
                text = f"change {change.number}: no update {change.csn}; readers of the external changelog {does}"
                self.findings.add(NO_UPDATE, file.path, text, at=one.at)

    def _replica(self, domain: DomainDirectory, replica: ReplicaDirectory) -> ReplicaReport:
        log = _LogCheck(self._storage, self.findings, replica.files, _csn_of, is_update, replica.server)
        if domain.dn is not None and replica.server is not None:
            log.known = self._updates[plain_dn(domain.dn), replica.server] = KnownUpdates()
        log.run()
        return ReplicaReport(
            domain=domain,
            replica=replica,
            records=log.records,
            encrypted=log.encrypted,
            oldest=log.first,
            newest=log.last,
            offline=self._offline(replica),
        )

    def _offline(self, replica: ReplicaDirectory) -> Csn | None:
        path = f"{replica.path}/{OFFLINE_STATE}"
        try:
            found = read_offline_state(self._storage, replica)
        except FormatError:
            # The server logs a warning, and takes the replica for online.
            self.findings.add(
                OFFLINE_FILE, path, "the file does not hold one CSN; the server takes the replica for online"
            )
            return None
        if found is not None and replica.server is not None and found.server != replica.server:
            self.findings.add(OFFLINE_FILE, path, f"the CSN {found} is of server {found.server}")
        return found


def _replica_files(domains: Sequence[DomainDirectory]) -> list[str]:
    return [file.path for domain in domains for replica in domain.replicas for file in replica.files]


def _csn_of(data: bytes) -> Csn | None:
    return decode_update(data).csn


def _number_of(data: bytes) -> int:
    return decode_numbered(data).number


class _LogCheck:
    """The check of the log of one replica, or of the index; ``key`` is None for records whose key is encrypted."""

    def __init__(
        self,
        storage: Storage,
        findings: ChangelogFindings,
        files: Sequence[LogFileName],
        key: Callable[[bytes], Any],
        decodes: Callable[[bytes], bool],
        server: int | None = None,
    ) -> None:
        self._storage = storage
        self._findings = findings
        self._files = files
        self._key = key
        self._decodes = decodes
        self._server = server
        self.records = self.encrypted = 0
        self.first: Any = None
        self.last: Any = None
        self.known: KnownUpdates | None = None

    def run(self) -> None:
        for file in self._files:
            data = read_log_file(self._storage, file)
            found = framed(data, self._decodes)
            self._structure(file, data, found)
            if self.known is not None:
                self.known.is_torn = found.tail is not None
                self.known.is_whole &= not found.damaged and (found.tail is None or file.is_head)
            self._keys(file, found)

    def _structure(self, file: LogFileName, data: bytes, found: FramedFile) -> None:
        for one in found.damaged:
            text = f"{plural(one.end - one.at, 'byte')} are no record; readers do not get past them in this file"
            if one.end % BLOCK == 0:
                # The server leaves this when it cuts a file inside a record, and appends the next one.
                text += f"; probably the start of a record that the server cut at {one.end}"
            self._findings.add(DAMAGED, file.path, text, at=one.at)
        for wrong in found.pointers:
            text = f"the pointer is {wrong.found} instead of {wrong.expected}; searches from it fail"
            self._findings.add(POINTER, file.path, text, at=wrong.at)
        if file.is_head:
            self._end_of_head(file, data, found.tail)
        elif found.tail is not None:
            size = plural(found.tail.end - found.tail.at, "byte")
            text = f"the last {size} are no whole record; readers go on with the next file"
            self._findings.add(TORN, file.path, text, at=found.tail.at)

    def _end_of_head(self, file: LogFileName, data: bytes, tail: DamagedBytes | None) -> None:
        server = tail_recovery(data, self._decodes)
        if tail is None:
            if not server.opens:
                self._findings.add(
                    BAD_RECORD, file.path, "the server refuses the file for its last records", stops=True
                )
            return
        size = plural(tail.end - tail.at, "byte")
        if not server.opens:
            does = "the server refuses the file"
        elif server.inside is not None:
            does = (
                f"the server cuts the file at {server.cut_at}, inside this record, and damages the record that follows"
            )
        else:
            does = f"the server cuts the file at {server.cut_at} when it starts"
        text = f"the last {size} are no whole record; {does}"
        self._findings.add(TORN, file.path, text, at=tail.at, stops=not server.opens)

    def _misses_updates(self) -> None:
        if self.known is not None:
            self.known.is_whole = False

    def _keys(self, file: LogFileName, found: FramedFile) -> None:
        first = last = None
        for one in found.records:
            self.records += 1
            try:
                key = self._key(one.data)
            except (FormatError, ValueError):
                text = f"a record of {plural(len(one.data), 'byte')} cannot be decoded; readers fail there"
                self._findings.add(BAD_RECORD, file.path, text, at=one.at)
                self._misses_updates()
                continue
            if key is None:
                self.encrypted += 1
                self._misses_updates()
                continue
            if self.known is not None:
                self.known.add(key)
            if isinstance(key, Csn) and not has_readable_content(decode_update(one.data)):
                text = f"{key}: attributes or modifications cannot be decoded; replicas cannot replay the update"
                self._findings.add(CONTENT, file.path, text, at=one.at)
            if self.last is not None and key <= self.last:
                self._findings.add(ORDER, file.path, f"{key} is not newer than {self.last} before it", at=one.at)
            if self._server is not None and key.server != self._server:
                self._findings.add(FOREIGN, file.path, f"{key} is an update of server {key.server}", at=one.at)
                self._misses_updates()
            first = key if first is None else first
            last = key
            self.first = key if self.first is None else self.first
            self.last = key if self.last is None else max(self.last, key)
        if file.is_head:
            return
        if file.keys is None:
            self._findings.add(NAME, file.path, "the name does not have two keys", stops=True)
        elif first is not None and found.tail is None and (first, last) != file.keys:
            self._findings.add(NAME, file.path, f"the records are from {first} to {last}")
