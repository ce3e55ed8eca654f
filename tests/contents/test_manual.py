"""The pages of applications are true: their commands end with the codes that they say, on environments of that kind."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from engine.contents.journals import encode_json_journal
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from tests.contents.test_embedders import QUEUE, sortable, sortable_uuid
from tests.support import harness
from tests.support.environments.entity_store import FORMATS, STORE, read_back
from tests.support.environments.frontends import journals, write_frontend, write_images
from tests.support.environments.ldap_backends import write_backend
from tests.support.environments.ldap_changelogs import write_changelog
from tests.support.manuals import MAN, calls_in

Databases = Mapping[str, Sequence[tuple[bytes, bytes]]]
WALKS = {
    "jetool-contents": {"Decoding": [0, 0, 0]},
    "jetool-frontends": {
        "A frontend does not start": [1, 1],
        "One journal cannot be replayed": [0, 0],
        "No quorum": [1],
        "Back to before a mistake": [0, 6, 6],
        "The directory bdb grows": [0, 0, 0],
        "Other commands": [0, 0, 0],
    },
    "jetool-backends": {
        "The server answers with result 80": [0, 0, 0, 0, 0, 0],
        "Which entries are damaged": [0, 0],
        "What an index holds, and what uses space": [0, 0, 0],
        "Two replicas do not agree": [0],
        "The replication changelog": [0, 0],
    },
    "jetool-nosql": {
        "A node does not start": [0, 0, 0, 0],
        "Contents, and use of space": [0, 0, 0],
        "One row: who changed it": [0],
    },
    "jetool-qpid": {
        "The broker does not start": [0, 0, 0],
        "The store grows, and there are few messages": [0, 0, 0, 0],
        "A virtual host of several nodes finds no master": [4],
    },
    "jetool-heritrix": {
        "A job does not resume from its checkpoint": [0, 0, 0, 0],
        "How long are the queues": [0, 0],
        "The disk is full": [0, 0],
    },
    "jetool-objects": {
        "The application no longer exists, but its data is needed": [0, 0],
        "A class has changed, and the application does not read its records": [0, 0],
        "Records of a damaged environment": [0, 0],
    },
}
SECTIONS = [(page, heading) for page, walk in WALKS.items() for heading in walk]


def write_records(place: Path, databases: Databases) -> None:
    place.mkdir(parents=True)
    with Environment(place, EnvironmentConfig(create=True)) as env:
        for name, records in databases.items():
            with env.create_database(name) as db:
                for key, data in records:
                    db.put(key, data)


def write_frontends(root: Path, *, hole: bool) -> None:
    for name, last in (("fe", 40), ("fe2", 30)):
        (root / name / "meta/bdb").mkdir(parents=True)
        values = {**journals(1, last), 20: encode_json_journal(11, b'{"table":1}')}
        if hole:
            del values[last - 5]
        write_frontend(root / name / "meta/bdb", {"1": values})
        write_images(root / name / "meta", (10,))


def write_environments(root: Path, page: str, heading: str) -> None:
    """What the commands of a page are about."""
    if page == "jetool-contents":
        (root / "env").mkdir()
        write_frontend(root / "env", {"1": journals(1, 20)})
    elif page == "jetool-frontends":
        write_frontends(root, hole=heading == "A frontend does not start")
    elif page == "jetool-backends":
        write_backend(root / "userRoot")
        write_backend(root / "replica")
        write_changelog(root / "changelogDb")
    elif page == "jetool-nosql":
        write_records(
            root / "env", {"p1": [(b"r\0alice", b"\x01\x05\xaa")], "TableMetadata": [], "SecurityMetadata": []}
        )
    elif page == "jetool-qpid":
        header = struct.pack(">I", 3 + (1 << 31)) + b"\x01\x10\x20"
        write_records(root / "messages", {
            "MESSAGE_METADATA": [(sortable(9), header)], "MESSAGE_CONTENT": [(sortable(9), b"hello")],
            "QUEUE_ENTRIES": [(sortable_uuid(QUEUE) + sortable(9), b"")],
            "CONFIGURED_OBJECTS": [(sortable_uuid(QUEUE), b'Queue\0{"name":"orders"}\0')],
        })  # fmt: skip
    elif page == "jetool-heritrix":
        place = b"example.com\0" + bytes(7) + b"\1"
        write_records(root / "state", {"pending": [(b"example.com\0", b""), (place, b"http://example.com/")]})
    else:
        catalog, stored = read_back()
        orders = [
            (bytes.fromhex(one["key"]), bytes.fromhex(one["data"])) for one in stored[f"{STORE}Everything$ByDate"]
        ]
        write_records(root / "env", {
            FORMATS.replace("#all#", "#shop#"): [(b"\x7f\xff\xff\xff", catalog)], "persist#shop#Order": orders,
        })  # fmt: skip


@pytest.mark.parametrize(("page", "heading"), SECTIONS)
def test_a_page_is_true(page: str, heading: str, tmp_path: Path) -> None:
    write_environments(tmp_path, page, heading)
    places = {"/data/": f"{tmp_path}/", "/tmp/saved": f"{tmp_path}/saved", "all.ldif": f"{tmp_path}/all.ldif"}
    places["orders.ndjson"] = f"{tmp_path}/orders.ndjson"
    found = []
    for call in calls_in(MAN / f"{page}.7.md"):
        if call.heading == heading and call.in_block:
            words = call.words
            for name, place in places.items():
                words = [word.replace(name, place) for word in words]
            found.append(harness.run(*words).code)
    assert found == WALKS[page][heading]


def test_every_section_is_walked() -> None:
    found = {(page, one.heading) for page in WALKS for one in calls_in(MAN / f"{page}.7.md") if one.in_block}
    assert found == set(SECTIONS)


def test_every_kind_has_a_page() -> None:
    """jetool-contents(7) leads to each."""
    text = (MAN / "jetool-contents.7.md").read_text()
    assert [page for page in set(WALKS) - {"jetool-contents"} if f"{page}(7)\n: " not in text] == []
