"""``jetool ldap``: backends that our own engine wrote after the formats, whole and with what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.contents.opendj import encode_entry
from engine.db.environment import Environment
from jetool.frame import exits
from tests.support.environments.ldap_backends import BASE, dn_key, entry_of, id_key, write_backend
from tests.support.harness import assert_valid, run


@pytest.mark.parametrize("with_dn", [True, False])
def test_entries_as_ldif(tmp_path: Path, with_dn: bool) -> None:
    env = write_backend(tmp_path / "userRoot", with_dn=with_dn)
    result = run("ldap", "export", env)
    assert result.code == exits.DONE
    assert result.text.startswith(f"version: 1\n\ndn: {BASE}\nobjectClass: top\nentryUUID: uuid-1\n\n")
    assert f"dn: uid=alice,ou=people,{BASE}\nobjectClass: top\nentryUUID: uuid-4\n\n" in result.text
    assert result.text.endswith("# entries 6, left_out 0\n")


def test_entries_as_json(tmp_path: Path) -> None:
    result = run("ldap", "export", write_backend(tmp_path / "userRoot"), "--json", "--base", "DC=example, dc=com")
    assert_valid("ldap export", result.out, "json")
    found = result.json()["records"][3]
    assert (found["id"], found["entry"]["entryUUID"]) == (4, ["uuid-4"])
    assert run("ldap", "export", tmp_path / "userRoot", "--base", "dc=org").code == exits.NOT_FOUND


def test_what_cannot_be_decoded_is_left_out_and_named(tmp_path: Path) -> None:
    env = write_backend(tmp_path / "userRoot")
    change(env, "id2entry", lambda db: db.put(id_key(5), b"\x02\x02\x05cipher"))
    change(env, "id2entry", lambda db: db.put(id_key(6), b"\x09"))
    result = run("ldap", "export", env)
    assert result.code == exits.FINDINGS
    assert "# entry 5 is encrypted\n" in result.text
    assert "# entry 6 cannot be decoded\n" in result.text
    assert result.text.endswith("# entries 4, left_out 2\n")


def change(env: Path, tree: str, what: Callable[..., object]) -> None:
    with Environment(env) as opened, opened.open_database(f"/{BASE}/{tree}") as db:
        what(db)


def test_a_whole_backend_is_clean(tmp_path: Path) -> None:
    result = run("ldap", "check", write_backend(tmp_path / "userRoot"), "--json")
    assert_valid("ldap check", result.out, "json")
    assert (result.code, result.json()["records"]) == (exits.DONE, [])
    said = {"verdict": "sound", "why": "6 entries agree with their DNs and counters"}
    summary = {"bases": [BASE], "entries": 6, "dns": 6, "counters": 4, "findings": 0}
    assert result.json()["summary"] == {**said, **summary}


ALICE = dn_key(("ou=people", "uid=alice"))
DEFECTS: dict[str, tuple[str, Callable[..., object], list[tuple[str, int | None]]]] = {
    "an entry without a DN": ("dn2id", lambda db: db.delete(ALICE), [("entry-without-dn", 4), ("children-count", 2)]),
    "a DN without an entry": ("id2entry", lambda db: db.delete(id_key(6)), [("dn-without-entry", 6)]),
    "two DNs of one entry": (
        "dn2id",
        lambda db: db.put(dn_key(("ou=groups", "cn=x")), id_key(4)),
        [("id-twice", 4), ("children-count", 3)],
    ),
    "a branch without its top": (
        "dn2id",
        lambda db: db.put(dn_key(("ou=gone", "uid=dave")), id_key(9)),
        [("dn-without-parent", 9), ("dn-without-entry", 9)],
    ),
    "a wrong counter": (
        "id2childrencount",
        lambda db: db.put(id_key(2) + b"\1", (9).to_bytes(8, "big")),
        [("children-count", 2)],
    ),
    "an entry that says another DN": (
        "id2entry",
        lambda db: db.put(id_key(4), encode_entry(entry_of(4, ("ou=groups", "uid=alice")))),
        [("dn-differs", 4)],
    ),
    "an entry that cannot be decoded": ("id2entry", lambda db: db.put(id_key(5), b"\x02"), [("unreadable-entry", 5)]),
    "a DN that cannot be decoded": ("dn2id", lambda db: db.put(b"\0\0", id_key(5)), [("unreadable-record", None)]),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_found(name: str, tmp_path: Path) -> None:
    tree, what, expected = DEFECTS[name]
    env = write_backend(tmp_path / "userRoot")
    change(env, tree, what)
    result = run("ldap", "check", env, "--json")
    assert result.code == exits.FINDINGS
    assert_valid("ldap check", result.out, "json")
    assert [(one["kind"], one["id"]) for one in result.json()["records"]] == expected


def test_what_is_lost_in_words_of_the_server(tmp_path: Path) -> None:
    """One entry is damaged: the others are saved as LDIF, and it is named by its id."""
    env = write_backend(tmp_path / "userRoot")
    log = env / "00000000.jdb"
    log.write_bytes(log.read_bytes().replace(b"uuid-5", b"UUID-5"))
    saved = tmp_path / "saved"
    assert run("salvage", env, "--to", saved / "ldif", "--as", "ldif").code == exits.DATA_GIVEN_UP
    assert (saved / "ldif/entries.ldif").read_text().count("dn: ") == 5
    assert run("salvage", env, "--to", saved / "csv", "--as", "csv", "--decode", "auto").code == exits.DATA_GIVEN_UP
    (lost,) = [json.loads(line) for line in (saved / "csv/lost.ndjson").read_text().splitlines()]
    assert (lost["decoded_key"], lost["db"]) == ({"id": 5}, f"/{BASE}/id2entry")


def test_an_environment_without_entries(tmp_path: Path) -> None:
    assert run("create", tmp_path / "env", "--db", "orders").code == 0
    for verb in ("export", "check"):
        assert run("ldap", verb, tmp_path / "env").code == exits.NOT_FOUND


def test_a_backend_is_recognised(tmp_path: Path) -> None:
    env = write_backend(tmp_path / "userRoot")
    assert run("info", env, "--json").json()["belongs_to"] == "LDAP backend (OpenDJ family)"
    found = run("scan", env, "--db", f"/{BASE}/dn2id", "--decode", "auto", "--format", "ndjson").lines()
    assert {json.dumps(one["decoded_key"]) for one in found if "decoded_key" in one} >= {
        json.dumps({"dn": f"uid=bob,ou=people,{BASE}"})
    }


def test_entries_of_a_damaged_backend(tmp_path: Path) -> None:
    """One entry is hit: the others are in the LDIF that salvage writes."""
    env = write_backend(tmp_path / "userRoot")
    result = run("salvage", env, "--to", tmp_path / "whole", "--as", "ldif", "--json")
    assert result.code == exits.DONE, result.err
    assert (tmp_path / "whole/entries.ldif").read_bytes() == run("ldap", "export", env).out
    log = env / "00000000.jdb"
    data = bytearray(log.read_bytes())
    at = data.index(b"uid=bob,ou=people")
    data[at : at + 4] = b"\xff\xff\xff\xff"
    log.write_bytes(data)
    damaged = run("salvage", env, "--to", tmp_path / "saved", "--as", "ldif", "--json")
    assert damaged.code == exits.DATA_GIVEN_UP, damaged.err
    text = (tmp_path / "saved/entries.ldif").read_text()
    assert "dn: uid=alice,ou=people" in text
    assert "uid=bob" not in text
    assert run("salvage", tmp_path / "env", "--to", tmp_path / "x", "--as", "ldif").code == exits.NOT_FOUND


@pytest.mark.parametrize("words", [("export",), ("export", "--format", "ldif"), ("changes", "--format", "ldif")])
def test_ldif_has_no_fields_to_select(tmp_path: Path, golden_dir: Path, words: tuple[str, ...]) -> None:
    """Before, the option was ignored, and a script got everything."""
    env = golden_dir / "opendj-changelog" if words[0] == "changes" else write_backend(tmp_path / "env")
    result = run("ldap", words[0], env, *words[1:], "--fields", "dn")
    assert (result.code, result.out) == (exits.USAGE, b"")
    assert "--fields is not for --format ldif" in result.err
    assert run("ldap", words[0], env, "--fields", "dn", "--format", "csv").code in (exits.DONE, exits.FINDINGS)
