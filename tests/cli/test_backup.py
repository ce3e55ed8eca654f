"""``jetool backup``: what its commands do and say; the copying itself is in tests/backup and tests/rep/client."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.rep.client.group_state import GroupLook, NodeLook
from engine.rep.client.hot_copy import HotCopy
from engine.rep.wire.log_file_feeder import FileListReq
from engine.rep.wire.node_state import NodeStateResponse
from jetool.commands.backup import take
from jetool.frame import exits
from tests.support.environments.backups import contents
from tests.support.environments.copies import copy_of, state_of
from tests.support.environments.oracle import named
from tests.support.groups.copy_server import CopyServer
from tests.support.harness import assert_valid, run

ENV = named("je-18.3.20/torn-base").path / "env"
FILES = {path.name: path.read_bytes() for path in sorted(ENV.glob("*.jdb"))}
SIZE = sum(map(len, FILES.values()))


def node(name: str, state: str, release: str) -> NodeLook:
    said = NodeStateResponse(
        node=name, group="G", master="n1", je_version=release, joined_ms=1, state=state, commit_vlsn=5,
        master_commit_vlsn=5, feeders=0, log_version=17, app_state=b"", load="1.0",
    )  # fmt: skip
    return NodeLook(name, (f"{name}.example.org", 5001), None, said)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> CopyServer:
    """A master n1 and a replica n2, which serves copies."""
    serving = CopyServer(dict(FILES))
    monkeypatch.setattr(take, "network_of", lambda _: serving)
    found: list[Any] = [node("n1", "MASTER", "18.3.20"), node("n2", "REPLICA", "18.3.20")]
    looked = GroupLook("G", None, tuple(found), "")  # type: ignore[arg-type]
    monkeypatch.setattr(take, "look", lambda *_: looked)
    monkeypatch.setattr(take, "HotCopy", partial(HotCopy, first_pause_s=0.0))
    return serving


def test_a_copy(server: CopyServer, tmp_path: Path) -> None:
    result = run("backup", "n1:5001", tmp_path / "copy", "--json")
    assert result.code == exits.DONE, result.err
    assert_valid("backup take", result.out)
    said = result.json()
    assert (said["node"], said["source"], said["state"]) == ("n2", "n2.example.org:5001", "REPLICA")
    assert (said["files"], said["bytes"], said["kept_files"], said["last_vlsn"]) == (len(FILES), SIZE, 0, 100)
    assert (said["recovered"], said["databases"]) == (True, 5)
    assert said["directory"] == str(tmp_path / "copy")
    assert run("backup", "list", tmp_path / "copy", "--json").json()["records"][0]["node"] == "n2"
    assert contents(tmp_path / "copy") == FILES


def test_it_goes_on(server: CopyServer, tmp_path: Path) -> None:
    server.cut_after = [SIZE // 2]
    cut = run("backup", "n1:5001", tmp_path / "copy", "--retries", "0", "--json")
    assert cut.code == exits.INCOMPLETE
    error = cut.error()
    assert (error["kind"], error["file"]) == ("disconnected", str(tmp_path / "copy"))
    assert "run it again" in error["hint"]
    server.cut_after = [SIZE // 4]
    result = run("backup", "n1:5001", tmp_path / "copy", "--json")
    assert (result.code, result.json()["attempts"]) == (exits.DONE, 2)
    assert result.json()["kept_files"] > 0
    assert "the copy was cut and goes on" in result.err
    assert contents(tmp_path / "copy") == FILES


def test_only_the_master_is_there(server: CopyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = GroupLook("G", None, (node("n1", "MASTER", "18.3.20"),), "")  # type: ignore[arg-type]
    monkeypatch.setattr(take, "look", lambda *_: looked)
    assert run("backup", "n1:5001", tmp_path / "copy").code == exits.REFUSED
    assert run("backup", "n1:5001", tmp_path / "copy", "--from-master").code == exits.DONE
    assert run("backup", "n1:5001", tmp_path / "again", "--node", "n1").code == exits.DONE
    assert run("backup", "n1:5001", tmp_path / "third", "--node", "n7").code == exits.NOT_FOUND


def test_a_release_that_nobody_tried(server: CopyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = GroupLook("G", None, (node("n2", "REPLICA", "26.1.2"),), "")  # type: ignore[arg-type]
    monkeypatch.setattr(take, "look", lambda *_: looked)
    assert run("backup", "n1:5001", tmp_path / "copy").code == exits.UNSUPPORTED
    assert server.connections == []
    assert run("backup", "n1:5001", tmp_path / "copy", "--force").code == exits.DONE


def test_a_dry_run_asks_for_no_file(server: CopyServer, tmp_path: Path) -> None:
    result = run("backup", "n1:5001", tmp_path / "copy", "-n", "--json")
    assert result.code == exits.DONE
    assert_valid("backup take", result.out)
    assert (result.json()["node"], result.json()["files"]) == ("n2", None)
    assert not (tmp_path / "copy").exists()
    assert all(not isinstance(m, FileListReq) for one in server.connections for m in one.messages)


def test_no_directory_above(server: CopyServer, tmp_path: Path) -> None:
    assert run("backup", "n1:5001", tmp_path / "none" / "copy").code == exits.NOT_FOUND


@pytest.mark.parametrize(
    "words", [["--node", "n1", "--from-master"], ["--group", "a|b"], ["--rate", "5"], ["--timeout", "0"]]
)
def test_what_makes_no_sense(server: CopyServer, tmp_path: Path, words: list[str]) -> None:
    assert run("backup", "n1:5001", tmp_path / "copy", *words).code == exits.USAGE
    assert run("backup", "n1", tmp_path / "copy").code == exits.NOT_FOUND
    assert server.connections == []


def everything(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_an_environment(tmp_path: Path) -> None:
    before = state_of(ENV)
    planned = run("backup", ENV, tmp_path / "d", "-n", "--json")
    assert_valid("backup take", planned.out)
    assert (planned.code, planned.json()["copied_files"], (tmp_path / "d").exists()) == (exits.DONE, len(FILES), False)
    taken = run("backup", ENV, tmp_path / "d", "--json")
    assert_valid("backup take", taken.out)
    said = taken.json()
    assert (taken.code, said["files"], said["copied_bytes"], said["recovered"]) == (exits.DONE, len(FILES), SIZE, True)
    assert {name: planned.json()[name] for name in ("files", "bytes", "copied_files", "end_lsn")} == {
        name: said[name] for name in ("files", "bytes", "copied_files", "end_lsn")
    }
    assert state_of(ENV) == before
    listed = run("backup", "list", tmp_path / "d", "--json")
    assert_valid("backup list", listed.out)
    (row,) = listed.json()["records"]
    assert (row["id"], row["source"], row["own_bytes"]) == (said["id"], str(ENV.resolve()), SIZE)
    checked = run("backup", "verify", tmp_path / "d", "--json")
    assert_valid("backup verify", checked.out)
    (row,) = checked.json()["records"]
    assert (checked.code, row["ok"], row["recovered"], row["bad_files"]) == (exits.DONE, True, True, 0)
    counted = run("dbs", ENV, "--count", "--json").json()["records"]
    assert (row["databases"], row["records"]) == (len(counted), sum(one["records"] for one in counted))


def test_options_before_the_environment(tmp_path: Path) -> None:
    for words in (("--json", "backup"), ("backup", "--json"), ("backup", "take", "--json")):
        said = run(*words, ENV, tmp_path / "d").json()
        assert said["source"] == str(ENV.resolve())
    assert run("backup", "-n", ENV, tmp_path / "d").code == exits.DONE
    assert run("backup", "-h", ENV, tmp_path / "d").code == exits.DONE
    assert len(run("backup", "list", tmp_path / "d", "--json").json()["records"]) == 4


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    run("backup", ENV, tmp_path / "d")
    path = sorted((tmp_path / "d" / "files").iterdir())[2]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))
    for words in ((), ("--sums",)):
        found = run("backup", "verify", tmp_path / "d", *words, "--json")
        (row,) = found.json()["records"]
        assert (found.code, row["ok"], row["bad_files"]) == (exits.FINDINGS, False, 1)
        assert path.name in row["problems"][0]


def test_a_manifest_that_cannot_be_read(tmp_path: Path) -> None:
    run("backup", ENV, tmp_path / "d")
    run("backup", ENV, tmp_path / "d")
    first, second = sorted((tmp_path / "d" / "backups").iterdir())
    first.write_text("{")
    listed = run("backup", "list", tmp_path / "d", "--json")
    assert_valid("backup list", listed.out)
    assert (listed.code, [row["files"] for row in listed.json()["records"]]) == (exits.FINDINGS, [None, len(FILES)])
    assert run("backup", "verify", tmp_path / "d").code == exits.FINDINGS
    assert run("backup", "verify", tmp_path / "d", "latest").code == exits.DONE
    assert run("backup", "verify", tmp_path / "d", second.stem).code == exits.DONE
    assert run("backup", "verify", tmp_path / "d", "2").code == exits.USAGE
    assert run("backup", "verify", tmp_path / "d", "1999").code == exits.NOT_FOUND


def test_what_is_no_source(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/torn-base"), tmp_path / "env")
    assert run("backup", tmp_path / "none", tmp_path / "d").code == exits.NOT_FOUND
    assert run("backup", env, env).code == exits.USAGE
    assert run("backup", env, tmp_path / "d", "--node", "n1").code == exits.USAGE
    assert run("backup", env, tmp_path / "d", "--retries", "3").code == exits.USAGE
    assert run("backup", "list", tmp_path / "d").code == exits.NOT_FOUND
    assert not (tmp_path / "d").exists()
    (tmp_path / "file").write_text("in the way")
    assert run("backup", env, tmp_path / "file").code == exits.INCOMPLETE
    assert (tmp_path / "file").read_text() == "in the way"


def test_commits_after_damage_are_named(tmp_path: Path) -> None:
    done = run("backup", named("je-18.3.20/corrupt-middle").path / "env", tmp_path / "d", "--json")
    assert (done.code, done.json()["commits_after"]) == (exits.DATA_GIVEN_UP, 3)
    assert "3 committed transactions stand after a bad entry" in done.err


def test_links_in_the_directory_of_backups(tmp_path: Path) -> None:
    """Somebody else may have made them: nothing is written through one."""
    run("backup", ENV, tmp_path / "d")
    (tmp_path / "victim").write_text("precious")
    before = everything(tmp_path / "d")
    (tmp_path / "d" / "files" / "00000000.part").symlink_to(tmp_path / "victim")
    for path in (tmp_path / "d" / "files").glob("00000000-*.jdb"):
        path.unlink()
    assert run("backup", ENV, tmp_path / "d").code == exits.INCOMPLETE
    assert (tmp_path / "victim").read_text() == "precious"
    (tmp_path / "d" / "files" / "00000000.part").unlink()
    assert run("backup", ENV, tmp_path / "d").code == exits.DONE
    assert before.items() <= everything(tmp_path / "d").items()


def test_prune(tmp_path: Path) -> None:
    for _ in range(3):
        run("backup", ENV, tmp_path / "d")
    before = everything(tmp_path / "d")
    planned = run("backup", "prune", tmp_path / "d", "--keep", "1d", "-n", "--json")
    assert_valid("backup prune", planned.out)
    assert everything(tmp_path / "d") == before
    done = run("backup", "prune", tmp_path / "d", "--keep", "1d", "--json")
    said = done.json()
    assert {name for name in said if said[name] != planned.json()[name]} == {"dry_run"}
    assert (done.code, said["kept"], said["removed"], said["files"]) == (exits.DONE, 1, 2, 0)
    assert [one["kept"] for one in said["backups"]] == [False, False, True]
    assert run("backup", "verify", tmp_path / "d").code == exits.DONE
    assert run("backup", "prune", tmp_path / "d", "--keep", "1x").code == exits.USAGE
    assert run("backup", "prune", tmp_path / "none", "--keep", "1d").code == exits.NOT_FOUND
    (left,) = (tmp_path / "d" / "backups").iterdir()
    left.write_text("{")
    assert run("backup", "prune", tmp_path / "d", "--keep", "1d").code == exits.INCOMPLETE


def test_follow(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/torn-base"), tmp_path / "env")
    words = ("backup", env, tmp_path / "d", "--follow", "--every", "0.01", "--format", "ndjson")
    done = run(*words, "--rounds", "3")
    rounds = [json.loads(line) for line in done.out.splitlines()]
    rounds = [one for one in rounds if one["rec"] == "round"]
    # Nothing has changed after the first look.
    assert (done.code, len(rounds)) == (exits.DONE, 1)
    assert (rounds[0]["replaced"], rounds[0]["lag_bytes"], rounds[0]["recovered"]) == (None, 0, True)
    damaged = named("je-18.3.20/corrupt-older-file").path / "env"
    assert run("backup", damaged, tmp_path / "e", "--follow", "--rounds", "1").code == exits.FINDINGS
    for wrong in (("--follow", "--json"), ("--follow", "-n"), ("--every", "5"), ("--rounds", "5")):
        assert run("backup", env, tmp_path / "d", *wrong).code == exits.USAGE
    assert run("backup", "n1:5001", tmp_path / "d", "--follow").code == exits.USAGE


def test_files_that_no_backup_has(tmp_path: Path) -> None:
    whole = sorted(FILES)
    env = tmp_path / "env"
    env.mkdir()
    for name in whole[:2]:
        (env / name).write_bytes(FILES[name])
    run("backup", env, tmp_path / "d")
    for name in whole[3:]:
        (env / name).write_bytes(FILES[name])
    done = run("backup", env, tmp_path / "d", "--json")
    assert done.json()["lost_files"] == whole[2]
    assert "went before any backup had it" in done.err
