"""Coverage-guided fuzzing of the decoders of contents (atheris, which is libFuzzer).

    python -m tests.fuzz.fuzz_contents [-max_total_time=SECONDS] [other libFuzzer options] [CORPUS_DIRECTORY]

An input is a byte that chooses decoder and database, the length of the key, the key, and the data. What comes out can
be printed as JSON and is not much longer than what went in.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import atheris

with atheris.instrument_imports(include=["engine"]):
    from engine.contents import registry
    from engine.contents.opendj import encode_ids
    from engine.inspect.contents import NamesOnly
    from tests.fuzz import fuzz_support
    from tests.support.environments.entity_store import FORMATS, read_back
    from tests.support.environments.frontends import value_of
    from tests.support.environments.java_objects import CATALOG, ORDER, Given

STORE_CATALOG, STORED = read_back()
# Those that take a catalog have one: without it they know nothing.
SOURCES: Final = {"serial": Given({"catalog": CATALOG}), "dpl": Given({FORMATS: [(b"", STORE_CATALOG)]})}
# Each decoder with a database of every form that it knows.
PLACES: Final = [
    (registry.find(name).decoder(SOURCES.get(name, NamesOnly())), database)
    for name, databases in (
        ("doris", ("1", "epochDB", "other")),
        ("starrocks", ("starmgr_1",)),
        ("opendj", ("/dc=com/id2entry", "/dc=com/dn2id", "/dc=com/id2childrencount", "/dc=com/uid.equality",
                    "/compressed_schema/compressed_attributes", "/dc=com/state")),
        ("nosql", ("p1",)),
        ("qpid", ("MESSAGE_METADATA", "MESSAGE_CONTENT", "QUEUE_ENTRIES", "CONFIGURED_OBJECTS",
                  "CONFIGURED_OBJECT_HIERARCHY")),
        ("heritrix", ("pending",)),
        ("serial", ("objects", "catalog")),
        ("dpl", (FORMATS, *STORED)),
    )
    for database in databases
]  # fmt: skip


def one_input(data: bytes) -> None:
    if len(data) < 2:
        return
    decoder, database = PLACES[data[0] % len(PLACES)]
    key, value = data[2 : 2 + data[1]], data[2 + data[1] :]
    found = registry.decode(decoder, database, key, value)
    text = json.dumps([found.key, found.data], ensure_ascii=False)
    text.encode("utf-8")
    # Deflated entries grow; id sets and hex do by a factor.
    assert len(text) <= 2000 * len(data) + 10_000, (database, key, value)


def write_seeds(directory: Path) -> None:
    """One input of each place, journals as frontends write them, and objects and entities as JE does."""
    for at, (_, database) in enumerate(PLACES):
        records = [(bytes.fromhex(one["key"]), bytes.fromhex(one["data"])) for one in STORED.get(database, ())]
        records += [(b"", ORDER)] if database == "objects" else CATALOG if database == "catalog" else []
        for number, (key, data) in enumerate(records):
            (directory / f"{at}-stored-{number}").write_bytes(bytes((at, len(key))) + key + data)
        for number in range(1, 12):
            value = encode_ids(range(number)) if "equality" in database else value_of(number)
            (directory / f"{at}-{number}").write_bytes(bytes((at, 8)) + number.to_bytes(8, "big") + value)


if __name__ == "__main__":
    fuzz_support.run(sys.argv, one_input, write_seeds)
