"""``jetool ldap changelog`` and ``changes``: changelogs of OpenDJ, intact, damaged, and as the server left them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.changelog.check import (
    BAD_RECORD,
    CONTENT,
    DAMAGED,
    DOMAINS,
    FOREIGN,
    GENERATION,
    KINDS,
    NAME,
    NO_UPDATE,
    OFFLINE_FILE,
    ORDER,
    POINTER,
    SERVER,
    TORN,
    ChangelogCheck,
)
from engine.changelog.directory import domain_directories, read_log_file
from engine.changelog.updates import is_update
from engine.contents.changelog_blocks import BLOCK, frame_records, framed
from engine.contents.changelog_updates import (
    DELETE,
    ENCRYPTED,
    NumberedChange,
    ReplicaUpdate,
    decode_update,
    encode_numbered,
    encode_update,
)
from engine.contents.ldap_attributes import LdapAttribute, LdapModification, encode_attributes, encode_modifications
from engine.errors import StorageError
from engine.storage.disk import DiskStorage
from jetool.frame import exits
from tests.support.environments.ldap_changelogs import (
    CHANGELOG_BASE,
    csn_of,
    log_name,
    update_record,
    update_records,
    write_changelog,
)
from tests.support.harness import REPOSITORY, assert_valid, run

GOLDEN = REPOSITORY / "tests/golden/opendj-changelog"
INDEX = "changenumberindex/head.log"
HEAD_7 = "1.dom/7.server/head.log"
HEAD_22 = "1.dom/22.server/head.log"
FULL_22 = f"1.dom/22.server/{log_name(1, 9, 22)}"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return write_changelog(tmp_path / "changelogDb")


def test_replicas_and_the_index(place: Path) -> None:
    result = run("ldap", "changelog", place, "--json")
    assert_valid("ldap changelog", result.out, "json")
    assert result.code == exits.DONE
    seven, other, index = result.json()["records"]
    assert (seven["base"], seven["server"], seven["generation"]) == (CHANGELOG_BASE, 7, "4711")
    assert (seven["files"], seven["records"], seven["encrypted"], seven["offline"]) == (1, 10, 0, None)
    assert (seven["oldest"], seven["newest"]) == (str(csn_of(0, 7)), str(csn_of(18, 7)))
    assert (seven["oldest_time"], seven["bytes"]) == ("2023-11-14T22:13:20.000Z", (place / HEAD_7).stat().st_size)
    assert (other["server"], other["files"], other["records"]) == (22, 2, 10)
    assert (other["offline"], other["offline_time"]) == (str(csn_of(21, 22)), "2023-11-14T22:13:41.000Z")
    assert (index["rec"], index["first"], index["last"], index["records"]) == ("index", 1, 20, 20)
    summary = {"domains": 1, "replicas": 2, "records": 20, "findings": 0}
    said = {"verdict": "sound", "why": "20 updates of 2 replicas read"}
    assert result.json()["summary"] == {**said, **summary}


def test_text(place: Path) -> None:
    lines = run("ldap", "changelog", place).text.splitlines()
    assert lines[0] == "sound: 20 updates of 2 replicas read"
    assert lines[2].startswith(f"{CHANGELOG_BASE}  server 7  generation 4711  10 records in 1 file, ")
    assert lines[2].endswith(f"newest {csn_of(18, 7)} 2023-11-14T22:13:38.000Z")
    assert lines[4].startswith("change number index  1 to 20  20 records in 1 file, ")


def test_one_replica(place: Path) -> None:
    result = run("ldap", "changelog", place, "--server", "22", "--base", "DC=example, dc=com", "--json")
    assert [one["server"] for one in result.json()["records"]] == [22]
    assert result.json()["summary"]["verdict"] == "no damage seen"
    for wrong in (("--server", "8"), ("--base", "dc=org")):
        assert run("ldap", "changelog", place, *wrong).code == exits.NOT_FOUND
        assert run("ldap", "changes", place, *wrong).code == exits.NOT_FOUND


def test_updates_are_merged_by_csn(place: Path) -> None:
    result = run("ldap", "changes", place, "--json")
    assert_valid("ldap changes", result.out, "json")
    assert result.code == exits.DONE
    found = result.json()["records"]
    assert [one["csn"] for one in found] == [str(csn_of(at, 22 if at % 2 else 7)) for at in range(20)]
    assert [one["op"] for one in found[:4]] == ["add", "modify", "modify-dn", "delete"]
    assert (found[2]["dn"], found[2]["new_rdn"]) == (f"uid=user2,ou=people,{CHANGELOG_BASE}", "uid=renamed2")
    assert (found[3]["uuid"], found[3]["file"]) == ("00000000-0000-0000-0000-000000000003", FULL_22)
    assert result.json()["summary"] == {"changes": 20, "unreadable": 0, "complete": True}


def test_a_part_of_the_updates(place: Path) -> None:
    result = run("ldap", "changes", place, "--server", "7", "--limit", "2", "--since", "2023-11-14T22:13:23Z", "--json")
    assert [one["csn"] for one in result.json()["records"]] == [str(csn_of(4, 7)), str(csn_of(6, 7))]
    assert not result.json()["summary"]["complete"]
    until = run("ldap", "changes", place, "--until", "2023-11-14T22:13:21Z")
    assert until.text.splitlines()[1].startswith(f"{csn_of(1, 22)}  2023-11-14T22:13:21.000Z  22  modify  uid=user1,")


def replaced(path: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def do(place: Path) -> None:
        (place / path).write_bytes(change((place / path).read_bytes()))

    return do


def flipped(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes((value,)) + data[at + 1 :]


def without_length(data: bytes) -> bytes:
    """The third record says that it is longer than the file."""
    return flipped(data, framed(data, is_update).records[2].at, 0x7F)


def without_type(data: bytes) -> bytes:
    """The first record is of no type that is known."""
    return flipped(data, 4, 99)


def numbered(numbers: Sequence[int], server: int = 7) -> list[NumberedChange]:
    """Entries of the change number index for updates of a replica."""
    return [NumberedChange(1 + at, CHANGELOG_BASE, csn_of(number, server)) for at, number in enumerate(numbers)]


def without_attributes() -> bytes:
    """The update can be decoded, its attributes cannot."""
    return encode_update(replace(decode_update(update_record(0, 7)), content=b"\x30\x05cn"))


def out_of_order(_: bytes) -> bytes:
    return frame_records(update_records((0, 4, 2), 7))


DEFECTS: dict[str, tuple[Callable[[Path], object], str, str, bool]] = {
    "a torn record": (replaced(HEAD_22, lambda data: data[:-1]), TORN, HEAD_22, False),
    "a torn record in a full file": (replaced(FULL_22, lambda data: data[:-1]), TORN, FULL_22, False),
    "a length that is wrong": (replaced(HEAD_7, without_length), DAMAGED, HEAD_7, False),
    "a pointer that is wrong": (replaced(HEAD_7, lambda data: flipped(data, BLOCK, 9)), POINTER, HEAD_7, False),
    "a type that is unknown": (replaced(HEAD_7, without_type), BAD_RECORD, HEAD_7, False),
    "attributes that are none": (
        replaced(HEAD_7, lambda _: frame_records([without_attributes(), *update_records(range(2, 20, 2), 7)])),
        CONTENT, HEAD_7, False,
    ),
    "an index entry without its update": (
        replaced(INDEX, lambda _: frame_records(map(encode_numbered, numbered([0, 1, 2, 4, 21])[3:]))),
        NO_UPDATE, INDEX, False,
    ),
    "updates out of order": (replaced(HEAD_7, out_of_order), ORDER, HEAD_7, False),
    "an update of another replica": (
        replaced(HEAD_7, lambda _: frame_records([update_record(3, 22)])), FOREIGN, HEAD_7, False,
    ),
    "a name that does not fit": (
        lambda place: (place / FULL_22).rename(place / "1.dom/22.server" / log_name(1, 8, 22)),
        NAME, f"1.dom/22.server/{log_name(1, 8, 22)}", False,
    ),
    "a name without keys": (
        lambda place: (place / FULL_22).rename(place / "1.dom/22.server/old.log"),
        NAME, "1.dom/22.server/old.log", True,
    ),
    "a domain without a directory": (
        lambda place: (place / "domains.state").write_text(f"1:{CHANGELOG_BASE}\n2:o=x\n"), DOMAINS, "domains.state",
        True,
    ),
    "a directory without a domain": (lambda place: (place / "2.dom").mkdir(), DOMAINS, "2.dom", True),
    "a line that is no domain": (
        lambda place: (place / "domains.state").write_text(f"1:{CHANGELOG_BASE}\nx\n"), DOMAINS, "domains.state", True,
    ),
    "two generation ids": (lambda place: (place / "1.dom/generation5.id").touch(), GENERATION, "1.dom", False),
    "a directory without a server id": (
        lambda place: (place / "1.dom/x.server").mkdir(), SERVER, "1.dom/x.server", True,
    ),
    "an empty offline.state": (
        replaced("1.dom/22.server/offline.state", lambda _: b""), OFFLINE_FILE, "1.dom/22.server/offline.state", False,
    ),
    "an offline.state of another replica": (
        replaced("1.dom/22.server/offline.state", lambda _: str(csn_of(30, 7)).encode()),
        OFFLINE_FILE, "1.dom/22.server/offline.state", False,
    ),
    "a damaged index": (
        replaced("changenumberindex/head.log", lambda data: data[:-2]), TORN, "changenumberindex/head.log", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_found(place: Path, name: str) -> None:
    damage, kind, file, stops = DEFECTS[name]
    damage(place)
    result = run("ldap", "changelog", place, "--json")
    assert_valid("ldap changelog", result.out, "json")
    assert result.code == exits.FINDINGS
    assert [(one["kind"], one["file"], one["stops"]) for one in findings_of(place)] == [(kind, file, stops)]
    assert (result.json()["summary"]["verdict"], result.json()["summary"]["findings"]) == ("damaged", 1)


def findings_of(place: Path) -> list[dict[str, Any]]:
    found = run("ldap", "changelog", place, "--json").json()["records"]
    return [one for one in found if one.get("rec") == "finding"]


def test_every_kind_has_a_defect() -> None:
    assert {kind for _, kind, _, _ in DEFECTS.values()} == set(KINDS)


def test_what_the_server_does_with_a_torn_record(place: Path) -> None:
    """It cuts at the end of the last whole record, or inside the torn one, or it refuses the file."""
    head = place / HEAD_7
    data = head.read_bytes()
    crossing = next(one for one in reversed(framed(data, is_update).records) if one.at // BLOCK < one.end // BLOCK)
    border = crossing.end // BLOCK * BLOCK
    cuts = {crossing.at + 8: f"cuts the file at {crossing.at}", border + 4: "inside this record", border + 3: "refuses"}
    for length, text in cuts.items():
        head.write_bytes(data[:length])
        (found,) = findings_of(place)
        assert (found["kind"], found["at"], found["stops"]) == (TORN, crossing.at, text == "refuses")
        assert text in found["text"]


def test_a_changelog_of_the_server() -> None:
    """OpenDJ's classes wrote it; replica 9 is what they make of a record that was torn over a border."""
    result = run("ldap", "changelog", GOLDEN, "--json")
    found = result.json()["records"]
    assert [(one["server"], one["files"], one["records"]) for one in found[:3]] == [(7, 3, 12), (9, 1, 10), (22, 1, 12)]
    assert [(one["kind"], one["file"], one["at"]) for one in found[3:]] == [(DAMAGED, "1.dom/9.server/head.log", 1407)]
    assert found[3]["text"].endswith("probably the start of a record that the server cut at 1792")
    after = run("ldap", "changes", GOLDEN, "--server", "9", "--json").json()["records"]
    assert [one["csn"] for one in after] == [str(csn_of(at, 9)) for at in (0, 1, 2, 3, 4, 6, 7, 8, 9, 10)][:10]


