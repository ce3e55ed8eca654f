"""The control data of every fixture, held against what JE's recovery found in it (recovery.json)."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UnsupportedError
from engine.format.lsn import NULL_LSN, format_lsn
from engine.format.vlsn import NULL_VLSN
from engine.inspect.checkpoint_interval import RecoveryWork
from engine.inspect.survey import Survey, survey
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.tail import find_end, find_last_checkpoint
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.support.environments.oracle import Environment, environments
from tests.support.logs.golden_logs import GOLDEN, offsets_and_sizes
from tests.support.logs.log_writer import Files, LogWriter, changed, golden, whole


def survey_of(files: Files) -> Survey:
    storage = MemoryStorage(files)
    return survey(storage, list_log_files(storage))


def work_of(found: Survey) -> RecoveryWork:
    assert found.work is not None
    return found.work


def survey_at(environment: Environment) -> Survey:
    storage = DiskStorage(environment.path / "env")
    return survey(storage, list_log_files(storage))


def shown(lsn: int) -> str | None:
    return None if lsn == NULL_LSN else format_lsn(lsn)


def expected_json(environment: Environment, name: str) -> Any:
    return json.loads(environment.expected(name))


def test_the_last_checkpoint_is_the_one_that_recovery_finds(corpus: Path) -> None:
    """Of every environment without damage: the search from the end of the log, and the survey, agree."""
    seen = 0
    for environment in sorted({file.parent for file in corpus.rglob("*.jdb")}):
        storage = DiskStorage(environment)
        files = list_log_files(storage)
        try:
            last = survey(storage, files, quick=True).last_checkpoint
        except UnsupportedError:
            continue
        if last is not None:
            found = files._replace(marker=None)
            with closing(LogAccess(storage, found.files)) as access:
                searched = find_last_checkpoint(access, find_end(storage, found))
            # Recovery takes the root that a CkptEnd names, without another search.
            same_root = last.ckpt_end_lsn != NULL_LSN or last.root_lsn == searched.root_lsn
            assert (last[:2], same_root) == (searched[:2], True), environment
            seen += 1
    assert seen > 100


@pytest.mark.parametrize("environment", environments())
def test_what_je_recovers_from(environment: Environment) -> None:
    """End of log, CkptStart, CkptEnd, firstActive and root, where JE opened the environment; damaged ones included."""
    recovery = expected_json(environment, "recovery.json").get("recovery")
    if recovery is None:
        assert expected_json(environment, "recovery.json")["opened"] is False
        return
    found = survey_at(environment)
    assert found.checkpoint is not None
    record = found.checkpoint.record
    ours = {
        "lastUsedLsn": shown(found.last_lsn),
        "nextAvailableLsn": shown(found.end_of_log),
        "firstActiveLsn": shown(record.first_active_lsn),
        "checkpointStartLsn": shown(record.ckpt_start_lsn),
        "checkpointEndLsn": shown(found.checkpoint.end_lsn),
        "useRootLsn": shown(found.root_lsn),
    }
    assert ours == {name: recovery[name] for name in ours}
    # JE 3.3.98 has neither in its report.
    if environment.release != "3.3.98":
        assert shown(found.partial_checkpoint) == recovery["partialCheckpointStartLsn"]
        assert record.id == recovery["checkpointId"]
    assert work_of(found).from_lsn == record.first_active_lsn


@pytest.mark.parametrize("environment", environments())
def test_highest_ids(environment: Environment) -> None:
    """JE's ids after recovery are those of the CkptEnd or above, since later entries raise them."""
    recovery = expected_json(environment, "recovery.json").get("recovery")
    if recovery is None:
        return
    found = survey_at(environment)
    assert found.checkpoint is not None
    record = found.checkpoint.record
    for name, value in (
        ("useMaxNodeId", record.last_local_node_id),
        ("useMaxDbId", record.last_local_db_id),
        ("useMaxTxnId", record.last_local_txn_id),
    ):
        if name in recovery:
            assert recovery[name] >= value
    if found.closed_cleanly and "useMaxTxnId" in recovery:
        assert (recovery["useMaxNodeId"], recovery["useMaxDbId"], recovery["useMaxTxnId"]) == (
            record.last_local_node_id,
            record.last_local_db_id,
            record.last_local_txn_id,
        )


@pytest.mark.parametrize("environment", environments())
def test_how_it_stopped(environment: Environment) -> None:
    """Closed cleanly: exactly those whose manifest names no crash point."""
    manifest = json.loads((environment.path / "manifest.json").read_text())
    found = survey_at(environment)
    assert found.closed_cleanly == (manifest["crashPoint"] == "none")
    if found.closed_cleanly:
        assert (work_of(found).open_txns, work_of(found).prepared_txns) == ((), ())
    inside = re.search("inside the second checkpoint", manifest["crashPoint"])
    assert (found.partial_checkpoint != NULL_LSN) == bool(inside)


