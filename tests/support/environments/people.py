"""A primary with three secondaries, of one key, of a unique one, of several; and what they disagree about."""

from __future__ import annotations

from collections.abc import Iterable

from engine.catalog.name_operations import DatabaseOptions
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.secondary import SecondaryConfig, SecondaryDatabase

MAX_ENTRIES = 4


def city(_: bytes, data: bytes) -> bytes | None:
    return data.split(b"|")[0] or None


def mail(_: bytes, data: bytes) -> bytes | None:
    return data.split(b"|")[1] or None


def tags(_: bytes, data: bytes) -> list[bytes]:
    return [tag for tag in data.split(b"|")[2].split(b",") if tag]


OF_CITY = SecondaryConfig(create=True, key_creator=city)
OF_MAIL = SecondaryConfig(create=True, key_creator=mail, duplicates=False)
OF_TAGS = SecondaryConfig(create=True, multi_key_creator=tags)


class People:
    """The databases of an environment, made where they are missing; ``cities`` is there for foreign keys."""

    def __init__(self, env: Environment, of_city: SecondaryConfig = OF_CITY) -> None:
        self.env = env
        self.db = self._database("people")
        self.cities = self._database("cities")
        self.by_city = self.open("people.city", of_city)
        self.by_mail = self.open("people.mail", OF_MAIL)
        self.by_tag = self.open("people.tags", OF_TAGS)

    def open(self, name: str, config: SecondaryConfig) -> SecondaryDatabase:
        return self.env.open_secondary(name, self.db, config)

    def close(self) -> None:
        for handle in (self.by_city, self.by_mail, self.by_tag, self.db, self.cities):
            handle.close()

    def disagreements(self) -> list[str]:
        """Entries that are missing, and entries of nothing."""
        return disagreements(self.db.items(), self.by_city.database, self.by_mail.database, self.by_tag.database)

    def _database(self, name: str) -> Database:
        if name in self.env.database_names():
            return self.env.open_database(name)
        return self.env.create_database(name, DatabaseOptions(max_entries=MAX_ENTRIES))


def disagreements(
    records: Iterable[tuple[bytes, bytes]],
    by_city: Iterable[tuple[bytes, bytes]],
    by_mail: Iterable[tuple[bytes, bytes]],
    by_tag: Iterable[tuple[bytes, bytes]],
) -> list[str]:
    """Entries of the secondaries that are missing, and entries of nothing."""
    expected: dict[str, set[tuple[bytes, bytes]]] = {"city": set(), "mail": set(), "tags": set()}
    for key, data in records:
        expected["tags"] |= {(tag, key) for tag in tags(key, data)}
        for name, made in (("city", city(key, data)), ("mail", mail(key, data))):
            expected[name] |= {(made, key)} if made is not None else set()
    found = []
    for name, entries in (("city", by_city), ("mail", by_mail), ("tags", by_tag)):
        there = set(entries)
        found += [f"{name}: {pair} is missing" for pair in expected[name] - there]
        found += [f"{name}: {pair} is of nothing" for pair in there - expected[name]]
    return found