def test_encrypted_and_unreadable_updates(place: Path) -> None:
    hidden = encode_update(ReplicaUpdate(kind=ENCRYPTED, csn=None, content=b"cipher"))
    records = [update_record(0, 7), hidden, b"\x63?", update_record(2, 7)]
    (place / HEAD_7).write_bytes(frame_records(records))
    result = run("ldap", "changelog", place, "--server", "7", "--json")
    (seven, finding) = result.json()["records"]
    assert (seven["records"], seven["encrypted"], seven["newest"]) == (4, 1, str(csn_of(2, 7)))
    assert finding["kind"] == BAD_RECORD
    changes = run("ldap", "changes", place, "--server", "7", "--json")
    assert changes.code == exits.FINDINGS
    assert [(one["op"], one["server"]) for one in changes.json()["records"]] == [
        ("add", 7), ("encrypted", 7), ("unreadable", 7), ("modify-dn", 7),
    ]  # fmt: skip


def test_index_entries_without_their_updates(place: Path) -> None:
    """What readers of the external changelog do: they pass over purged updates, miss lost ones, fail after the last."""

    def texts(changes: list[NumberedChange]) -> list[str]:
        (place / INDEX).write_bytes(frame_records(map(encode_numbered, changes)))
        return [one["text"] for one in findings_of(place) if one["kind"] == NO_UPDATE]

    # Replica 7 has the even numbers from 0 to 18, replica 22 the odd ones from 1 to 19.
    assert texts(numbered([0, 2, 18])) == []
    assert texts([NumberedChange(1, "o=removed", csn_of(1, 7)), NumberedChange(2, CHANGELOG_BASE, csn_of(1, 9))]) == []
    assert texts([NumberedChange(1, CHANGELOG_BASE.upper(), csn_of(4, 7))]) == []
    first, second = texts(numbered([3, 24]))
    assert first == f"change 1: no update {csn_of(3, 7)}; readers of the external changelog do not get it"
    assert second == f"change 2: no update {csn_of(24, 7)}; readers of the external changelog fail there"
    # Updates before the first one are purged.
    (place / HEAD_7).write_bytes(frame_records(update_records(range(10, 20, 2), 7)))
    assert texts(numbered([0, 2, 8, 10])) == []
    # A damaged log proves nothing.
    (place / HEAD_7).write_bytes(flipped((place / HEAD_7).read_bytes(), 4, 99))
    assert texts(numbered([11])) == []


