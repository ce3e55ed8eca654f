"""What a damaged log does not show, and which records of a salvage are confirmed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.format.entry_types import USER_LNS
from engine.format.header import INVISIBLE
from engine.format.lsn import NULL_LSN, file_of, make_lsn
from engine.format.vlsn import NULL_VLSN
from engine.log.files import list_log_files
from engine.rescue.salvage.collect import Salvage
from engine.rescue.salvage.coverage import covered_from, gap_end
from engine.rescue.salvage.results import SalvagedRecord
from engine.rescue.salvage.scan import survey_log
from engine.rescue.salvage.sources import look_at, sources_of
from engine.storage.disk import DiskStorage
from tests.rescue.salvage_drill import damaged, judged, judged_group, salvaged, truth, written
from tests.rescue.test_salvage import flip
from tests.support import corpus
from tests.support.damage.mutations import files_of
from tests.support.environments.models import entries_of
from tests.support.environments.oracle import named
from tests.support.harness import run


@pytest.mark.parametrize(
    ("ranges", "start"),
    [
        ([], NULL_VLSN),
        ([(1, 40)], 1),
        ([(1, 40), (44, 60)], 44),
        ([(1, 40), (44, 60), (30, 50), (55, 58)], 1),
        ([(1, 40), (41, 60)], 1),
        ([(5, 60), (1, 9)], 1),
        ([(50, 60), (1, 70), (80, 80)], 80),
    ],
)
def test_vlsns_that_several_logs_have(ranges: list[tuple[int, int]], start: int) -> None:
    assert covered_from(ranges) == start


def test_gaps(tmp_path: Path) -> None:
    """Damage, a file that is gone, one that is cut short; a torn tail is none."""
    source = named("je-18.3.20/cleaned").path / "env"
    whole = survey_log(str(source))
    assert whole.gap_end == NULL_LSN
    names = sorted(path.name for path in source.glob("*.jdb"))
    assert len(names) > 3
    last = int(names[-1][:8], 16)

    env = corpus.copy(source, tmp_path / "gone")
    (env / names[-2]).unlink()
    assert survey_log(str(env)).gap_end == make_lsn(last, 0)

    env = corpus.copy(source, tmp_path / "short")
    entries = [one for one in entries_of(DiskStorage(env)) if file_of(one.lsn) == last - 2]
    with (env / names[-3]).open("r+b") as file:
        file.truncate(entries[-1].lsn & 0xFFFFFFFF)
    assert survey_log(str(env)).gap_end == make_lsn(last - 1, 0)

    env = corpus.copy(source, tmp_path / "torn")
    with (env / names[-1]).open("ab") as file:
        file.write(b"\xff" * 40)
    found = survey_log(str(env))
    assert found.damages
    assert found.gap_end == NULL_LSN

    env = corpus.copy(source, tmp_path / "damage")
    entry = next(one for one in entries_of(DiskStorage(env)) if one.type_number in USER_LNS)
    flip(env, entry)
    found = survey_log(str(env))
    assert found.gap_end == entry.lsn + entry.total_bytes
    assert gap_end(DiskStorage(env), list_log_files(DiskStorage(env)), ()) == NULL_LSN


def test_ranges_of_vlsns_end_at_gaps(tmp_path: Path) -> None:
    source = named("je-18.3.20/ha-group/node1").path / "env"
    ((first, last),) = survey_log(str(source)).vlsns
    assert (first, last) == (1, survey_log(str(source)).last_vlsn)
    env = corpus.copy(source, tmp_path / "env")
    hit = [one for one in entries_of(DiskStorage(env)) if one.replicated and one.type_number in USER_LNS][30]
    flip(env, hit)
    assert survey_log(str(env)).vlsns == ((1, hit.vlsn - 1), (hit.vlsn + 1, last))


def test_what_damage_may_hide_is_not_confirmed(tmp_path: Path) -> None:
    """A record is written again and deleted, and both stand in the damage: the older one is given, not as certain."""
    env = tmp_path / "env"
    with Environment(str(env), EnvironmentConfig(create=True, checkpoint_bytes=0)) as opened:
        with opened.create_database("db") as db:
            for number in range(20):
                db.put(b"%02d" % number, b"old")
        opened.checkpoint(force=True)
        with opened.open_database("db") as db:
            db.put(b"03", b"new")
            db.delete(b"04")
            db.put(b"05", b"newest")
        # Without a checkpoint.
        corpus.copy(env, tmp_path / "halted")
    halted = tmp_path / "halted"
    changes = [one for one in entries_of(DiskStorage(halted)) if one.type_number in USER_LNS][-3:]
    flip(halted, changes[0])
    flip(halted, changes[1])
    done = run("salvage", halted, "--to", tmp_path / "out", "--as", "ndjson", "--json")
    assert done.code == 6
    records = {
        bytes.fromhex(one["key_hex"]): (bytes.fromhex(one["data_hex"]), one["confirmed"])
        for one in map(json.loads, (tmp_path / "out" / "db.ndjson").read_text().splitlines())
    }
    assert records[b"05"] == (b"newest", True)
    assert records[b"03"] == (b"old", False)
    assert records[b"04"] == (b"old", False)
    assert done.json()["unconfirmed"] == sum(not confirmed for _, confirmed in records.values()) == 19


@pytest.mark.parametrize("kind", ["flip", "zero", "file"])
def test_nothing_wrong_is_confirmed(kind: str, tmp_path: Path) -> None:
    """A sample of the drill; the whole is in ``engine/doc/crash-points.md``."""
    right = 0
    for seed in range(1, 13):
        name, files, _ = damaged(seed, kind)
        counts, wrong, _ = judged([name], written(tmp_path, files))
        right += counts["right"]
        assert not [one for one in wrong if not one.marked and one.how != "misnamed"], seed
    assert right > 1000


@pytest.mark.parametrize(
    ("group", "zeroed"),
    [
        # Recovery of node2 ends at VLSN 215; an Abort after the damage has 225. Commits stood in between.
        ("je-7.5.11/ha-rollback", {"node2": 0x4A95, "node3": None}),
        ("je-18.3.20/ha-rollback", {"node2": 0x4A64, "node1": None}),
        # A slot of node3 leads into the damage; the transaction was open, and node2 has its Abort.
        ("je-25.3.17/ha-rollback", {"node3": 0x2CCA, "node2": 0x4F3C}),
    ],
)
def test_nodes_of_a_group_complete_each_other(group: str, zeroed: dict[str, int | None], tmp_path: Path) -> None:
    names = [f"je/{group}/{node}" for node in zeroed]
    envs = []
    for name, at in zip(names, zeroed.values(), strict=True):
        files = dict(files_of(name))
        data = bytearray(files["00000000.jdb"])
        if at is not None:
            data[at : at + 512] = bytes(min(512, len(data) - at))
        envs.append(written(tmp_path / name.rpartition("/")[2], files | {"00000000.jdb": bytes(data)}))
    counts, wrong, found = judged(names, *envs)
    assert not wrong
    assert set(counts) <= {"right", "right marked"}
    whole = frozenset.intersection(*(truth(name) or frozenset() for name in names))
    assert whole
    assert whole <= found


def test_a_hidden_entry_is_given_and_not_confirmed(tmp_path: Path) -> None:
    """The checksum leaves the invisible flag out; without a rollback period nothing explains it."""
    name = "je/je-7.5.11/ha-rollback/node2"
    data = bytearray(files_of(name)["00000000.jdb"])
    # The flags of the UPD_LN_TX at 0x0/0x46a2.
    data[0x46A7] ^= INVISIBLE
    env = written(tmp_path, {"00000000.jdb": bytes(data)})
    assert look_at(str(env)).problem == "1 invisible entry stands outside every rollback period"
    records = {record: one.confirmed for record, one in salvaged(env)}
    assert records.keys() == truth(name)
    assert [record[:2] for record, confirmed in records.items() if not confirmed] == [("images", b"user00000062")]


def test_no_node_of_a_group_is_wrong(tmp_path: Path) -> None:
    """A sample of the drill with one to three nodes."""
    for seed in range(1, 41):
        _, _, wrong = judged_group(seed, tmp_path)
        assert not [one for one in wrong if not one.marked and one.how != "misnamed"], seed


def cut_at(env: Path, lsn: int) -> None:
    """End the log before an entry."""
    for path in env.glob("*.jdb"):
        number = int(path.name[:8], 16)
        if number > file_of(lsn):
            path.unlink()
        elif number == file_of(lsn):
            with path.open("r+b") as file:
                file.truncate(lsn & 0xFFFFFFFF)


def given(*envs: Path) -> list[SalvagedRecord]:
    done = Salvage(sources_of([look_at(str(env)) for env in envs]))
    return [one for one in done.rows() if isinstance(one, SalvagedRecord)]


def test_what_no_node_of_a_group_has_confirms_nothing(tmp_path: Path) -> None:
    """One node is damaged, another one ends before the damage; a third one has it all."""
    source = named("je-18.3.20/ha-group/node1").path / "env"
    entries = [one for one in entries_of(DiskStorage(source)) if one.replicated]
    lns = [one for one in entries if one.type_number in USER_LNS]
    hit, damaged_one, behind = lns[-8], corpus.copy(source, tmp_path / "node1"), corpus.copy(source, tmp_path / "node2")
    # Without the checkpoint of the close.
    cut_at(damaged_one, entries[-1].lsn + entries[-1].total_bytes)
    flip(damaged_one, hit)
    cut_at(behind, lns[-20].lsn)
    records = given(damaged_one, behind)
    confirmed = [one.vlsn for one in records if one.confirmed]
    unconfirmed = [one.vlsn for one in records if not one.confirmed]
    assert min(confirmed) > hit.vlsn > max(unconfirmed)
    whole = named("je-18.3.20/ha-group/node3").path / "env"
    assert all(one.confirmed for one in given(damaged_one, behind, whole))


def test_what_is_prepared_is_in_doubt(tmp_path: Path) -> None:
    """A healthy environment of real JE with prepared transactions: their changes are no records, and are told."""
    env = corpus.copy(named("je-18.3.20/xa-prepared").path / "env", tmp_path / "env")
    with Environment(str(corpus.copy(env, tmp_path / "decided")), EnvironmentConfig()) as opened:
        prepared = set(opened.engine.recovery.fate.prepared)
        for txn in opened.prepared().values():
            txn.abort()
        committed = dict(opened.open_database("transfers").items())
    assert len(prepared) == 2
    done = run("salvage", env, "--to", tmp_path / "out", "--as", "ndjson", "--json")
    assert done.code == 6
    assert "2 transactions are prepared" in done.json()["environments"][0]["problem"]
    doubt = [json.loads(line) for line in (tmp_path / "out" / "doubt.ndjson").read_text().splitlines()]
    assert {one["txn"] for one in doubt} == prepared
    records = [json.loads(line) for line in (tmp_path / "out" / "transfers.ndjson").read_text().splitlines()]
    assert {bytes.fromhex(one["key_hex"]): bytes.fromhex(one["data_hex"]) for one in records} == committed
    assert all(one["confirmed"] for one in records)


def test_a_lost_database_of_je_stops_no_salvage(tmp_path: Path) -> None:
    """The MapLN of a database of JE's own is in a file that is gone; every record is there."""
    source = named("je-25.3.17/torn-base").path / "env"
    env = corpus.copy(source, tmp_path / "env")
    (env / "00000005.jdb").unlink()
    done = run("salvage", env, "--to", tmp_path / "out", "--json")
    assert done.code in (0, 6), done.err
    assert done.json()["records"] > 0