@pytest.mark.parametrize("environment", environments())
def test_entries_of_the_recovery_interval(environment: Environment) -> None:
    """The counts of the interval, against those of the entries that JE printed."""
    found = survey_at(environment)
    rows = [row for row in environment.good_entries() if row.lsn < 0x7FFFFFFF << 32]
    if len(environment.good_entries()) != sum(isinstance(item, LogEntry) for item in environment.read()):
        return
    start = work_of(found).from_lsn
    inside = [row for row in rows if start <= row.lsn < found.end_of_log]
    assert work_of(found).entries == len(inside)
    assert work_of(found).log_bytes == sum(row.total_bytes for row in inside)
    assert work_of(found).commits == sum(row.type_name == "Commit" for row in inside)
    assert work_of(found).aborts == sum(row.type_name == "Abort" for row in inside)


@pytest.mark.parametrize("environment", environments(cases=["xa-prepared"]))
def test_prepared_transactions(environment: Environment) -> None:
    """The manifest: "the process stops with two branches prepared and undecided"."""
    prepared, ended = [], set()
    for element in environment.header_rows():
        if element["type"] == "Prepare":
            prepared.append(element)
    for entry in environment.good_entries():
        if entry.type_name in ("Commit", "Abort"):
            ended.add(entry.record()[0])
    assert len(prepared) == 6
    found = survey_at(environment)
    assert len(work_of(found).prepared_txns) == 2
    assert not ended & set(work_of(found).prepared_txns)
    assert not set(work_of(found).open_txns) & set(work_of(found).prepared_txns)


@pytest.mark.parametrize("environment", environments())
def test_replication(environment: Environment) -> None:
    """Replicated or not, and the VLSN range, against the distribution that DbPrintLog -vd gives."""
    manifest = json.loads((environment.path / "manifest.json").read_text())
    found = survey_at(environment)
    replicated = (environment.path / "expected" / "vlsn-lsn.csv").exists() or "rollback-" in environment.name
    assert found.replicated == replicated == bool(manifest["environment"]["replicated"])
    if not (environment.path / "expected" / "vlsn-lsn.csv").exists():
        assert found.replicated or (found.first_vlsn, found.last_vlsn) == (NULL_VLSN, NULL_VLSN)
        return
    lines = environment.expected("vlsn-lsn.csv").decode().split()[1:]
    visible = [entry for entry in environment.good_entries() if entry.replicated and not entry.invisible]
    assert found.first_vlsn == int(lines[0].split(",")[0]) == visible[0].vlsn
    assert found.last_vlsn == visible[-1].vlsn
    index = expected_json(environment, "vlsn-index.json")["range"]
    # JE rolls an unfinished period back, so that its range may end lower than the visible entries of the log.
    assert found.first_vlsn == index["first"]
    if found.open_rollbacks:
        assert found.last_vlsn >= index["last"]
    else:
        assert found.last_vlsn == index["last"]


@pytest.mark.parametrize("environment", environments())
def test_open_rollbacks(environment: Environment) -> None:
    """Periods without a RollbackEnd, as JE's tracker has them (rollback.json)."""
    found = survey_at(environment)
    if not (environment.path / "expected" / "rollback.json").exists():
        assert found.open_rollbacks == ()
        return
    expected = expected_json(environment, "rollback.json")
    if "refused" not in expected:
        # {"scanFailed": ...}: JE 25 did not tell its tracker's state; none of these rollbacks is open.
        assert found.open_rollbacks == ()
        return
    if expected["refused"]:
        return
    pending, ours = list(expected["periods"]), {}
    while pending:
        period = pending.pop()
        pending += period["children"]
        if period["rollbackEnd"] is None:
            ours[period["rollbackStart"]] = (period["matchpoint"], sorted(period["activeTxnIds"]))
    assert {
        format_lsn(o.lsn): (format_lsn(o.record.matchpoint_lsn), sorted(o.record.active_txn_ids))
        for o in found.open_rollbacks
    } == ours
    assert shown(found.end_of_log) == expected["endOfLog"]


