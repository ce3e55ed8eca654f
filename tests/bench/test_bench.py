"""The parts of the bench on a small log: what the generator writes is a clean log, and the figures agree with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.format.codecs import encode_body
from engine.log.entry import Damage, LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage
from tests.bench import __main__ as bench
from tests.bench import stores, vlsn_index
from tests.bench.generate import Generated, generate
from tests.bench.measure import Run, peak_bytes, run
from tests.bench.report import Figures, Log, rows
from tests.support import harness

_MEGABYTES = 2.5


def _body(entry: LogEntry) -> Any:
    """The record of an entry, of whatever type."""
    return entry.record()


@pytest.fixture(scope="module", params=[False, True], ids=["local", "replicated"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Generated]:
    directory = tmp_path_factory.mktemp("generated")
    return directory, generate(directory, _MEGABYTES, replicated=request.param, file_bytes=1_000_000)


def test_generated_log_is_clean(made: tuple[Path, Generated]) -> None:
    directory, generated = made
    done = harness.run("verify", directory, "--json")
    assert done.code == 0
    assert done.json()["findings"] == []
    summary = done.json()["summary"]
    assert summary["entries"] == generated.entries
    assert summary["bytes"] == generated.size_bytes == sum(path.stat().st_size for path in directory.iterdir())
    assert summary["files"] == generated.files == 3
    assert generated.size_bytes >= _MEGABYTES * 1_000_000


def test_generated_bodies_are_whole(made: tuple[Path, Generated]) -> None:
    """Every body decodes to what encodes to the same bytes, and every LSN in it is that of an entry of its record."""
    storage = DiskStorage(str(made[0]))
    latest: dict[bytes, int] = {}
    for item in scan_log(storage, list_log_files(storage), marker=True).entries():
        assert not isinstance(item, Damage)
        record = _body(item)
        assert encode_body(item.type_number, item.version, record) == item.body
        if item.type_name.endswith("LN_TX") and item.type_name != "NameLN_TX":
            assert record.abort_lsn == latest.get(record.key, -1)
            latest[record.key] = item.lsn
    assert len(latest) > 1_000


def test_generated_tree_holds_every_record(made: tuple[Path, Generated]) -> None:
    """The last checkpoint's DbTree leads to a tree whose BINs hold the LSN of the last LN of each key."""
    storage = DiskStorage(str(made[0]))
    entries: dict[int, LogEntry] = {}
    for item in scan_log(storage, list_log_files(storage), marker=True).entries():
        assert isinstance(item, LogEntry)
        entries[item.lsn] = item
    names = {lsn: entry.type_name for lsn, entry in entries.items()}
    latest = {
        _body(entry).key: lsn for lsn, entry in entries.items() if names[lsn] in ("INS_LN_TX", "UPD_LN_TX", "DEL_LN_TX")
    }
    end = max(lsn for lsn, name in names.items() if name == "CkptEnd")
    tree = _body(entries[_body(entries[end]).root_lsn])

    def leaves(lsn: int) -> dict[bytes, int]:
        found: dict[bytes, int] = {}
        for slot in _body(entries[lsn]).slots:
            found |= {slot.key: slot.lsn} if names[lsn] == "BIN" else leaves(slot.lsn)
        return found

    (map_lsn,) = leaves(tree.mapping_db.root_lsn).values()
    database = _body(entries[map_lsn]).content.database
    assert leaves(database.root_lsn) == latest


def test_generated_vlsns_are_consecutive(made: tuple[Path, Generated]) -> None:
    directory, generated = made
    files = harness.run("vlsn", "map", directory, "--json").json()["records"]
    assert sum(file["count"] for file in files) == generated.last_vlsn
    assert harness.run("vlsn", "gaps", directory, "--json").json()["records"] == []
    if generated.last_vlsn:
        assert (files[0]["first_vlsn"], files[-1]["last_vlsn"]) == (1, generated.last_vlsn)


def test_bench_runs(made: tuple[Path, Generated], capsys: pytest.CaptureFixture[str]) -> None:
    directory, generated = made
    words = [
        "--env",
        str(directory),
        "--runs",
        "1",
        "--build",
        "pure",
        "--only",
        "verify",
        "--je-classpath",
        "",
        "--json",
    ]
    assert bench.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["log"]["entries"] == generated.entries
    assert [row["command"] for row in found["figures"]] == ["verify --log --jobs 1", "verify --log --jobs 2"]
    for row in found["figures"]:
        # It is printed with one digit, which says little of a slow run.
        assert row["mb_per_s"] == pytest.approx(generated.size_bytes / 1e6 / row["best_s"], rel=0.05, abs=0.06)
        assert row["runs"][0][0] == row["best_s"] == row["median_s"]
        assert row["peak_mb"] > 5
        assert row["within"] is None


