"""``jetool doctor``: five kinds of environment, whole and damaged, alone and side by side."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from engine.contents.journals import journal_key
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from jetool.frame import exits
from tests.cli.derby_databases import FIVE, damage_cases, extract, state_of
from tests.cli.derby_databases import damage as damage_derby
from tests.support import corpus
from tests.support.environments import applications
from tests.support.environments.frontends import (
    NODE,
    damage_tail,
    rolled,
    value_of,
    write_frontend,
    write_images,
)
from tests.support.harness import assert_valid, run

GOLDEN: Final = Path(__file__).parents[1] / "golden"


def frontend(place: Path, target: str | None = None) -> Path:
    """The ``meta`` directory of a frontend with 250 journals."""
    env = place / "meta" / "bdb"
    env.mkdir(parents=True)
    write_frontend(env, rolled(1, 250, 100), epochs=2, replicated=True)
    write_images(env.parent, (99, 150))
    if target is not None:
        damage_tail(env, target)
    return env.parent


def ldap(place: Path) -> Path:
    applications.create_ldap(place / "db" / "userRoot")
    return place / "db"


def nosql(place: Path) -> Path:
    applications.create_nosql(place / "kvroot" / "store" / "sn1" / "rg1-rn1" / "env")
    return place / "kvroot"


def plain(place: Path) -> Path:
    return applications.create_plain(place / "env")


def derby(place: Path) -> Path:
    return extract(FIVE, place)


def damaged_ldap(place: Path) -> Path:
    return applications.damage(ldap(place) / "userRoot", applications.write_ldap).parent


def damaged_nosql(place: Path) -> Path:
    env = nosql(place) / "store" / "sn1" / "rg1-rn1" / "env"
    applications.damage(env, applications.write_nosql)
    return place / "kvroot"


def damaged_plain(place: Path) -> Path:
    return applications.damage(plain(place), applications.write_plain)


def damaged_derby(place: Path) -> Path:
    database = derby(place)
    title = "one byte changed in a group in the middle of the log"
    damage_derby(database, next(case for case in damage_cases() if case["damage"] == title))
    return database


WHOLE: Final[dict[str, Callable[[Path], Path]]] = {
    "frontend": frontend,
    "ldap": ldap,
    "nosql": nosql,
    "je": plain,
    "derby": derby,
}
DAMAGED: Final[dict[str, tuple[Callable[[Path], Path], str, list[str]]]] = {
    "frontend": (
        lambda place: frontend(place, "journal"),
        "yes, losing 11 commits",
        [str(number) for number in range(251, 262)],
    ),
    "ldap": (damaged_ldap, "yes, losing 11 commits", [f"uid=u{n},{applications.BASE}" for n in range(10, 21)]),
    "nosql": (damaged_nosql, "yes, losing 11 commits", [f"table 2 /user{n}" for n in range(11, 21)]),
    "je": (damaged_plain, "yes, losing 11 commits", [f"order{n}" for n in range(11, 21)]),
    "derby": (damaged_derby, "yes, losing 2 commits", ["194", "200"]),
}


def report(*words: str | Path, code: int) -> dict[str, Any]:
    result = run("doctor", *words, "--json")
    assert result.code == code, result.text + result.err
    assert_valid("doctor", result.out, "json")
    return dict(result.json())


def only(*words: str | Path, code: int) -> dict[str, Any]:
    found = report(*words, code=code)
    assert len(found["directories"]) == 1
    assert found["verdict"] == found["directories"][0]["verdict"]
    return dict(found["directories"][0])


def codes(found: dict[str, Any]) -> list[str]:
    return [one["code"] for one in found["reasons"]]


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_one_can_start(kind: str, tmp_path: Path) -> None:
    directory = WHOLE[kind](tmp_path)
    before = state_of(tmp_path)
    text = run("doctor", directory)
    assert (text.code, text.text.splitlines()[0], text.err) == (exits.DONE, "can start: yes", "")
    assert "  nothing: start it\n" in text.text
    found = only(directory, code=exits.DONE)
    assert (found["can_start"], found["identity"]["application"]) == ("yes", kind)
    assert found["loss"] == {
        "commits": 0,
        "records": 0,
        "cut_bytes": 0,
        "broken": 0,
        "evidence": None,
        "gone": 0,
        "names": [],
        "unnamed": 0,
    }
    assert [one for one in codes(found) if one.startswith("START")] == []
    assert found["next"] == []
    assert_valid("doctor", run("doctor", directory, "--format", "ndjson").out, "ndjson")
    # It creates nothing and changes nothing, not even the time of a file.
    assert state_of(tmp_path) == before


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_one_says_what_is_lost(kind: str, tmp_path: Path) -> None:
    make, verdict, names = DAMAGED[kind]
    directory = make(tmp_path)
    before = state_of(tmp_path)
    text = run("doctor", directory)
    assert (text.code, text.text.splitlines()[0]) == (exits.FINDINGS, f"can start: {verdict}")
    found = only(directory, code=exits.FINDINGS)
    assert (found["can_start"], found["verdict"], found["identity"]["application"]) == ("yes", verdict, kind)
    assert sorted(one["name"] for one in found["loss"]["names"]) == sorted(names)
    assert any(one["severity"] == "error" and not one["stops"] for one in found["reasons"])
    assert found["next"][0]["command"].startswith("cp -a ")
    assert found["next"][-1]["command"].endswith(" --accept-loss")
    assert state_of(tmp_path) == before


@pytest.mark.parametrize("kind", DAMAGED)
def test_the_next_commands_run(kind: str, tmp_path: Path) -> None:
    """In their order, with the paths as printed; the last one does what the verdict says."""
    directory = DAMAGED[kind][0](tmp_path)
    found = only(directory, code=exits.FINDINGS)
    for step in found["next"]:
        words = shlex.split(step["command"])
        if words[0] == "jetool":
            assert run(*words[1:]).code in (exits.DONE, exits.FINDINGS, exits.DATA_GIVEN_UP), step
        else:
            subprocess.run(words, check=True)
    # The copy and the saved records beside it are not taken for further environments.
    assert report(directory, code=exits.DONE)["verdict"] == "yes"


def test_a_damaged_commit_leaves_a_journal_in_doubt(tmp_path: Path) -> None:
    found = only(frontend(tmp_path, "commit"), code=exits.FINDINGS)
    assert found["verdict"] == "yes, losing 10 commits"
    assert [one["name"] for one in found["loss"]["names"] if not one["certain"]] == ["251"]
    assert "journals: 251-261\n" in run("doctor", tmp_path).text


def test_a_frontend_is_named(tmp_path: Path) -> None:
    found = only(frontend(tmp_path), code=exits.DONE)
    known = found["identity"]
    assert (known["title"], known["node"], known["role"]) == ("Doris frontend (journals)", NODE, "FOLLOWER")
    assert (known["group"], known["members"]) == ("PALO_JOURNAL_GROUP", [NODE])
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", known["group_uuid"])
    assert found["journals"] == {"first": 1, "last": 250}
    assert known["versions"] == [{"version": "17", "first_file": 0, "last_file": 0}]


def three_frontends(place: Path) -> list[Path]:
    """Copies of one frontend: one whole with all journals, one before them, one damaged before the last eleven."""
    first = frontend(place / "fe1")
    shutil.copytree(place / "fe1", place / "fe2")
    damage_tail(first / "bdb", "nothing")
    shutil.copytree(place / "fe1", place / "fe3")
    damaged = place / "fe3" / "meta" / "bdb"
    with Environment(damaged, EnvironmentConfig(read_only=True)) as env, env.open_database("201") as db:
        assert db.get(journal_key(261)) == value_of(261)
    log = damaged / "00000000.jdb"
    data = bytearray(log.read_bytes())
    at = data.rindex(value_of(251)[:40])
    data[at] ^= 0x10
    log.write_bytes(data)
    return [place / name / "meta" for name in ("fe1", "fe2", "fe3")]


def test_three_frontends_side_by_side(tmp_path: Path) -> None:
    metas = three_frontends(tmp_path)
    found = report(*metas, code=exits.FINDINGS)
    (group,) = found["groups"]
    assert (group["basis"], group["start"]) == ("journals", str(metas[0] / "bdb"))
    assert [(one["standing"], one["last"], one["behind"], one["own"]) for one in group["nodes"]] == [
        ("start", 261, 0, 0),
        ("behind", 250, 11, 0),
        ("behind", 250, 11, 0),
    ]
    assert found["verdict"] == (f"3 of 3 directories can start, 2 without loss; start from {metas[0] / 'bdb'}")
    # The parent of all says the same.
    assert report(tmp_path, code=exits.FINDINGS) == found
    (step,) = group["next"]
    assert run(*shlex.split(step["command"])[1:]).code == exits.FINDINGS
    text = run("doctor", *metas).text
    assert text.splitlines()[0] == found["verdict"]
    assert f"  {metas[2] / 'bdb'}: can start: yes, losing 11 commits\n" in text
    assert f"start from {metas[0] / 'bdb'}" in text


def test_a_command_is_not_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    directory = damaged_plain(tmp_path)
    steps = only(directory, code=exits.FINDINGS)["next"]
    lines = run("doctor", directory, terminal=True).text.splitlines()
    assert {f"  {number}. {step['command']}" for number, step in enumerate(steps, start=1)} <= set(lines)


def test_other_groups_are_told_apart(tmp_path: Path) -> None:
    """The same name, other UUIDs."""
    found = report(frontend(tmp_path / "a"), frontend(tmp_path / "b"), code=exits.DONE)
    assert found["groups"] == []
    assert found["verdict"] == "2 of 2 directories can start, 2 without loss"


def test_a_node_that_cannot_start_is_no_candidate(tmp_path: Path) -> None:
    first = frontend(tmp_path / "fe1")
    shutil.copytree(tmp_path / "fe1", tmp_path / "fe2")
    damage_tail(first / "bdb", "nothing")
    (first / "image" / "ROLE").unlink()
    (group,) = report(tmp_path, code=exits.FINDINGS)["groups"]
    assert (group["start"], [one["standing"] for one in group["nodes"]]) == (
        str(tmp_path / "fe2" / "meta" / "bdb"),
        ["cannot start", "start"],
    )


def test_nodes_that_are_no_frontends_by_their_streams() -> None:
    place = corpus.path() / "je/je-18.3.20/ha-rollback-begun"
    found = report(place, code=exits.DONE)
    (group,) = found["groups"]
    assert (group["basis"], group["start"]) == ("stream", str(place / "node2/env"))
    assert [one["standing"] for one in group["nodes"]] == ["behind", "start", "same"]
    assert group["nodes"][0]["behind"] > 0


def test_snapshots_and_hidden_directories_are_passed_over(tmp_path: Path) -> None:
    root = nosql(tmp_path)
    env = root / "store" / "sn1" / "rg1-rn1" / "env"
    for name in ("snapshots/s1", ".old", "env.copy", "env.jetool-backup/20261121T103000.123Z"):
        shutil.copytree(env, env.parent / name)
    assert len(report(root, code=exits.DONE)["directories"]) == 1


def test_nothing_there(tmp_path: Path) -> None:
    assert run("doctor", tmp_path / "none").code == exits.NOT_FOUND
    (tmp_path / "file").write_text("x")
    assert run("doctor", tmp_path / "file").code == exits.NOT_FOUND
    (tmp_path / "empty" / "below").mkdir(parents=True)
    result = run("doctor", tmp_path / "empty", "--json")
    assert (result.code, result.error()["kind"]) == (exits.NOT_FOUND, "not_found")


def test_both_kinds_in_one_directory(tmp_path: Path) -> None:
    database = derby(tmp_path)
    for path in (GOLDEN / "je-17/empty").glob("*.jdb"):
        shutil.copy(path, database)
    assert run("doctor", database).code == exits.USAGE


def test_home_is_a_synonym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = plain(tmp_path)
    assert run("doctor", "-h", env) == run("doctor", env)
    monkeypatch.setenv("JETOOL_HOME", str(env))
    assert run("doctor") == run("doctor", env)


def test_fields(tmp_path: Path) -> None:
    result = run("doctor", plain(tmp_path), "--json", "--fields", "verdict")
    assert (result.code, result.json()) == (exits.DONE, {"verdict": "yes"})


# Each reason: the environment that has it. ``test_a_whole_one_can_start`` shows those that have none.
