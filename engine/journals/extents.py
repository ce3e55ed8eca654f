"""The journal databases of an environment, from the keys of their bottom nodes alone: no journal is read.

The keys of a node ascend, so its ids are consecutive if the last minus the first equals the number of keys minus one.
So the work grows with the number of nodes, not of journals.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from engine.contents.journals import EPOCHS, FAMILIES, KEY_BYTES, journal_id, journal_name
from engine.db.engine import Engine
from engine.db.environment import Environment
from engine.db.record_keys import key_and_data
from engine.db.scan import live_slots
from engine.errors import NotFoundError
from engine.journals.id_range import IdRange
from engine.tree.database_state import DatabaseState

# The number of holes that are listed; others are only counted.
MOST_HOLES: Final = 1000


class JournalExtent(NamedTuple):
    """One journal database.

    Attributes:
        family: ``FAMILIES``.
        name_id: the first id according to its name.
        first, last: the first and the last id; None when there is no journal.
        journals: number of journals.
        holes: missing ranges of ids between first and last; at most ``MOST_HOLES``.
        missing: number of missing ids.
        wrong_keys: number of keys that are not ids.
        size_bytes: size of their log entries, as far as the nodes record sizes.
        first_lsn, last_lsn: LSNs of the first and the last journal.
    """

    name: str
    family: str
    name_id: int
    first: int | None
    last: int | None
    journals: int
    holes: tuple[IdRange, ...]
    missing: int
    wrong_keys: int
    size_bytes: int
    first_lsn: int
    last_lsn: int


class Passage(NamedTuple):
    """How a journal database follows the one before it.

    Attributes:
        hole: ids between the two databases that neither has, or None.
        overlap: ids of the earlier database at or above the later one's name, or None.
        by_count: the name expected from the name and count of the earlier database; None if the name is as expected.
    """

    hole: IdRange | None
    overlap: IdRange | None
    by_count: int | None


class JournalExtents(NamedTuple):
    """The journal databases of one family in the order of their names, and how each follows the one before it."""

    family: str
    databases: tuple[JournalExtent, ...]
    passages: tuple[Passage, ...]

    @property
    def first(self) -> int | None:
        """The first id as the product determines it: the smallest name."""
        return self.databases[0].name_id if self.databases else None

    @property
    def last(self) -> int | None:
        """The last existing id."""
        return max((one.last for one in self.databases if one.last is not None), default=None)

    @property
    def journals(self) -> int:
        """How many journals."""
        return sum(one.journals for one in self.databases)


class Epochs(NamedTuple):
    """The records of ``epochDB``: their number, and the highest epoch (0 if there are no records)."""

    records: int
    highest: int


def read_extents(env: Environment) -> tuple[JournalExtents, ...]:
    """The journal databases, by family; absent families are left out.

    Raises:
        NotFoundError: there is no journal database.
    """
    families: dict[str, list[tuple[int, str]]] = {family: [] for family in FAMILIES}
    for name in env.database_names():
        found = journal_name(name)
        if found is not None:
            families[found.family].append((found.first_id, name))
    if not any(families.values()):
        raise NotFoundError(
            "no database of journals",
            file=env.home,
            expected="databases that are named by the ids of their first journals",
            found=", ".join(env.database_names()[:5]) or "no database",
            hint=f"jetool dbs {env.home} lists them; the environment of a frontend is its directory meta/bdb",
        )
    return tuple(_family(env, family, sorted(names)) for family, names in families.items() if names)


def read_epochs(env: Environment) -> Epochs:
    """The epochs recorded in an environment."""
    if EPOCHS not in env.database_names():
        return Epochs(0, 0)
    with env.open_database(EPOCHS) as db:
        keys = [key for key, _ in db.items()]
    return Epochs(len(keys), max((journal_id(key) for key in keys if len(key) == KEY_BYTES), default=0))


def _family(env: Environment, family: str, names: list[tuple[int, str]]) -> JournalExtents:
    databases = []
    for first_id, name in names:
        with env.open_database(name) as db:
            databases.append(_extent(env.engine, db.state, name, family, first_id))
    return JournalExtents(
        family, tuple(databases), tuple(_passage(before, after) for before, after in pairwise(databases))
    )


def _passage(before: JournalExtent, after: JournalExtent) -> Passage:
    """How one database follows another, by their contents and by the name that the product computes."""
    end = before.name_id - 1 if before.last is None else before.last
    by_count = before.name_id + before.journals
    return Passage(
        IdRange(first=end + 1, last=after.name_id - 1) if after.name_id > end + 1 else None,
        IdRange(first=after.name_id, last=end) if after.name_id <= end else None,
        None if by_count == after.name_id else by_count,
    )


def _extent(engine: Engine, state: DatabaseState, name: str, family: str, name_id: int) -> JournalExtent:
    holes: list[IdRange] = []
    first = last = None
    count = missing = wrong = size = first_lsn = last_lsn = 0
    plain = state.order.plain
    for slots in live_slots(engine, state):
        keys = list(slots.keys) if plain else [key_and_data(state, key, b"")[0] for key in slots.keys]
        if not keys:
            continue
        size += sum(slots.sizes)
        ids, lsns = keys, slots.lsns
        if any(len(key) != KEY_BYTES for key in keys):
            chosen = [at for at, key in enumerate(keys) if len(key) == KEY_BYTES]
            wrong += len(keys) - len(chosen)
            ids, lsns = [keys[at] for at in chosen], [slots.lsns[at] for at in chosen]
            if not ids:
                continue
        here = journal_id(ids[0])
        if first is None or last is None:
            first, first_lsn = here, lsns[0]
        elif here != last + 1:
            missing += _note(holes, last, here)
        count, last, last_lsn = count + len(ids), journal_id(ids[-1]), lsns[-1]
        if last - here != len(ids) - 1:
            for before, after in _gaps(ids):
                missing += _note(holes, before, after)
    return JournalExtent(
        name=name, family=family, name_id=name_id, first=first, last=last, journals=count, holes=tuple(holes),
        missing=missing, wrong_keys=wrong, size_bytes=size, first_lsn=first_lsn, last_lsn=last_lsn,
    )  # fmt: skip


def _gaps(keys: list[bytes]) -> Iterator[tuple[int, int]]:
    ids = [journal_id(key) for key in keys]
    return ((one, other) for one, other in pairwise(ids) if other != one + 1)


def _note(holes: list[IdRange], before: int, after: int) -> int:
    """Note the hole between two ids; returns its length. Keys out of order or repeated leave no hole."""
    hole = IdRange(first=before + 1, last=after - 1)
    if hole.length > 0 and len(holes) < MOST_HOLES:
        holes.append(hole)
    return max(hole.length, 0)
