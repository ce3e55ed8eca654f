"""Checking some files, or one database: what lies in the part is found, and nothing is said about the rest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import NotFoundError
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.storage.throttle import Throttle, ThrottledStorage
from engine.verify.environment import verify_environment
from engine.verify.part import DATABASE_LEVELS, files_between, verify_database, verify_files
from engine.verify.report import ERROR, Report
from tests.support import corpus
from tests.support.harness import assert_valid, run

GOLDEN = Path(__file__).parent.parent / "golden" / "je-17"
HEALTHY = sorted(path.name for path in (corpus.path() / "je-healthy").iterdir() if (path / "env").is_dir())


def of_files(env: Path, first: int, last: int | None = None) -> Report:
    storage = DiskStorage(env)
    files = list_log_files(storage)
    return verify_files(storage, files, files_between(storage, files, first, last))


def of_database(env: Path, name: str, *levels: str) -> Report:
    storage = DiskStorage(env)
    return verify_database(storage, list_log_files(storage), name, levels or ("tree",))


def codes(report: Report) -> list[str]:
    return [one.code for one in report.findings if one.severity == ERROR]


@pytest.mark.parametrize("name", HEALTHY)
def test_no_part_of_a_healthy_environment_has_errors(name: str) -> None:
    env = (corpus.path() / "je-healthy") / name / "env"
    files = list_log_files(DiskStorage(env)).files
    for file in (files[0], files[len(files) // 2], files[-1]):
        assert codes(of_files(env, file.number, file.number)) == []
    whole = of_files(env, files[0].number)
    assert (codes(whole), whole.files) == ([], len(files))
    databases = run("dbs", env, "--json").json()["records"]
    for one in databases[:3]:
        found = of_database(env, one["name"], "data")
        assert (codes(found), found.checked, found.scope) == ([], ("tail", *DATABASE_LEVELS), f"database {one['name']}")


def test_damage_is_found_in_its_file_and_in_no_other() -> None:
    env = GOLDEN / "corrupt-middle"
    assert codes(of_files(env, 5)) == ["JE-TAIL-002"]
    before = of_files(env, 0, 4)
    assert (codes(before), before.scope, before.files) == ([], "files 0x0..0x4", 5)
    assert {"other files", "the end of the log"} <= set(before.not_checked)
    assert "the end of the log" not in of_files(env, 5).not_checked


def test_a_cut_file_is_no_torn_tail_but_in_the_last_file(tmp_path: Path) -> None:
    env = tmp_path / "env"
    shutil.copytree(GOLDEN / "corrupt-middle", env, copy_function=shutil.copyfile)
    for number in (2, 5):
        file = env / f"{number:08x}.jdb"
        file.write_bytes(file.read_bytes()[:0x800])
    assert codes(of_files(env, 2, 2)) == ["JE-LOG-004"]
    assert codes(of_files(env, 5, 5)) == []
    # The header of the next file knows better.
    assert "JE-LOG-004" in codes(of_files(env, 2, 3))


def test_no_file_in_the_range() -> None:
    with pytest.raises(NotFoundError, match="no log file in this range"):
        of_files(GOLDEN / "corrupt-middle", 9)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two databases in several small files; a record of ``first`` in file 0 is damaged, long before the checkpoint."""
    env = tmp_path / "env"
    with Environment(env, EnvironmentConfig(create=True, file_max_bytes=100_000)) as opened:
        for name in ("first", "second"):
            with opened.create_database(name) as db:
                for number in range(150):
                    db.put(b"%s%03d" % (name.encode(), number), b"x" * 1000)
    file = env / "00000000.jdb"
    data = bytearray(file.read_bytes())
    # The data of a record precedes its key.
    data[data.find(b"first020") - 30] ^= 0x55
    file.write_bytes(data)
    return env


def test_a_damaged_record_is_found_in_its_database_only(two: Path) -> None:
    damaged = of_database(two, "first", "data")
    assert codes(damaged) == ["JE-DATA-001"]
    assert [one.db for one in damaged.findings if one.severity == ERROR] == ["first"]
    assert codes(of_database(two, "second", "data")) == []
    # The tree of the damaged database is whole, and the report claims no more than that.
    tree = of_database(two, "first")
    assert (codes(tree), tree.checked) == ([], ("tail", "tree"))
    assert {"refs of the database", "data of the database", "the rest of the log"} <= set(tree.not_checked)
    assert (codes(of_files(two, 0, 0)), codes(of_files(two, 1))) == (["JE-LOG-001"], [])


