"""Facts of logs, part by part, and the profiles made of them, against what JE says of the fixtures."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.format.lsn import NULL_LSN, format_lsn
from engine.format.vlsn import NULL_VLSN
from engine.inspect.survey import survey
from engine.log.files import list_log_files
from engine.pipeline.fleet.collect_facts import collect_part
from engine.pipeline.fleet.log_facts import MOST_POINTS, Facts, LogPoint, thinned
from engine.pipeline.fleet.profile import (
    CLEAN,
    DAMAGED,
    MARKED,
    MISSING,
    ROLLING_BACK,
    UNCLEAN,
    UNREADABLE,
    Profile,
    make_profile,
    worst_first,
)
from engine.pipeline.inventory import Member, pack, parts_of
from engine.storage.disk import DiskStorage
from jetool.fleet_page.log_map import log_map
from jetool.fleet_page.page import page
from tests.pipeline.fleet_support import environments, expected, manifest
from tests.support import corpus as corpus_of_tests
from tests.support.environments.directories import put
from tests.support.logs.log_writer import whole


def profile_of(env: Path, least_bytes: int = 1 << 40) -> Profile:
    """The profile of an environment whose files are handed out in parts of some size; facts travel as they do."""
    storage = DiskStorage(str(env))
    files = list_log_files(storage)
    whole = Facts()
    for task in pack([parts_of(str(env), files)], least_bytes):
        for part in task:
            whole.join(pickle.loads(pickle.dumps(collect_part(part))))
    return make_profile(Member(str(env), str(env)), files, whole)


def test_counts_are_those_of_dbprintlog_for_every_fixture(corpus: Path) -> None:
    checked = 0
    for env in environments(corpus):
        counts = manifest(env)["counts"]
        if (
            "byType" not in counts
            or manifest(env)["onOpen"]["forWriting"] != "ok"
            or list_log_files(DiskStorage(str(env))).marker
        ):
            continue
        found = profile_of(env)
        if not found.damages and not found.torn_tail:
            # JE of release 3 calls a DbTree Root.
            wanted = {"DbTree" if name == "Root" else name: count for name, count in counts["byType"].items()}
            assert {share.name: share.entries for share in found.types} == wanted, env
            assert found.entries == counts["entries"]
            checked += 1
        if "invisible" in counts:
            assert found.invisible == counts["invisible"], env
    assert checked > 80


def test_reserved_files_are_those_of_info(corpus: Path) -> None:
    """They are garbage to the last byte, whatever their summaries said."""
    for name, count in (("je/je-18.3.20/vlsn-range", 13), ("je-healthy/rep-one-halted", 20)):
        env = corpus / name / "env"
        found, seen = profile_of(env), survey(DiskStorage(str(env)), list_log_files(DiskStorage(str(env))))
        assert [file.number for file in found.reserved] == [file.number for file in seen.reserved]
        assert len(found.reserved) == count
        reserved_bytes = sum(file.size_bytes for file in found.reserved)
        assert found.obsolete_bytes >= reserved_bytes == sum(file.size_bytes for file in seen.reserved)


def test_it_does_not_matter_how_files_are_shared_out(corpus: Path) -> None:
    for name in ("vlsn-range", "cleaned", "torn-base", "corrupt-middle", "upgraded"):
        env = corpus / "je/je-18.3.20" / name / "env"
        whole = profile_of(env)
        for least in (1, 15_000, 40_000):
            parts = profile_of(env, least)
            assert parts._replace(progress=()) == whole._replace(progress=())


def flat(periods: list[dict[str, Any]], depth: int = 0) -> Iterator[tuple[str, str, str | None, int]]:
    """Nested periods of JE one after the other."""
    for period in periods:
        yield period["matchpoint"], period["rollbackStart"], period["rollbackEnd"], depth
        yield from flat(period["children"], depth + 1)


@pytest.mark.parametrize("release", ["18.3.20", "25.3.17", "7.5.11"])
def test_rollbacks_and_vlsns_are_those_of_je(corpus: Path, release: str) -> None:
    seen = 0
    for env in environments(corpus, release):
        if not (env.parent / "expected" / "rollback.json").is_file():
            continue
        wanted = expected(env, "rollback.json")
        found = profile_of(env)
        if wanted.get("refused"):
            continue
        ours = {
            (
                format_lsn(p.rollback.matchpoint_lsn), format_lsn(p.rollback.start_lsn),
                None if p.rollback.end_lsn == NULL_LSN else format_lsn(p.rollback.end_lsn), p.depth,
            )
            for p in found.periods
        }  # fmt: skip
        # JE looks at what recovery reads; we look at the whole log.
        assert ours >= set(flat(wanted.get("periods", []))), env
        last = found.last_checkpoint
        if last is not None and wanted.get("checkpointEnd"):
            assert format_lsn(last.lsn) == wanted["checkpointEnd"]
            assert format_lsn(last.record.first_active_lsn) == wanted["firstActive"]
        if wanted.get("endOfLog"):
            assert format_lsn(found.end_lsn) == wanted["endOfLog"]
        range_ = manifest(env).get("vlsnRange")
        if range_:
            assert (found.first_vlsn, found.last_vlsn) == (range_["first"], range_["last"]), env
            seen += 1
    assert seen >= 3


def test_open_transactions_and_recovery_are_those_of_the_survey(corpus: Path) -> None:
    for env in environments(corpus, "18.3.20"):
        found = profile_of(env)
        known = survey(DiskStorage(str(env)), list_log_files(DiskStorage(str(env))))
        assert known.work is not None
        assert found.open_txns == known.work.open_txns
        assert found.recovery_bytes == known.work.log_bytes


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("plain-load", CLEAN),
        ("multi-ckpt", CLEAN),
        ("txn-crash", UNCLEAN),
        ("torn-zero-tail", UNCLEAN),
        ("corrupt-middle", DAMAGED),
        ("corrupt-before-range", DAMAGED),
        ("missing-file", DAMAGED),
        ("restore-required", MARKED),
        ("rollback-open-ended", ROLLING_BACK),
    ],
)
def test_the_state_in_a_word(corpus: Path, name: str, state: str) -> None:
    assert profile_of(corpus / "je/je-18.3.20" / name / "env").state == state


@pytest.mark.parametrize("name", ["00000000.jdb", "00000001.jdb", "00000003.jdb"])
def test_a_deleted_file_that_still_holds_records_is_damage(tmp_path: Path, name: str) -> None:
    """The first holds a node that recovery needs, the second records only; what is there is not damaged."""
    files = whole()
    assert profile_of(put(tmp_path / "whole", files)).state in (CLEAN, UNCLEAN)
    del files[name]
    found = profile_of(put(tmp_path / "env", files))
    assert found.state == DAMAGED
    assert [file.path for file in found.missing] == [name]
    assert found.damage_count == 1
    assert found.damages[0].path == name
    assert found.damages[0].reason == MISSING
    if name != "00000003.jdb":
        assert found.missing[0].records + found.missing[0].nodes > 0
    drawn = log_map(found)
    # One drawing for wide screens, one for narrow ones.
    assert drawn.count('class="missing"') == 2
    assert f"missing: {name}" in drawn
    assert name in page([found], 0, "0").partition("<h3>Damage</h3>")[2]


def test_gaps_that_the_cleaner_left_are_no_damage() -> None:
    healthy = sorted(path.parent for path in (corpus_of_tests.path() / "je-healthy").glob("*/env"))
    gaps = 0
    for case in healthy:
        for env in (case / "env", *case.glob("node?/env")):
            found = profile_of(env)
            assert found.state in (CLEAN, UNCLEAN), (env, found.damages, found.problem)
            assert found.missing == ()
            assert found.damage_count == 0
            assert 'class="missing"' not in log_map(found)
            gaps += not list_log_files(DiskStorage(str(env))).is_whole()
    assert gaps > 5


def test_damaged_environments_come_first(corpus: Path) -> None:
    named = ("plain-load", "rollback-open-ended", "txn-crash", "corrupt-middle", "multi-ckpt", "missing-file")
    found = [profile_of(corpus / "je/je-18.3.20" / name / "env") for name in named]
    order = [Path(profile.member.env).parent.name for profile in worst_first(found)]
    assert order == ["corrupt-middle", "missing-file", "rollback-open-ended", "plain-load", "txn-crash", "multi-ckpt"]


def test_a_file_that_is_none_of_je_makes_the_environment_unreadable(tmp_path: Path, golden_dir: Path) -> None:
    (tmp_path / "00000000.jdb").write_bytes((golden_dir / "je-17/txn-crash/00000000.jdb").read_bytes())
    header = bytearray((tmp_path / "00000000.jdb").read_bytes()[:31])
    (tmp_path / "00000001.jdb").write_bytes(bytes(header))
    found = profile_of(tmp_path)
    assert found.state in (UNCLEAN, DAMAGED)
    (tmp_path / "00000001.jdb").unlink()
    (tmp_path / "00000001.jdb").symlink_to(tmp_path / "nowhere")
    found = profile_of(tmp_path)
    assert found.entries == 1221
    (tmp_path / "00000001.jdb").unlink()
    part = parts_of(str(tmp_path), list_log_files(DiskStorage(str(tmp_path))))
    gone = part._replace(files=(*part.files, part.files[0]._replace(number=1, path="00000001.jdb")), end_file=1)
    facts = collect_part(gone)
    assert [bool(file.problem) for file in facts.files] == [False, True]
    files = list_log_files(DiskStorage(str(tmp_path)))
    assert make_profile(Member("e", "e"), files, facts).state == UNREADABLE


def test_progress_is_monotonic_and_bounded(corpus: Path) -> None:
    for name in ("rollback-four-periods", "vlsn-range", "upgraded"):
        points = profile_of(corpus / "je/je-18.3.20" / name / "env").progress
        assert 2 < len(points) <= MOST_POINTS
        assert [p.time_ms for p in points] == sorted(p.time_ms for p in points)
        assert [p.bytes for p in points] == sorted(p.bytes for p in points)
    many = [LogPoint(time, time, NULL_VLSN) for time in range(100_000)]
    assert len(thinned(many)) == MOST_POINTS
    assert thinned(many)[0] == many[0]
    assert thinned(many)[-1] == many[-1]