def test_a_server_that_begins_a_file_meanwhile(place: Path) -> None:
    """The head of a replica became a full file after the files were listed: nothing is said of the index."""
    check = ChangelogCheck(DiskStorage(place))
    head = place / HEAD_22
    head.rename(place / "1.dom/22.server" / log_name(11, 19, 22))
    head.write_bytes(frame_records([update_record(21, 22)]))
    assert len(list(check.replicas())) == 2
    assert check.index() is not None
    assert [one for one in check.findings.listed if one.kind == NO_UPDATE] == []


def test_changes_as_ldif(place: Path) -> None:
    """What each kind of update looks like; attributes, modifications, values that are not ASCII, and comments."""
    password = LdapAttribute("userPassword", (b"{SSHA}x",))
    added = replace(decode_update(update_record(0, 7)), content=encode_attributes([password]))
    below = ReplicaUpdate(kind=DELETE, csn=csn_of(12, 7), dn="ou=\u00e9", uuid="u", subtree=True)
    moved = replace(decode_update(update_record(2, 7)), new_superior="o=x", deletes_old_rdn=True, csn=csn_of(13, 7))
    broken = replace(added, csn=csn_of(14, 7), content=b"\x30\x05cn")
    records = [encode_update(one) for one in (added, below, moved, broken)]
    (place / HEAD_7).write_bytes(frame_records([*records, b"\x63?"]))
    result = run("ldap", "changes", place, "--server", "7", "--format", "ldif")
    assert result.code == exits.FINDINGS
    mark, first, second, third, fourth, fifth, end = result.text.split("\n\n")
    assert (mark, first.splitlines()[0]) == ("version: 1", f"# {csn_of(0, 7)} add, server 7")
    assert first.splitlines()[1:] == [
        f"dn: uid=user0,ou=people,{CHANGELOG_BASE}", "changetype: add", "userPassword: {SSHA}x",
    ]  # fmt: skip
    assert second.splitlines()[1:] == ["dn:: b3U9w6k=", "control: 1.2.840.113556.1.4.805 true", "changetype: delete"]
    assert third.splitlines()[1:] == [
        "# also modified: description;lang-en, mail", f"dn: uid=user2,ou=people,{CHANGELOG_BASE}", "changetype: moddn",
        "newrdn: uid=renamed2", "deleteoldrdn: 1", "newsuperior: o=x",
    ]  # fmt: skip
    assert fourth.startswith(f"# {csn_of(14, 7)} unreadable: {HEAD_7} at ")
    assert fifth.startswith(f"# unreadable: {HEAD_7} at ")
    assert end == "# changes 5, unreadable 2, complete True\n"
    text = run("ldap", "changes", place, "--server", "7").text
    assert "userPassword" in text
    assert "SSHA" not in text


