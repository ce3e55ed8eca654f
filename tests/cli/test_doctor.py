"""``jetool doctor``: five kinds of environment, whole and damaged, alone and side by side; each reason both ways."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from engine.contents.journals import journal_key
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.diagnosis import rules
from engine.diagnosis.directory import diagnose
from engine.diagnosis.record import JOURNAL, Loss, LostName
from engine.storage import journal
from engine.storage.disk import DiskStorage
from jetool.commands.doctor.page import DoctorReport, page
from jetool.frame import cli, exits
from jetool.output.shape import Style
from tests.cli.derby_databases import FIVE, damage_cases, extract, state_of
from tests.cli.derby_databases import damage as damage_derby
from tests.cli.test_damaged_logs import WHOLE as WHOLE_LOG
from tests.cli.test_damaged_logs import change_commit, without_checkpoints
from tests.support import corpus, harness
from tests.support.damage.killing import run_killed
from tests.support.environments import applications
from tests.support.environments.copies import copy_of
from tests.support.environments.frontends import (
    NODE,
    damage_tail,
    rolled,
    value_of,
    write_frontend,
    write_images,
)
from tests.support.environments.oracle import named
from tests.support.harness import assert_valid, run

GOLDEN: Final = Path(__file__).parents[1] / "golden"
HOLD: Final = """
import sys, time
from engine import Environment
with Environment(sys.argv[1]):
    print("open", flush=True)
    time.sleep(60)