def test_the_end_of_the_log_is_where_it_first_breaks() -> None:
    """Everything after damage in the last file is gone when JE opens it: also a CkptEnd (R-LOG-31, 32)."""
    log = LogWriter()
    log.trace()
    first = log.checkpoint_end(0)
    last = log.trace("the last good entry")
    bad = log.trace("damaged") & 0xFFFF
    log.trace()
    log.checkpoint_end(0)
    files = changed(log.files, "00000000.jdb", bad + 18, b"?")
    found = survey_of(files)
    assert (found.last_lsn, found.end_of_log) == (last, bad)
    assert found.checkpoint is not None
    assert found.checkpoint.end_lsn == first
    assert found.tail is not None
    assert (found.tail.lsn, found.tail.length) == (bad, len(log.now.data) - bad)
    assert [damage.lsn for damage in found.damages] == [bad]
    assert not found.closed_cleanly


def test_a_harmless_tail_is_no_damage() -> None:
    files = golden()
    found = survey_of(files)
    assert found.damages == ()
    assert found.tail is not None
    assert found.end_of_log == found.tail.lsn == 5 << 32 | 0xC27
    assert found.tail.length == len(files["00000005.jdb"]) - 0xC27


def test_without_a_checkpoint() -> None:
    """File 0 cut before the first CkptEnd: everything is to be read, from the start."""
    data = golden("je-17/empty")["00000000.jdb"]
    places = [at for at, _ in offsets_and_sizes(data, 17)]
    ckpt_end = next(at for at in places if data[at + 4] == 20)
    found = survey_of({"00000000.jdb": data[:ckpt_end]})
    assert found.checkpoint is None
    assert work_of(found).from_lsn == NULL_LSN
    assert work_of(found).entries == places.index(ckpt_end)
    assert found.end_of_log == ckpt_end
    assert not found.closed_cleanly
    assert found.root is not None


def test_only_a_file_header() -> None:
    data = golden("je-17/empty")["00000000.jdb"][:38]
    found = survey_of({"00000000.jdb": data})
    assert (found.last_lsn, found.end_of_log) == (0, 38)
    assert (found.checkpoint, found.root, found.root_lsn) == (None, None, NULL_LSN)
    assert (found.replicated, found.closed_cleanly, found.tail) == (False, False, None)
    assert work_of(found).entries == 1


def test_a_file_of_no_bytes() -> None:
    found = survey_of({"00000000.jdb": b""})
    assert (found.last_lsn, found.end_of_log, found.checkpoint) == (NULL_LSN, NULL_LSN, None)
    assert work_of(found).entries == 0
    assert found.versions == ()


def test_only_a_restore_marker() -> None:
    marker = (GOLDEN / "je-17" / "restore-required" / "7fffffff.jdb").read_bytes()
    found = survey_of({"7fffffff.jdb": marker})
    assert found.marker is not None
    assert found.first_lsn == found.last_lsn == NULL_LSN
    with_log = survey_of({**golden("je-17/restore-required"), "7fffffff.jdb": marker})
    assert with_log.marker == found.marker
    assert with_log.checkpoint is not None


def test_a_root_that_is_gone() -> None:
    """The CkptEnd names a DbTree that cannot be read: the rest is told all the same."""
    files = whole()
    found = survey_of(files)
    assert (found.root is not None, format_lsn(found.root_lsn)) == (True, "0x2/0x1a80")
    damaged = survey_of(changed(files, "00000002.jdb", 0x1A80 + 20, b"????"))
    assert damaged.root is None
    assert damaged.root_lsn == found.root_lsn
    assert damaged.end_of_log == found.end_of_log
    assert [format_lsn(damage.lsn) for damage in damaged.damages] == ["0x2/0x1a80"]


def test_damage_before_and_in_the_recovery_interval() -> None:
    """The interval of the golden log begins at 0x2/0x44c; what lies before it is not read."""
    assert survey_of(changed(whole(), "00000000.jdb", 500, b"????")).damages == ()
    (damage,) = survey_of(changed(whole(), "00000003.jdb", 500, b"????")).damages
    assert damage.path == "00000003.jdb"


def test_closed_and_then_written_again() -> None:
    """A record after the CkptEnd of a close is no housekeeping unless its database is one of JE's."""
    name = "00000000.jdb"
    data = golden("je-17/empty")[name]
    assert survey_of({name: data}).closed_cleanly
    last = [at for at, _ in offsets_and_sizes(data, 17)][-1]

    def with_record(type_number: int, body: bytes) -> Survey:
        log = LogWriter()
        log.now.data, log.now.offsets = data, [last]
        log.add(type_number, body)
        return survey_of(log.files)

    expiration, user, unknown = (b"\x00\x00" + db + b"\x00\x88" for db in (b"\x04", b"\x06", b"\x70"))
    closed = {body[2]: with_record(34, body).closed_cleanly for body in (expiration, user, unknown)}
    assert closed == {4: True, 6: False, 0x70: False}
    assert not with_record(17, b"\xff\x01\x01\x00\x00\x00").closed_cleanly
