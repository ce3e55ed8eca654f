"""``recover``, ``checkpoint`` and ``undo`` on real Derby databases, against Derby's own recovery of each."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.derby_databases import FIVE, NAMES, damage, damage_cases, extract, manifest, state_of
from tests.support.children import child
from tests.support.harness import assert_valid, assert_valid_error, run

LOST = "one byte changed in a group in the middle of the log"
CRASHED = tuple(name for name in NAMES if name != "clean-shutdown")
HOLD = (
    "import fcntl, sys, time; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 1, 0); print('locked', "
    "flush=True); time.sleep(float(sys.argv[2]))"
)


def damaged(title: str, target: Path) -> Path:
    database = extract(FIVE, target)
    damage(database, next(case for case in damage_cases() if case["damage"] == title))
    return database


def content_of(database: Path) -> dict[str, str]:
    """Digests of all files; times do change."""
    return {path: state[2] for path, state in state_of(database).items()}


def recovered(database: Path, *options: str, code: int = 0, verb: str = "recover") -> dict[str, Any]:
    result = run(verb, database, "--json", *options)
    assert result.code == code, result.err
    assert_valid(verb, result.out)
    return dict(result.json())


def saved_beside(database: Path) -> list[Path]:
    return list(database.parent.glob("*.jetool-saved"))


@contextmanager
def open_elsewhere(database: Path, seconds: float) -> Iterator[int]:
    """Another process holds the lock that a JVM takes."""
    (database / "dbex.lck").write_bytes(bytes(4))
    (database / "db.lck").write_bytes(bytes(38))
    words = [sys.executable, "-c", HOLD, str(database / "dbex.lck"), str(seconds)]
    with child(words, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        yield holder.pid


def log_part(database: Path, part: dict[str, str]) -> str:
    (number, start), (_, end) = (map(int, re.findall(r"\d+", part[name])) for name in ("from", "to"))
    return hashlib.sha256((database / "log" / f"log{number}.dat").read_bytes()[start:end]).hexdigest()


@pytest.mark.parametrize("name", CRASHED)
def test_recovery_is_that_of_derby(name: str, tmp_path: Path) -> None:
    database = extract(name, tmp_path)
    expected = manifest(name)["recovery"]
    found = recovered(database)
    assert (found["store"], found["dry_run"], found["was_clean"]) == ("derby", False, False)
    assert [one["transaction"] for one in found["undone"]] == expected["undo_order"]
    assert sum(one["clrs"] for one in found["undone"]) == expected["clr"]
    assert log_part(database, expected["undo_part"]) == expected["undo_part"]["sha256"]
    assert found["checkpoint"]["instant"] == expected["control_after"]
    assert [one["pass"] for one in found["passes"]] == ["analysis", "redo", "undo"]
    undo = found["passes"][2]
    assert (undo["from"], undo["to"]) == (expected["undo_part"]["from"], expected["undo_part"]["to"])
    after = run("info", database, "--json").json()
    assert after["last_checkpoint"]["instant"] == expected["control_after"]
    assert [int(one["file"][3:-4]) for one in after["log_files"]] == expected["log_files_after"]
    assert len(after["recovery"]["in_doubt"]) == len(manifest(name)["contents"]["in_doubt"])
    assert run("verify", database).code == 0
    again = recovered(database)
    assert again["was_clean"] is True
    assert again["saved_in"] is None


@pytest.mark.parametrize("name", NAMES)
def test_a_dry_run_is_the_run_and_changes_nothing(name: str, tmp_path: Path) -> None:
    database = extract(name, tmp_path)
    before = state_of(database)
    plan = recovered(database, "-n")
    assert plan["dry_run"] is True
    assert state_of(database) == before
    assert saved_beside(database) == []
    changes = {one["file"] for one in plan["changes"]}
    done = recovered(database)
    touched = {path for path, digest in content_of(database).items() if digest != before.get(path, ("", "", ""))[2]}
    assert {str(database / path) for path in changes} >= touched
    assert bool(changes) == (name != "clean-shutdown")
    for key in ("dry_run", "saved_in", "duration_ms", "changes"):
        del plan[key], done[key]
    assert plan == done


@pytest.mark.parametrize("name", CRASHED)
def test_undo_brings_the_old_bytes_back(name: str, tmp_path: Path) -> None:
    database = extract(name, tmp_path)
    before = content_of(database)
    saved_in = recovered(database)["saved_in"]
    (parent,) = saved_beside(database)
    assert Path(saved_in).parent == parent
    after = content_of(database)
    assert after != before
    plan = recovered(database, "-n", verb="undo")
    assert content_of(database) == after
    done = recovered(database, verb="undo")
    assert plan["entries"] == done["entries"] > 0
    assert done["saved_in"] == saved_in
    assert content_of(database) == before
    result = run("undo", database, "--json")
    assert result.code == 0, result.err
    assert "already" in result.err
    assert content_of(database) == before


def test_undo_refuses_when_files_were_changed_since(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    recovered(database)
    path = database / "seg0" / "c490.dat"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    before = content_of(database)
    result = run("undo", database)
    assert result.code == 3
    assert content_of(database) == before
    recovered(database, "--force", verb="undo")


def test_the_interlock_and_accepted_loss(tmp_path: Path) -> None:
    """The commits of 194 and 200 lie after the damage: Derby would drop them without a word."""
    database = damaged(LOST, tmp_path)
    before = content_of(database)
    for options in ([], ["-n"]):
        result = run("recover", database, "--json", *options)
        assert result.code == 3
        assert_valid_error(result)
        error = result.error()
        assert "2" in error["what"]
        assert "(1,41854)" in error["lsn"]
    assert content_of(database) == before
    assert saved_beside(database) == []
    assert recovered(database, "--accept-loss", "-n", code=6)["lost_commits"] == 2
    assert content_of(database) == before
    found = recovered(database, "--accept-loss", code=6)
    case = next(case for case in damage_cases() if case["damage"] == LOST)["expected"]
    assert [one["transaction"] for one in found["undone"]] == case["undo_order"]
    assert log_part(database, case["undo_part"]) == case["undo_part"]["sha256"]
    assert run("verify", database).code == 0
    recovered(database, verb="undo")
    assert content_of(database) == before


def test_where_the_old_bytes_go(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path / "a")
    assert recovered(database, "--backup-dir", "none")["saved_in"] is None
    assert saved_beside(database) == []
    database = extract(FIVE, tmp_path / "b")
    chosen = tmp_path / "kept" / "here"
    assert recovered(database, "--backup-dir", str(chosen))["saved_in"] == str(chosen)
    assert saved_beside(database) == []
    assert sorted(path.name for path in chosen.iterdir()) == ["manifest.json", "saved.journal"]
    assert run("recover", extract(FIVE, tmp_path / "c"), "--backup-dir", chosen).code == 3
    recovered(database, "--backup-dir", str(chosen), verb="undo")
    (tmp_path / "file").write_text("")
    refused = run("recover", database, "--backup-dir", tmp_path / "file" / "below")
    assert refused.code == 7
    assert "nothing was changed" in refused.err


def test_text_names_the_way_back(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    result = run("recover", database)
    assert "196" in result.text
    assert f"jetool undo {database} --backup-dir {saved_beside(database)[0]}" in result.err


def test_checkpoint_of_a_clean_database(tmp_path: Path) -> None:
    database = extract("clean-shutdown", tmp_path)
    end = run("info", database, "--json").json()["end_of_log"]
    before = content_of(database)
    found = recovered(database, verb="checkpoint")
    assert found["was_clean"] is True
    assert found["checkpoint"]["redo_lwm"] == end
    after = run("info", database, "--json").json()
    assert after["last_checkpoint"]["instant"] == found["checkpoint"]["instant"]
    assert after["closed_cleanly"] is True
    assert run("verify", database).code == 0
    recovered(database, verb="undo")
    assert content_of(database) == before
    recovered(extract(FIVE, tmp_path / "crashed"), verb="checkpoint")


def test_a_missing_log_file_is_an_error(tmp_path: Path) -> None:
    database = damaged("log file of the checkpoint is missing", tmp_path)
    before = state_of(database)
    result = run("recover", database, "--json")
    assert result.code == 7
    assert_valid_error(result)
    assert "missing" in result.error()["what"]
    assert content_of(database) == {path: state[2] for path, state in before.items()}
    assert saved_beside(database) == []


def test_an_encrypted_database_is_refused(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    properties = database / "service.properties"
    properties.write_text(properties.read_text() + "dataEncryption=true\n")
    for verb in ("recover", "checkpoint"):
        assert run(verb, database).code == 5


def test_a_database_in_use_is_refused(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    with open_elsewhere(database, 60) as pid:
        before = state_of(database)
        for verb in ("recover", "checkpoint", "undo"):
            result = run(verb, database, "--backup-dir", tmp_path / "saved", "--json")
            assert result.code in ((3, 4) if verb == "undo" else (3,)), result.err
        result = run("recover", database, "--json")
        assert f"process {pid}" in result.error()["found"]
        assert "out of date" in run("recover", database, "-n").err
        assert state_of(database) == before
    assert saved_beside(database) == []


def test_waiting_for_the_lock(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    with open_elsewhere(database, 1.0):
        assert recovered(database, "--lock-timeout", "30")["checkpoint"] is not None


def test_writing_verbs_are_kept_from_the_corpus(corpus: Path) -> None:
    """What the tests themselves must never do; the verb is not started."""
    for verb in ("recover", "checkpoint", "undo"):
        with pytest.raises(AssertionError, match="copy it first"):
            run(verb, corpus / "je" / "nothing-here")


def test_explain_beside_textbook_aries(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    before = state_of(database)
    result = run("recover", database, "--explain", "--json")
    assert (result.code, state_of(database)) == (0, before)
    assert_valid("recover", result.out)
    rows = {row["instant"]: row for row in result.json()["records"]}
    assert (rows["(1,40710)"]["derby"], rows["(1,40710)"]["textbook"]) == ("in front", "unread")
    assert rows["(1,41924)"]["page_lsn"] == "(1,41609)"
    assert rows["(1,41034)"]["textbook_undo"] == "undone"
    assert sum(row["records"] for row in result.json()["counts"]) > len(rows)
    assert "textbook" in run("recover", database, "--explain").text


def test_a_database_that_lost_a_container(tmp_path: Path) -> None:
    """Nothing in the log names it, and Derby does not boot without it: red everywhere, and nothing is changed."""
    database = extract(FIVE, tmp_path)
    (database / "seg0" / "cd1.dat").unlink()
    before = content_of(database)
    assert run("info", database).code == 1
    assert run("verify", database).code == 1
    for options in ((), ("-n",)):
        refused = run("recover", database, "--json", *options)
        assert refused.code == 3
        assert_valid_error(refused)
        assert "container 209 is in the catalogue and its file is missing" in refused.err
    assert content_of(database) == before
    given_up = run("recover", database, "--accept-loss", "--json")
    assert given_up.code == 6, given_up.err
    assert "container 209 is in the catalogue and its file is missing" in given_up.json()["notes"]


def test_timeline(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    before = state_of(database)
    result = run("recover", database, "--explain", "--timeline", "--json")
    assert result.code == 0, result.err
    assert_valid("recover", result.out)
    assert [one["like"] for one in result.json()["transactions"]] == [1, 2, 3, 4, 5, 5]
    drawn = run("recover", database, "--explain", "--timeline").text
    assert "|------------:-------|    ::           :          193     1  committed" in drawn.splitlines()
    fields = run("recover", database, "--explain", "--timeline", "--fields", "undo_lwm,redo_lwm")
    assert fields.text == "  undo lwm  (1,40674)\n  redo lwm  (1,41652)\n"
    assert state_of(database) == before
    refused = run("recover", database, "--timeline")
    assert refused.code == 2
    assert "--timeline is a form of --explain" in refused.err