"""


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


def not_readable(env: Path) -> Path:
    """Of another user, as root leaves a lock file behind; without root, a log file that its owner may not write."""
    lock = env / "je.lck"
    lock.touch()
    if os.getuid() == 0:
        for path in (env, *env.iterdir()):
            os.chown(path, 12345, 12345)
        os.chown(lock, 0, 0)
        lock.chmod(0o644)
    else:
        lock.chmod(0o444)
    return env


def with_properties(env: Path, text: str) -> Path:
    (env / "je.properties").write_text(text)
    return env


def role(place: Path, text: str | None, file: str = "ROLE") -> Path:
    meta = frontend(place)
    (meta / "image" / file).write_text(text) if text is not None else (meta / "image" / file).unlink()
    return meta


def holed(place: Path, *, image: int = 150) -> Path:
    """Journals 201 and 202 are missing, after the image."""
    env = place / "meta" / "bdb"
    env.mkdir(parents=True)
    journals = rolled(1, 250, 100)
    journals["201"] = {number: value for number, value in journals["201"].items() if number not in (220, 221)}
    write_frontend(env, journals, replicated=True)
    write_images(env.parent, (image,))
    return env.parent


def unknown_operation(place: Path) -> Path:
    env = place / "meta" / "bdb"
    env.mkdir(parents=True)
    journals = rolled(1, 50, 100)
    journals["1"] = {**journals["1"], 40: b"\x7f\x11" + value_of(41)[2:]}
    write_frontend(env, journals, replicated=True)
    write_images(env.parent, (20,))
    return env.parent


def changed_commit(place: Path) -> Path:
    """No checkpoint, and a changed Commit in an older file: JE reads it unchecked."""
    env = without_checkpoints(copy_of(named(WHOLE_LOG), place / "env"))
    change_commit(env)
    return env


REASONS: Final[dict[str, tuple[Callable[[Path], Path], list[str], str]]] = {
    "START-002": (lambda place: not_readable(plain(place)), [], "no: the user "),
    "START-003": (plain, ["--je", "7.3.7"], "no: the log has version 17, which JE 18.2 and later read; JE 7.3.7 does"),
    "START-004": (lambda _: GOLDEN / "je-6/empty", ["--je", "25.3.17"], "no: the log has version 6; JE 25.3.17 reads"),
    "START-005": (
        lambda _: corpus.path() / "je/je-18.3.20/missing-file/env",
        [],
        "no: log file 00000004.jdb is missing",
    ),
    "START-006": (
        lambda place: with_properties(damaged_plain(place), "je.haltOnCommitAfterChecksumException=true\n"),
        [],
        "no: 11 commits follow damage, and je.properties sets",
    ),
    "START-008": (lambda place: role(place, None), [], "no: image/ROLE is missing"),
    "START-009": (
        lambda place: role(place, "role=FOLLOWER\nname=fe9_9010_1\n"),
        [],
        f"yes, but image/ROLE names fe9_9010_1, which is no member; group PALO_JOURNAL_GROUP has {NODE}",
    ),
    "START-010": (
        lambda place: role(place, f"role=OBSERVER\nname={NODE}\n"),
        [],
        f"no: image/ROLE says OBSERVER, and the group has {NODE} as electable",
    ),
    "START-011": (lambda place: role(place, None, "VERSION"), [], "yes"),
    "START-012": (holed, [], "no: replay stops at journal 220: 2 journals are missing in database 201"),
    "START-013": (unknown_operation, [], "yes"),
    "START-015": (
        lambda place: with_properties(plain(place), "#" * (1 << 21)),
        [],
        "cannot be judged: je.properties is",
    ),
    "START-014": (changed_commit, [], "yes, but checksum mismatch in 00000001.jdb"),
    "START-016": (
        lambda _: corpus.path() / "je/je-18.3.20/subdirs/env",
        ["--je", "25.3"],
        "no: the log lies in 3 data",
    ),
    "JE-OPEN-001": (
        lambda _: GOLDEN / "je-6/dups",
        ["--je", "18.3.20"],
        "no: duplicates, or deltas, of JE 3 or 4 in the recovery",
    ),
    "JE-LOG-018": (lambda _: GOLDEN / "je-17/restore-required", [], "no: restore marker 7fffffff.jdb, set"),
}


@pytest.mark.parametrize("code", REASONS)
def test_each_reason(code: str, tmp_path: Path) -> None:
    make, words, verdict = REASONS[code]
    directory = make(tmp_path)
    result = run("doctor", directory, *words, "--json")
    assert_valid("doctor", result.out, "json")
    (found,) = result.json()["directories"]
    assert code in codes(found)
    assert found["verdict"].startswith(verdict)
    (reason,) = {one["code"]: one for one in found["reasons"] if one["code"] == code}.values()
    assert reason["stops"] == verdict.startswith("no")
    unjudged = exits.INCOMPLETE if verdict.startswith("cannot") else exits.FINDINGS
    assert result.code == (exits.DONE if verdict == "yes" else unjudged)
    # Without the option the same log can be opened by the release that wrote it.
    if words:
        assert run("doctor", directory).code == exits.DONE


@pytest.mark.parametrize(
    ("free", "words", "is_low"),
    [(4 << 30, [], True), (6 << 30, [], False), (4 << 30, ["--je", "18.3.20"], True), (1, ["--je", "18.1"], True)],
)
def test_disk_space(free: int, words: list[str], is_low: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = corpus.copy(corpus.path() / "je/je-18.3.20/txn-crash/env", tmp_path / "env")
    monkeypatch.setattr(DiskStorage, "free_bytes", lambda _: free)
    found = report(env, *words, code=exits.FINDINGS if is_low or words == ["--je", "18.1"] else exits.DONE)
    assert ("START-007" in codes(found["directories"][0])) == is_low
    if is_low and not words:
        assert found["verdict"].startswith("yes, but less of the disk is free than je.freeDisk")


def test_a_release_is_a_number(tmp_path: Path) -> None:
    assert run("doctor", plain(tmp_path), "--je", "seven").code == exits.USAGE


def test_a_lock_and_its_holder_are_named(tmp_path: Path) -> None:
    env = plain(tmp_path)
    command = [sys.executable, "-c", HOLD, str(env)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=harness.environment(), text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            found = only(env, code=exits.FINDINGS)
        finally:
            process.kill()
    assert codes(found)[0] == "START-001"
    assert found["verdict"].startswith("no: process ")
    if sys.platform == "linux":
        assert found["verdict"].startswith(f"no: process {process.pid} ({sys.executable} -c")
    assert only(env, code=exits.DONE)["can_start"] == "yes"


def test_an_interrupted_repair_leaves_it_open(tmp_path: Path) -> None:
    env = corpus.copy(corpus.path() / "je/je-18.3.20/corrupt-middle/env", tmp_path / "env")
    assert run_killed(29, "recover", str(env), "--accept-loss")
    assert journal.pending_in(DiskStorage(env)) is not None
    found = only(env, code=exits.FINDINGS)
    assert found["verdict"] == "cannot be judged: a repair was interrupted; undo it first"
    assert [one["command"] for one in found["next"]] == [f"jetool undo {env}"]


def test_a_log_version_that_is_not_read(tmp_path: Path) -> None:
    env = plain(tmp_path)
    log = env / "00000000.jdb"
    data = bytearray(log.read_bytes())
    data[34:38] = (99).to_bytes(4, "big")
    log.write_bytes(data)
    result = run("doctor", env, "--json")
    assert result.code in (exits.UNSUPPORTED, exits.FINDINGS)
    assert result.json()["directories"][0]["can_start"] != "yes"


@pytest.mark.parametrize("case", damage_cases(), ids=lambda case: case["damage"])
def test_derby_beside_derby(case: dict[str, Any], tmp_path: Path) -> None:
    """What Derby 10.14 did with each kind of damage."""
    database = derby(tmp_path)
    damage_derby(database, case)
    (found,) = run("doctor", database, "--json").json()["directories"]
    opens = case["expected"]["derby_opens"]
    if case["damage"] == "control files of a newer release":
        # A newer Derby opens it, but this program cannot try recovery.
        assert found["can_start"] == "unknown"
        assert "recovery could not be tried" in found["verdict"]
        assert [step["command"].split()[0] for step in found["next"]] == ["cp", "jetool"]
    elif case["damage"] == "log file of the checkpoint is missing":
        # Derby opens it, with wrong contents.
        assert found["can_start"] == "unknown"
        assert "Derby may open it with wrong contents" in found["verdict"]
    else:
        assert found["can_start"] == ("yes" if opens else "no")


def test_derby_without_its_properties(tmp_path: Path) -> None:
    database = derby(tmp_path)
    (database / "service.properties").unlink()
    found = only(database, code=exits.FINDINGS)
    assert found["verdict"] == "no: service.properties is missing"


def test_derby_whose_properties_say_encrypted(tmp_path: Path) -> None:
    database = derby(tmp_path)
    with (database / "service.properties").open("a") as properties:
        properties.write("dataEncryption=true\n")
    assert only(database, code=exits.UNSUPPORTED)["verdict"] == "cannot be judged: the database is encrypted"


def test_what_missing_files_held_is_named(tmp_path: Path) -> None:
    env = corpus.copy(corpus.path() / "je/je-18.3.20/torn-base/env", tmp_path / "env")
    (env / "00000000.jdb").unlink()
    found = only(env, code=exits.FINDINGS)
    assert "JE-LOG-010" in codes(found)
    assert found["loss"]["gone"] > 0
    assert {one["kind"] for one in found["loss"]["names"]} <= {"key", "range", "database"}
    assert any(one["command"].startswith("jetool missing ") for one in found["next"])


def test_records_in_damage_that_opening_does_not_meet_are_named(tmp_path: Path) -> None:
    """A row in an older file; JE opens the environment, and fails when it reads the row."""
    env = tmp_path / "env"
    config = EnvironmentConfig(create=True, file_max_bytes=10_000)
    with Environment(env, config) as opened, opened.create_database("orders") as db:
        for number in range(300):
            db.put(b"order%03d" % number, b"x" * 50)
    applications.flip(env, applications.records_of(env)[7])
    found = only(env, code=exits.FINDINGS)
    assert found["verdict"] == "yes, losing 1 record already gone"
    assert [(one["kind"], one["db"], one["name"]) for one in found["loss"]["names"]] == [("key", "orders", "order007")]
    assert {"JE-LOG-001", "JE-DATA-001"} <= set(codes(found))


def test_a_record_of_a_backend_in_damage_is_named(tmp_path: Path) -> None:
    env = tmp_path / "userRoot"
    names = [f"/{applications.BASE}/id2entry", f"/{applications.BASE}/dn2id"]
    with Environment(env, EnvironmentConfig(create=True, file_max_bytes=10_000, max_embedded_bytes=0)) as opened:
        for name in names:
            opened.create_database(name).close()
        applications.write_ldap(opened, range(1, 120))
    applications.flip(env, applications.records_of(env)[10])
    found = only(env, code=exits.FINDINGS)
    assert found["identity"]["application"] == "ldap"
    assert [(one["kind"], one["name"]) for one in found["loss"]["names"]] == [("dn", f"uid=u6,{applications.BASE}")]


def test_every_rule_has_a_test() -> None:
    tested = {*REASONS, "START-001", "START-007"}
    assert {rule.code for rule in rules.RULES} - tested == set()
    assert len({rule.code for rule in rules.RULES}) == len(rules.RULES)


def test_steps_name_commands_and_options_that_exist(tmp_path: Path) -> None:
    names = {name for name, _ in cli.commands()}
    for code in ("START-002", "START-005", "START-009", "START-012", "JE-LOG-018"):
        make, words, _ = REASONS[code]
        result = run("doctor", make(tmp_path / code), *words, "--json")
        (found,) = result.json()["directories"]
        assert found["next"], code
        for step in found["next"]:
            first, *rest = shlex.split(step["command"])
            if first == "jetool":
                name = next(one for one in (" ".join(rest[:2]), rest[0]) if one in names)
                help_text = run(*name.split(), "--help").text
                assert {word for word in rest if word.startswith("--")} <= set(re.findall(r"--[a-z-]+", help_text))


def test_lost_journals_are_merged_into_ranges_of_any_length() -> None:
    """A destroyed range is as long as a key in the log says: it is not counted out."""
    names = ("777", "12-9223372036854775807", "780-782", "10", "5-7", "6-8")
    lost = [LostName(kind=JOURNAL, db=None, name=name, key=None, place=None, certain=True) for name in names]
    whole = diagnose(str(GOLDEN / "je-17" / "txn-crash"))
    lossy = whole._replace(loss=Loss(commits=6, names=tuple(lost)))
    report = DoctorReport(verdict="yes, losing 6 commits", directories=[lossy], groups=[])
    text = page(report, Style())
    assert "journals: 5-8, 10, 12-9223372036854775807\n" in text


def test_the_restore_marker_is_moved_not_deleted() -> None:
    (found,) = run("doctor", GOLDEN / "je-17/restore-required", "--json").json()["directories"]
    last = found["next"][-1]["command"].split()
    assert last[0] == "mv"
    assert last[1].endswith("/7fffffff.jdb")
    assert last[2].endswith("restore-required.marker")
    assert not any(step["command"].startswith("rm ") for step in found["next"])
