"""A sample of the drill of ``verify``'s levels; ``python -m tests.verify.level_drill`` runs it at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.storage.disk import DiskStorage
from jetool.frame import exits
from tests.support.damage.mutations import files_of, mutation, sources
from tests.support.harness import run
from tests.support.samples import part
from tests.verify.level_drill import (
    INCLUDED,
    Verdict,
    faults_of_sound,
    is_sound,
    misses,
    of_seed,
    outcome,
    verdict,
    written,
)

pytestmark = pytest.mark.exhaustive

SAMPLE = part(range(1, 41))
# Seeds whose levels contradicted each other, and the kind of it.
MENDED = {
    "two levels find different missing files": 32,
    "the end of the log finds a missing file, the whole log does not": 55,
    "a missing file before damage in the last file": 57,
    "a gap in the stream without its file": 92,
    "a last file that is a copy of another": 198,
    "a file of an unknown log version hides a torn tail": 475,
    "a restore marker alone": 507,
    "a file of an unknown log version hides damage": 956,
    "a node that is counted as obsolete hides that no name is lost": 10152,
    "an entry of the naming tree of another type": 10226,
    "records in a file of an unknown log version": 12540,
    "a database without a name in an unknown order": 16314,
    "the same in a log of version 6": 18165,
    "a delta of the naming tree whose full version is another node": 33034,
    "the stream cannot be read for a file of an unknown log version": 31420,
}


@pytest.mark.parametrize("seed", SAMPLE)
def test_a_sample(seed: int) -> None:
    assert of_seed(seed).misses == ()


@pytest.mark.parametrize("seed", MENDED.values(), ids=MENDED)
def test_what_was_mended(seed: int) -> None:
    assert of_seed(seed).misses == ()


@pytest.mark.slow
def test_no_level_is_red_where_nothing_is_wrong() -> None:
    assert sum(map(is_sound, sources())) > 130
    assert faults_of_sound() == []


def test_every_version_is_among_the_sources() -> None:
    versions = {file[34] for name in sources() for file in files_of(name).values() if len(file) > 38}
    assert {6, 14, 15, 17, 26} <= versions


def test_a_seed_always_gives_the_same_mutation() -> None:
    assert mutation(5) == mutation(5)
    assert len({mutation(seed).what for seed in range(1, 41)}) > 30


def test_misses_are_found() -> None:
    clean, finding = frozenset[tuple[str]](), frozenset({("JE-LOG-001",)})
    found = {
        "weak": Verdict(code=exits.FINDINGS, findings=finding, error=""),
        "strong": Verdict(code=exits.DONE, findings=clean, error=""),
    }
    assert len(misses(found, {"weak": (), "strong": ("weak",)})) == 2
    assert misses(found, {"strong": (), "weak": ("strong",)}) == []


def test_a_header_that_names_a_later_end(tmp_path: Path) -> None:
    """A torn tail is none where the header of the next file names a later entry: every level is red, as is ``info``."""
    files = files_of("je-healthy/stub-header-only")
    env = written(tmp_path, {**files, "00000000.jdb": files["00000000.jdb"][:0x2373]})
    assert verdict(env, ("info",)).code == exits.FINDINGS
    for level in INCLUDED:
        found = verdict(env, ("verify", *filter(None, (level,))), ("code", "file"))
        assert found.code == exits.FINDINGS, level
        assert found.findings is not None
        assert ("JE-LOG-009", "00000000.jdb") in found.findings
    assert outcome(0, "", env, INCLUDED).misses == ()


def test_a_file_of_an_unknown_version_alone_is_not_supported(tmp_path: Path) -> None:
    """5 with the findings; 1 where there is damage too."""
    torn, damaged = written(tmp_path / "torn", mutation(475).files), written(tmp_path / "damaged", mutation(956).files)
    for level in ("", "--tree", "--full"):
        words = ("verify", *filter(None, (level,)))
        found = verdict(torn, words, ("code",))
        assert found.code == exits.UNSUPPORTED
        assert found.findings is not None
        assert {("JE-LOG-032",), ("JE-TAIL-001",)} <= found.findings
        assert verdict(damaged, words).code == exits.FINDINGS


def test_what_stops_a_writer_is_found(tmp_path: Path) -> None:
    """The chain of an open transaction leads to a record of another one: read-only, JE loses a record without a word.

    JE 25.3.17 fails when it becomes master and takes the transaction back.
    """
    env = written(tmp_path, mutation(11197).files)
    for level in ("--data", "--full"):
        found = verdict(env, ("verify", level), ("code", "severity", "lsn"))
        assert found.code == exits.FINDINGS
        assert found.findings == frozenset({("JE-DATA-006", "error", "0x0/0x63c6")})
    assert verdict(env, ("recover", "-n")).code == exits.INCOMPLETE
    assert of_seed(11197).to_judge == of_seed(11197).misses == ()


def test_a_torn_tail_is_not_called_harmless_where_it_is_not(tmp_path: Path) -> None:
    """The next file's header names an entry that the torn tail held. JE opens it, and committed records are gone."""
    files = files_of("je-healthy/stub-header-only")
    env = written(tmp_path, {**files, "00000000.jdb": files["00000000.jdb"][:0x3200]})
    for level in ("--tail", ""):
        found = verdict(env, ("verify", *filter(None, (level,))), ("code",)).findings
        assert found is not None
        assert ("JE-LOG-009",) in found
        assert ("JE-TAIL-001",) not in found


def test_a_reserved_file_without_a_number_stops_no_level(tmp_path: Path) -> None:
    """JE's record of a reserved file has an empty key: an error, and the trees are walked to their end."""
    env = written(tmp_path, mutation(11291).files)
    for level in ("--space", "--full"):
        found = verdict(env, ("verify", level), ("code", "severity", "db"))
        assert found.code == exits.FINDINGS
        assert found.findings is not None
        assert ("JE-SPACE-006", "error", "_jeReservedFilesDb") in found.findings


def test_an_environment_in_use_is_not_opened_for_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleaner of the process that has it may delete files at any moment, so that a failure would say nothing."""
    env = written(tmp_path, mutation(11197).files)
    (env / "je.lck").touch()
    monkeypatch.setattr(DiskStorage, "lock_holder", lambda self, path, byte: 4711 if byte == 0 else None)
    result = run("verify", "--data", env, "--json").json()
    assert [one["code"] for one in result["findings"]] == []
    assert result["summary"]["not_checked"][-1].startswith("opening for writing (a process has the environment open")
