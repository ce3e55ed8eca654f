"""``jetool salvage``: what it writes, and where it refuses to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.db.environment import Environment
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.rescue.salvage.results import SalvagedRecord
from engine.storage.disk import DiskStorage
from jetool.commands.salvage.provenance import ProvenanceLines
from jetool.commands.salvage.rows import Provenance
from jetool.output.jsonl import record_line
from jetool.output.shape import PLAIN
from tests.support.environments.copies import copy_of, state_of
from tests.support.environments.oracle import named
from tests.support.environments.records import records_of, without_empty
from tests.support.harness import assert_valid, run

CORRUPT = "je-18.3.20/corrupt-middle"


@pytest.fixture
def env(tmp_path: Path) -> Path:
    return copy_of(named(CORRUPT), tmp_path / "env")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_new_environment(env: Path, tmp_path: Path) -> None:
    before = state_of(env)
    done = run("salvage", env, "--to", tmp_path / "out", "--json")
    assert done.code == 6
    assert_valid("salvage", done.out)
    result = done.json()
    assert state_of(env) == before
    saved = records_of(tmp_path / "out" / "env")
    assert sum(map(len, saved.values())) == result["records"]
    assert run("verify", tmp_path / "out" / "env", "--full").code == 0
    assert len(lines(tmp_path / "out" / "provenance.ndjson")) == result["records"]
    assert len(lines(tmp_path / "out" / "doubt.ndjson")) == result["in_doubt"] > 0
    assert [one["lsn"] for one in lines(tmp_path / "out" / "skipped.ndjson")] == ["0x5/0x80e"]
    # The three transactions that JE would cut away are there.
    assert run("recover", env, "--je-default").code == 6
    assert sum(map(len, records_of(env).values())) != result["records"]


def test_lines_of_provenance() -> None:
    """They are written without a row for each, and are those of the shape."""
    records = [
        SalvagedRecord(0, b"\x00key", b"data", 0, env, origin, lsn, vlsn, txn, time_ms, stood_in, not stood_in)
        for env, origin, lsn, vlsn, txn, time_ms, stood_in in (
            ("/data/env", "log", 0x1F_00002A3C, 12, -20, 1_700_000_000_007, False),
            ('/data/"\u2028\udcff', "tree", NULL_LSN, NULL_VLSN, None, None, True),
            ("/data/env", "slot", 0x26, 1 << 40, 7, 1 << 60, True),
            ("/data/env", "log", 0x26, NULL_VLSN, 7, 253_402_300_799_999, False),
            ("/data/env", "log", 0x100, 0, 8, 0, False),
            ("/data/env", "log", 0x100, 0, 8, 253_402_300_800_000, False),
        )
    ]
    expected = []
    for one in records:
        file = "-" if one.lsn == NULL_LSN else f"{one.lsn >> 32:08x}.jdb"
        said = Provenance(
            source='group "\udcfe',
            db="Täglich\n",
            key_hex=one.key,
            environment=one.env,
            file=file,
            lsn=one.lsn,
            from_=one.origin,
            vlsn=one.vlsn,
            txn=one.txn,
            time=one.time_ms,
            stood_in=one.stood_in,
            confirmed=one.confirmed,
        )
        expected.append(record_line(said, PLAIN))
    assert ProvenanceLines(0, 'group "\udcfe', "Täglich\n").lines(records) == b"".join(expected)


@pytest.mark.parametrize("form", ["je", "csv", "ndjson"])
def test_other_forms(form: str, env: Path, tmp_path: Path) -> None:
    run("salvage", env, "--to", tmp_path / "env2")
    saved = without_empty(records_of(tmp_path / "env2" / "env"))
    out = tmp_path / "out"
    done = run("salvage", env, "--to", out, "--as", form, "--json")
    assert done.code == 6
    ending = "dump" if form == "je" else form
    assert {path.stem for path in out.glob(f"*.{ending}")} >= set(saved)
    for name, records in saved.items():
        text = (out / f"{name}.{ending}").read_text().splitlines()
        heads = {"je": 6, "csv": 1, "ndjson": 0}[form]
        assert (len(text) - heads) // (2 if form == "je" else 1) == len(records)
    if form == "je":
        fresh = tmp_path / "fresh"
        assert run("create", fresh).code == 0
        for name in saved:
            assert run("load", fresh, out / f"{name}.dump", "--db", name, "--create").code == 0
        assert records_of(fresh) == saved


def test_a_dry_run_writes_nothing(env: Path, tmp_path: Path) -> None:
    done = run("salvage", env, "--to", tmp_path / "out", "-n", "--json")
    assert done.code == 6
    assert not (tmp_path / "out").exists()
    real = run("salvage", env, "--to", tmp_path / "out", "--json").json()
    shown = done.json()
    assert {name for name in shown if shown[name] != real[name]} == {"dry_run"}


def test_nothing_is_wrong(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/txn-closed"), tmp_path / "env")
    done = run("salvage", env, "--to", tmp_path / "out")
    assert done.code == 0
    assert records_of(tmp_path / "out" / "env") == without_empty(records_of(env))


def test_records_keep_their_expiration(tmp_path: Path) -> None:
    copied = copy_of(named("je-18.3.20/ttl"), tmp_path / "env")
    assert run("salvage", copied, "--to", tmp_path / "out").code == 0

    def expirations(where: Path) -> dict[bytes, int]:
        found: dict[bytes, int] = {}
        from engine.tree.tree import bins

        with Environment(DiskStorage(where)) as opened:
            for name in opened.database_names():
                with opened.open_database(name) as db:
                    for node in bins(opened.engine.ctx, db.state):
                        live = (at for at in range(len(node)) if node.is_live(at))
                        found |= {node.keys[at]: node.expirations[at] for at in live}
        return found

    was, now = expirations(copied), expirations(tmp_path / "out" / "env")
    assert any(now.values())
    assert all(was[key] == value for key, value in now.items())


def test_names_of_databases_lead_nowhere(tmp_path: Path) -> None:
    env = tmp_path / "env"
    assert run("create", env, "--db", "../../evil", "--db", "lost", "--db", ".hidden", "--db", "a/b").code == 0
    for name in ("../../evil", "lost", ".hidden", "a/b"):
        assert run("put", env, "--db", name, "k", "v").code == 0
    done = run("salvage", env, "--to", tmp_path / "out", "--as", "ndjson")
    assert done.code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["env", "out"]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"db-..%2f..%2fevil.ndjson", "db-lost.ndjson", "db-.hidden.ndjson", "a%2fb.ndjson"} <= names


def test_where_it_refuses(env: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    assert run("salvage", env, "--to", tmp_path / "full").code == 3
    assert run("salvage", env, "--to", env / "out").code == 2
    assert run("salvage", env, env, "--to", tmp_path / "out").code == 2
    assert run("salvage", tmp_path / "nowhere", "--to", tmp_path / "out").code == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["env", "full"]


def test_several_sources(env: Path, tmp_path: Path) -> None:
    other = copy_of(named("je-18.3.20/ha-group/node1"), tmp_path / "other")
    done = run("salvage", env, other, "--to", tmp_path / "out", "--as", "je", "--json")
    assert done.code == 6
    assert len([path for path in (tmp_path / "out").iterdir() if path.is_dir()]) == 2
    assert len({one["source"] for one in done.json()["environments"]}) == 2