def test_bench_refuses_damage(made: tuple[Path, Generated], tmp_path: Path) -> None:
    for path in made[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    first = tmp_path / "00000000.jdb"
    data = bytearray(first.read_bytes())
    data[5000] ^= 1
    first.write_bytes(data)
    with pytest.raises(SystemExit, match="no clean log"):
        bench.main(["--env", str(tmp_path), "--runs", "1", "--build", "pure", "--only", "help"])


def test_ratios_and_bounds() -> None:
    log = Log("env", 1, 300_000_000, 2_000_000)
    ours = Figures("verify", "verify", "pure", False, (Run(2.0, 1.0, 0), Run(1.5, 1.2, 0)), 50_000_000, 0.5, True)
    theirs = Figures("verify", "DbVerifyLog", "", True, (Run(4.0, 2.0, 0), Run(2.0, 4.0, 0)), 90_000_000, None, True)
    mine, peer = rows([ours, theirs], log)
    assert (mine["best_s"], mine["median_s"], mine["cpu_s"]) == (1.5, 1.75, 1.0)
    assert (mine["wall_ratio"], mine["cpu_ratio"], mine["within"]) == (0.75, 0.5, False)
    assert (mine["mb_per_s"], mine["entries_per_s"]) == (200.0, 1_333_333)
    assert (peer["wall_ratio"], peer["within"]) == (None, None)
    fast = ours._replace(runs=(Run(0.9, 0.9, 0),))
    assert rows([fast, theirs], log)[0]["within"] is True


def test_measure_counts_children() -> None:
    """CPU time and memory are those of the process tree."""
    burn = "import time; began = time.process_time()\nwhile time.process_time() - began < 0.2: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    assert run([sys.executable, "-c", child]).cpu_s >= 0.2
    hold = "import time; data = bytes(range(250)) * 200_000; time.sleep(0.5)"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}])"
    assert peak_bytes([sys.executable, "-c", nested]) > 50_000_000
    assert run([sys.executable, "-c", "raise SystemExit(3)"]).code == 3


def test_stores_run_and_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """Every line of ours on a few records; all of them find what the lines before left."""
    lines = [word for name in stores.NAMES for word in ("--only", name)]
    words = ["--records", "500", "--store-runs", "1", "--build", "pure", "--je-classpath", "", "--json", *lines]
    bench.main(words)
    rows = json.loads(capsys.readouterr().out)["stores"]
    ours = {row["line"]: row for row in rows if row["store"] == "jetool (pure)"}
    assert tuple(ours) == stores.NAMES
    assert all(row["records"] == 500 and row["per_s"] > 0 for row in ours.values())
    assert ours["small cache"]["within"] is True
    assert ours["small recovery"]["within"] is True
    assert {row["line"] for row in rows if row["store"] == "sqlite3"} >= {"put random", "get", "scan"}


def test_a_line_is_judged_by_its_peers() -> None:
    rows = [
        {"line": "put random", "store": "jetool (native)", "per_s": 40, "peak_mb": 1},
        {"line": "put random", "store": "JE", "per_s": 100, "peak_mb": 0},
        {"line": "put random", "store": "ZODB", "per_s": 10, "peak_mb": 1},
    ]
    assert stores.judged(rows[0], rows) == {"of_je": 0.4, "least": 0.4, "of_zodb": 4.0, "within": True}
    on_one = stores.judged(rows[0], rows, one_core=True)
    assert on_one == {"of_je": 0.4, "least": 1.0, "of_zodb": 4.0, "within": False}
    assert stores.judged({**rows[0], "per_s": 39}, rows)["within"] is False
    assert stores.judged({**rows[0], "per_s": 9}, rows)["within"] is False
    assert stores.judged(rows[1], rows)["within"] is None
    for line in ("small cache", "small recovery"):
        memory = {"line": line, "store": "jetool (pure)", "per_s": 1, "peak_mb": 87.3}
        assert stores.judged(memory, [memory])["within"] is False


def test_the_index_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert vlsn_index.main(["--vlsns", "4000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == set(vlsn_index.IndexFigures._fields)
    assert all(value > 0 for value in found.values())
    assert vlsn_index.main(["--vlsns", "400"]) == 0
    assert "look-ups by a scanner" in capsys.readouterr().out