def test_modifications_as_ldif_and_json(place: Path) -> None:
    changes = [
        LdapModification("add", LdapAttribute("mail", (b"a@example.com", b" b"))),
        LdapModification("delete", LdapAttribute("cn", ())),
        LdapModification("increment", LdapAttribute("uidNumber", (b"1",))),
        LdapModification("replace", LdapAttribute("jpegPhoto", (b"\xff" * 60,))),
    ]
    update = replace(decode_update(update_record(1, 7)), content=encode_modifications(changes))
    (place / HEAD_7).write_bytes(frame_records([encode_update(update)]))
    words = ("ldap", "changes", place, "--server", "7")
    lines = run(*words, "--format", "ldif").text.split("\n\n")[1].replace("\n ", "").splitlines()
    assert lines[2:] == [
        "changetype: modify", "add: mail", "mail: a@example.com", "mail:: IGI=", "-", "delete: cn", "-",
        "increment: uidNumber", "uidNumber: 1", "-", "replace: jpegPhoto", "jpegPhoto:: " + "/" * 80, "-",
    ]  # fmt: skip
    (found,) = run(*words, "--json").json()["records"]
    assert found["changes"][0] == {"op": "add", "attribute": "mail", "values": ["a@example.com", " b"]}
    assert found["changes"][1:] == [
        {"op": "delete", "attribute": "cn", "values": []},
        {"op": "increment", "attribute": "uidNumber", "values": ["1"]},
        {"op": "replace", "attribute": "jpegPhoto", "values": [{"base64": "/" * 80}]},
    ]
    assert "add mail, delete cn, increment uidNumber, replace jpegPhoto" in run(*words).text


