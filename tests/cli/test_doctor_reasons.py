"""``jetool doctor``: each reason both ways, and what its steps and names are."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

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
from tests.cli.derby_databases import damage as damage_derby
from tests.cli.derby_databases import damage_cases
from tests.cli.test_damaged_logs import WHOLE as WHOLE_LOG
from tests.cli.test_damaged_logs import change_commit, without_checkpoints
from tests.cli.test_doctor import GOLDEN, codes, damaged_plain, derby, frontend, only, plain, report
from tests.support import corpus, harness
from tests.support.damage.killing import run_killed
from tests.support.environments import applications
from tests.support.environments.copies import copy_of
from tests.support.environments.early import unpack_as
from tests.support.environments.frontends import (
    NODE,
    rolled,
    value_of,
    write_frontend,
    write_images,
)
from tests.support.environments.oracle import named
from tests.support.harness import assert_valid, run

HOLD: Final = """
import sys, time
from engine import Environment
with Environment(sys.argv[1]):
    print("open", flush=True)
    time.sleep(60)
"""


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


def with_image(place: Path, begin: bytes) -> Path:
    """The newest image begins with other bytes."""
    meta = frontend(place)
    newest = max((meta / "image").glob("image.*[0-9]"), key=lambda path: int(path.suffix[1:]))
    newest.write_bytes(begin + newest.read_bytes()[len(begin) :])
    return meta


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
    "START-017": (
        lambda place: unpack_as("je-3.1.0/names", 2, place / "env"),
        ["--je", "18.3.20"],
        "no: the log has version 2; JE 18.3.20 reads the tree nodes of version 3 and later",
    ),
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
    "START-018": (lambda place: with_image(place, b"COR1\xff"), [], "no: image "),
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
        # It is of 10.15, which opens it.
        assert found["can_start"] == "yes"
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


def test_an_image_of_an_unknown_format_is_no_reason(tmp_path: Path) -> None:
    """A later release may have written it."""
    meta = with_image(tmp_path, b"COR2")
    newest = max((meta / "image").glob("image.*[0-9]"), key=lambda path: int(path.suffix[1:]))
    newest.write_bytes(newest.read_bytes()[:-4] + b"COR2")
    assert only(meta, code=exits.DONE)["reasons"] == []
    assert run("journal", "check", meta).code == exits.DONE


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