def test_the_end_of_the_log_counts_for_every_database(tmp_path: Path) -> None:
    """Recovery stops at damage in the last file: the trees are older than the log, and no verdict may hide that."""
    env = tmp_path / "env"
    shutil.copytree(GOLDEN / "corrupt-middle", env, copy_function=shutil.copyfile)
    for one in run("dbs", env, "--json").json()["records"]:
        assert "JE-TAIL-002" in codes(of_database(env, one["name"], "data"))


def test_one_database_is_what_the_whole_check_says_of_it() -> None:
    env = GOLDEN / "txn-crash"
    storage = DiskStorage(env)
    whole = verify_environment(storage, list_log_files(storage), ("data",))
    names = [one["name"] for one in run("dbs", env, "--internal", "--json").json()["records"]]
    parts = [of_database(env, name, "data") for name in names if not name.startswith("_jeName")]
    catalogue = 2
    assert whole.nodes is not None
    records = [part.records or 0 for part in parts]
    assert sum(records) >= (whole.records or 0) > max(records)
    assert all(part.databases == catalogue + 1 for part in parts)


def test_a_database_that_is_not_there() -> None:
    with pytest.raises(NotFoundError, match="no database 'nowhere'"):
        of_database(GOLDEN / "txn-crash", "nowhere")


def test_the_command_says_what_it_is_about() -> None:
    result = run("verify", GOLDEN / "corrupt-middle", "--files", "0x0..0x4", "--json")
    assert_valid("verify", result.out)
    summary = result.json()["summary"]
    assert (result.code, summary["verdict"], summary["scope"]) == (0, "no damage seen", "files 0x0..0x4")
    assert summary["checked"] == ["log of files 0x0..0x4"]
    assert "scope" not in run("verify", GOLDEN / "txn-crash", "--json").json()["summary"]
    result = run("verify", GOLDEN / "txn-crash", "--db", "accounts", "--data", "--json")
    summary = result.json()["summary"]
    assert (result.code, summary["verdict"], summary["scope"]) == (0, "no damage seen", "database accounts")
    assert summary["checked"] == ["tail", *(f"{level} of database accounts" for level in DATABASE_LEVELS)]
    both = run("verify", GOLDEN / "txn-crash", GOLDEN / "corrupt-middle", "--files", "0x0", "--json")
    assert [one["verdict"] for one in both.json()["records"]] == ["no damage seen", "no damage seen"]
    assert [one["scope"] for one in both.json()["records"]] == ["file 0x0", "file 0x0"]


@pytest.mark.parametrize(
    "options",
    [
        ("--files", "0x0", "--db", "accounts"),
        ("--files", "0x0", "--full"),
        ("--files", "0x0", "--tree"),
        ("--db", "accounts", "--log"),
        ("--db", "accounts", "--rep"),
        ("--db", "accounts", "--space"),
        ("--db", "accounts", "--quick"),
        ("--files", "0x0", "--secondary", "a:b"),
        ("--pass-through",),
    ],
)
def test_options_that_exclude_a_part(options: tuple[str, ...]) -> None:
    result = run("verify", GOLDEN / "txn-crash", *options)
    assert (result.code, "exclude each other" in result.err or "goes with --stdin" in result.err) == (2, True), (
        result.err
    )


class Timer:
    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def test_a_check_at_a_rate_takes_its_time_and_finds_the_same() -> None:
    timer, env = Timer(), GOLDEN / "corrupt-middle"
    plain = DiskStorage(env)
    slow = ThrottledStorage(plain, Throttle(10_000, timer.clock, timer.sleep))
    files = list_log_files(slow)
    found = verify_environment(slow, files, ("log",))
    assert found == verify_environment(plain, files, ("log",))
    # No byte is read before it is due, and none twice as late.
    assert found.checked_bytes / 10_000 - 30 < timer.now < 3 * found.checked_bytes / 10_000
    assert run("verify", env, "--rate", "100MB").out == run("verify", env).out


def test_an_idle_time_is_not_saved_up() -> None:
    timer = Timer()
    storage = ThrottledStorage(MemoryStorage({"a": bytes(3_000_000)}), Throttle(1_000_000, timer.clock, timer.sleep))
    file = storage.open("a")
    timer.now = 100.0
    assert file.read(0, 1_000_000) == bytes(1_000_000)
    assert file.read(2_500_000, 1_000_000) == bytes(500_000)
    assert 101.0 <= timer.now < 101.6
    assert (file.size(), file.path) == (3_000_000, "a")
    file.close()