def test_findings_are_about_what_is_asked(place: Path) -> None:
    (place / "2.dom").mkdir()
    (place / "1.dom/x.server").mkdir()
    (place / "domains.state").write_text(f"1:{CHANGELOG_BASE}\n3:o=y\n")
    assert run("ldap", "changelog", place, "--server", "7").code == exits.DONE
    of_base = run("ldap", "changelog", place, "--base", CHANGELOG_BASE, "--json")
    assert [one["file"] for one in of_base.json()["records"] if one.get("rec") == "finding"] == ["1.dom/x.server"]
    assert {one["file"] for one in findings_of(place)} == {"2.dom", "1.dom/x.server", "domains.state"}


def test_many_findings_are_counted(place: Path) -> None:
    (place / HEAD_7).write_bytes(frame_records([b"\x63"] * 50))
    result = run("ldap", "changelog", place, "--server", "7", "--json")
    assert len(result.json()["records"]) < 25
    assert result.json()["summary"]["findings"] >= 50
    assert "findings that are not listed: 3" in result.err


def test_commands_for_environments_name_the_right_one(place: Path) -> None:
    for name in ("doctor", "info", "verify"):
        result = run(name, place)
        assert result.code == exits.NOT_FOUND
        assert f"jetool ldap changelog {place}" in result.err


def test_other_directories(place: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for directory in (tmp_path / "none", tmp_path / "empty", GOLDEN.parent / "je-17/empty"):
        assert run("ldap", "changelog", directory).code == exits.NOT_FOUND
        assert run("ldap", "changes", directory).code == exits.NOT_FOUND
    (place / "domains.state").unlink()
    assert run("ldap", "changelog", place).code == exits.FINDINGS


def test_other_verbs_name_the_command(place: Path) -> None:
    result = run("info", place)
    assert result.code == exits.NOT_FOUND
    assert f"jetool ldap changelog {place}" in result.err


def test_nothing_is_changed(place: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(place, tmp_path / "copy")
    (place / HEAD_7).write_bytes((place / HEAD_7).read_bytes()[:-5])
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    run("ldap", "changelog", place)
    run("ldap", "changes", place)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    assert len(before) == sum(path.is_file() for path in copied.rglob("*"))


def test_a_file_that_the_server_renames_meanwhile(place: Path) -> None:
    storage = DiskStorage(str(place))
    (domain,) = domain_directories(storage)
    (place / HEAD_7).rename(place / "1.dom/7.server" / log_name(0, 18, 7))
    with pytest.raises(StorageError, match="running server has renamed"):
        read_log_file(storage, domain.replicas[0].files[0])
