"""An LDAP backend as a whole: its entries with their DNs, and whether its indexes agree with them (embedders.md 1)."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.contents.ldap_names import (
    CHILDREN_COUNT,
    DN2ID,
    ID2ENTRY,
    LooseNames,
    dn_of,
    index_name,
    parent_key,
)
from engine.contents.opendj import (
    ID_BYTES,
    CompressedSchema,
    EncryptedEntry,
    LdapEntry,
    decode_entry,
    entry_id,
    schema_of,
)
from engine.db.environment import Environment
from engine.errors import FormatError, NotFoundError
from engine.events import SILENT, Listener, heard
from engine.inspect.contents import EnvironmentSource

WITHOUT_DN: Final = "entry-without-dn"
WITHOUT_ENTRY: Final = "dn-without-entry"
WITHOUT_PARENT: Final = "dn-without-parent"
TWICE: Final = "id-twice"
DIFFERS: Final = "dn-differs"
UNREADABLE: Final = "unreadable-entry"
CHILDREN: Final = "children-count"
BAD_RECORD: Final = "unreadable-record"
KINDS: Final = {
    WITHOUT_DN: "an entry that dn2id does not name",
    WITHOUT_ENTRY: "a DN whose entry is not there",
    WITHOUT_PARENT: "a DN whose parent is not there",
    TWICE: "two DNs of one entry",
    DIFFERS: "an entry that stores another DN than dn2id has for it",
    UNREADABLE: "an entry that cannot be decoded",
    CHILDREN: "the number of children differs from id2childrencount",
    BAD_RECORD: "a record of an index that cannot be decoded",
}


class BackendEntry(NamedTuple):
    """One entry.

    Attributes:
        base: the base DN of the entry.
        id: id of the entry; None if the key is not an id.
        dn: the DN as stored in the entry, or normalized from dn2id; None if both lack it.
        entry: the decoded entry; None if it cannot be decoded.
    """

    base: str
    id: int | None
    dn: str | None
    entry: LdapEntry | EncryptedEntry | None


class BackendFinding(NamedTuple):
    """An inconsistency: its kind (of ``KINDS``), the base, and the entry and DN concerned."""

    kind: str
    base: str
    id: int | None
    dn: str | None
    text: str


class BackendTotals(NamedTuple):
    """Numbers of checked entries, DNs, and counters of children."""

    entries: int
    dns: int
    counters: int


def base_dns(env: Environment) -> list[str]:
    """The base DNs of a backend.

    Raises:
        NotFoundError: the environment is not an LDAP backend.
    """
    found = {
        name.base for one in env.database_names() if (name := index_name(one)) is not None and name.tree == ID2ENTRY
    }
    if not found:
        raise NotFoundError(
            "no LDAP entries",
            file=env.home,
            expected="a database id2entry",
            found=", ".join(env.database_names()[:5]) or "no database",
            hint=f"jetool dbs {env.home} says what is in it; a backend is a directory of its own below db",
        )
    return sorted(found)


def backend_entries(env: Environment, base: str, listener: Listener = SILENT) -> Iterator[BackendEntry]:
    """The entries under a base DN, by id; the listener receives progress for each database that is read."""
    schema = schema_of(EnvironmentSource(env))
    dns: dict[int, str] | None = None
    for key, value in _records(env, base, ID2ENTRY, listener):
        number, entry = _entry(key, value, schema)
        dn = entry.dn if isinstance(entry, LdapEntry) else None
        if dn is None and number is not None:
            # Loaded only if entries lack DNs, because the DNs of a whole base take much memory.
            dns = _dns_by_id(env, base, listener) if dns is None else dns
            dn = dns.get(number)
        yield BackendEntry(base, number, dn, entry)


class BackendCheck:
    """Checks one base DN; ``totals`` is updated while ``findings`` is iterated.

    Arguments:
        env: the backend.
        base: a result of ``base_dns``.
        listener: receives progress for each database that is read.
    """

    def __init__(self, env: Environment, base: str, listener: Listener = SILENT) -> None:
        self._env = env
        self._listener = listener
        self._base = base
        self._names = LooseNames(base)
        # Stored DNs of entries, by id, for which dn2id has another DN.
        self._differing: dict[int, str] = {}
        self.totals = BackendTotals(0, 0, 0)

    def findings(self) -> Iterator[BackendFinding]:
        """Yield the inconsistencies."""
        # The entry id and the number of each DN, instead of the DNs themselves, because there may be millions.
        named, numbers = array("Q"), array("Q")
        children: Counter[int] = Counter()
        yield from self._dns(named, numbers, children)
        order = sorted(range(len(named)), key=named.__getitem__)
        ordered, numbers = array("Q", (named[at] for at in order)), array("Q", (numbers[at] for at in order))
        yield from (self._finding(TWICE, one, None, f"two DNs lead to entry {one}") for one in _twice(ordered))
        yield from self._entries(ordered, numbers)
        yield from self._different()
        yield from self._counts(children, set(ordered))

    def _finding(self, kind: str, number: int | None, dn: str | None, text: str) -> BackendFinding:
        return BackendFinding(kind, self._base, number, dn, text)

    def _dns(self, named: array[int], numbers: array[int], children: Counter[int]) -> Iterator[BackendFinding]:
        """Check dn2id in key order: a key begins with its parent's key and comes after it."""
        above: list[tuple[bytes, int]] = []
        for key, value in _records(self._env, self._base, DN2ID, self._listener):
            self.totals = self.totals._replace(dns=self.totals.dns + 1)
            try:
                number, dn = entry_id(value), dn_of(self._base, key)
            except (FormatError, ValueError):
                yield self._finding(BAD_RECORD, None, None, f"dn2id: key {key[:40].hex()} cannot be decoded")
                continue
            named.append(number)
            numbers.append(self._names.of_key(key))
            while above and above[-1][0] and not key.startswith(above[-1][0] + key[:1]):
                above.pop()
            if above and above[-1][0] == parent_key(key):
                children[above[-1][1]] += 1
            elif self.totals.dns > 1:
                # The first DN is the base itself.
                yield self._finding(WITHOUT_PARENT, number, dn, "the entry above it is not in dn2id")
            above.append((key, number))

    def _entries(self, ordered: array[int], numbers: array[int]) -> Iterator[BackendFinding]:
        """Merge entries and DNs, both sorted by id."""
        schema = schema_of(EnvironmentSource(self._env))
        at = 0
        for key, value in _records(self._env, self._base, ID2ENTRY, self._listener):
            self.totals = self.totals._replace(entries=self.totals.entries + 1)
            number, entry = _entry(key, value, schema)
            if number is None:
                yield self._finding(UNREADABLE, None, None, f"id2entry: key {key[:40].hex()} is no entry id")
                continue
            while at < len(ordered) and ordered[at] < number:
                yield self._finding(WITHOUT_ENTRY, ordered[at], None, f"entry {ordered[at]} is not in id2entry")
                at += 1
            dn = entry.dn if isinstance(entry, LdapEntry) else None
            if at < len(ordered) and ordered[at] == number:
                first = at
                while at < len(ordered) and ordered[at] == number:
                    at += 1
                stored = 0 if dn is None else self._names.of_entry(dn)
                if dn is not None and stored and all(one not in (0, stored) for one in numbers[first:at]):
                    self._differing[number] = dn
            else:
                yield self._finding(WITHOUT_DN, number, dn, f"entry {number} has no DN in dn2id")
            if entry is None:
                yield self._finding(UNREADABLE, number, None, f"entry {number} cannot be decoded")
        for number in ordered[at:]:
            yield self._finding(WITHOUT_ENTRY, number, None, f"entry {number} is not in id2entry")

    def _different(self) -> Iterator[BackendFinding]:
        """Report entries whose stored DN differs, with the DN from dn2id."""
        for key, value in _records(self._env, self._base, DN2ID, self._listener) if self._differing else ():
            number = entry_id(value) if len(value) == ID_BYTES else -1
            dn = self._differing.get(number)
            if dn is not None:
                yield self._finding(DIFFERS, number, dn, f"entry {number}: dn2id has {dn_of(self._base, key)}")

    def _counts(self, children: Counter[int], named: set[int]) -> Iterator[BackendFinding]:
        """Compare the counters of children; counters for ids without an entry are internal to the server."""
        counted: Counter[int] = Counter()
        there = False
        for key, value in _records(self._env, self._base, CHILDREN_COUNT, self._listener):
            there = True
            self.totals = self.totals._replace(counters=self.totals.counters + 1)
            if len(key) < ID_BYTES or not 0 < len(value) <= ID_BYTES:
                yield self._finding(BAD_RECORD, None, None, f"id2childrencount: key {key[:40].hex()} cannot be decoded")
                continue
            counted[int.from_bytes(key[:ID_BYTES], "big")] += int.from_bytes(value, "big", signed=True)
        for number in sorted(named & (set(counted) | set(children))) if there else ():
            if counted[number] != children[number]:
                text = f"entry {number}: children in dn2id {children[number]}, in id2childrencount {counted[number]}"
                yield self._finding(CHILDREN, number, None, text)


def _twice(ordered: array[int]) -> Iterator[int]:
    last = seen = -1
    for one in ordered:
        if one == last and one != seen:
            seen = one
            yield one
        last = one


def _records(env: Environment, base: str, tree: str, listener: Listener) -> Iterator[tuple[bytes, bytes]]:
    for one in env.database_names():
        name = index_name(one)
        if name is not None and (name.base, name.tree) == (base, tree):
            with env.open_database(one) as db:
                yield from heard(db.items(), listener, tree)


def _entry(key: bytes, value: bytes, schema: CompressedSchema) -> tuple[int | None, LdapEntry | EncryptedEntry | None]:
    try:
        number = entry_id(key)
    except FormatError:
        return None, None
    try:
        return number, decode_entry(value, schema)
    except (FormatError, ValueError):
        return number, None


def _dns_by_id(env: Environment, base: str, listener: Listener) -> dict[int, str]:
    found: dict[int, str] = {}
    for key, value in _records(env, base, DN2ID, listener):
        try:
            found[entry_id(value)] = dn_of(base, key)
        except (FormatError, ValueError):
            continue
    return found
