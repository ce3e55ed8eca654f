"""``jetool journal`` on frontends whose log is damaged before journals that stand intact after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.contents.journals import encode_json_journal
from engine.format.lsn import format_lsn
from jetool.frame import exits
from tests.support.environments.frontends import damage_tail, journals, rolled, write_frontend, write_images
from tests.support.harness import assert_valid, run

LAST = 250
AFTER = 10


def frontend(meta: Path, target: str) -> tuple[Path, str]:
    """A frontend with 250 journals that are seen, one that the damage concerns, and ten after it."""
    env = meta / "bdb"
    env.mkdir(parents=True)
    write_frontend(env, rolled(1, LAST, 100), epochs=2, replicated=True)
    write_images(meta, (99, 150))
    return meta, format_lsn(damage_tail(env, target, AFTER))


@pytest.fixture(scope="module")
def bad_journal(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return frontend(tmp_path_factory.mktemp("journal"), "journal")


@pytest.fixture(scope="module")
def bad_commit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return frontend(tmp_path_factory.mktemp("commit"), "commit")


def test_list_does_not_say_that_it_fits(bad_journal: tuple[Path, str]) -> None:
    meta, lsn = bad_journal
    result = run("journal", "list", meta, "--json")
    assert result.code == exits.FINDINGS
    assert_valid("journal list", result.out, "json")
    found = result.json()
    assert (found["verdict"], found["last"]) == ("unseen", LAST)
    assert "11 committed transactions" in found["unseen"]
    assert found["after_damage"] == [{
        "starmgr": False, "damage": lsn, "journals": AFTER, "first": LAST + 2, "last": LAST + 11,
        "destroyed": [{"first": LAST + 1, "last": LAST + 1}], "broken_txns": 1,
    }]  # fmt: skip


def test_list_counts_a_journal_whose_commit_is_bad(bad_commit: tuple[Path, str]) -> None:
    found = run("journal", "list", bad_commit[0], "--json").json()
    (after,) = found["after_damage"]
    assert (after["journals"], after["first"], after["destroyed"]) == (AFTER + 1, LAST + 1, [])


def test_check_finds_it(bad_journal: tuple[Path, str], bad_commit: tuple[Path, str]) -> None:
    result = run("journal", "check", bad_journal[0], "--json")
    assert result.code == exits.FINDINGS
    assert_valid("journal check", result.out, "json")
    found = result.json()
    rows = [(one["kind"], one["first"], one["last"], one["stops"]) for one in found["records"]]
    assert rows == [("destroyed", 251, 251, False), ("unseen", 252, 261, False)]
    assert found["summary"]["stops_at"] is None
    assert "journal show" in found["summary"]["next"]
    assert "not seen" in found["summary"]["unseen"]
    (only,) = run("journal", "check", bad_commit[0], "--json").json()["records"]
    assert (only["kind"], only["first"], only["last"]) == ("unseen", 251, 261)
    assert "1 journal before it may have lost the Commit" in only["text"]


def test_show_prints_what_stands_after_the_damage(bad_journal: tuple[Path, str], bad_commit: tuple[Path, str]) -> None:
    result = run("journal", "show", bad_journal[0], "255", "--json")
    assert result.code == exits.FINDINGS
    assert_valid("journal show", result.out, "json")
    (one,) = result.json()["records"]
    assert (one["id"], one["payload"]["id"], one["db"], one["seen"]) == (255, 10_255, "201", False)
    assert one["time"] is not None
    assert result.json()["summary"]["complete"] is False
    assert "after damage" in run("journal", "show", bad_journal[0], "255").text
    every = run("journal", "show", bad_journal[0], "240..", "--json").json()["records"]
    assert [one["id"] for one in every] == [*range(240, 251), *range(252, 262)]
    assert [one["seen"] for one in every] == [True] * 11 + [False] * 10
    since = run("journal", "show", bad_journal[0], "--since", one["time"], "--json").json()["records"]
    assert 261 in [one["id"] for one in since]
    assert run("journal", "show", bad_journal[0], "--since", "2100-01-01", "--json").json()["records"] == []
    (lost,) = run("journal", "show", bad_commit[0], "251", "--json").json()["records"]
    assert (lost["time"], lost["seen"]) == (None, False)


def test_show_says_what_became_of_a_destroyed_journal(bad_journal: tuple[Path, str]) -> None:
    meta, lsn = bad_journal
    result = run("journal", "show", meta, "251", "--json")
    assert result.code == exits.NOT_FOUND
    assert f"no intact entry of it; the log is damaged at {lsn}" in result.error()["found"]
    # The log cannot be cut after a journal that is no part of it, and the error says where that stands.
    cut = run("journal", "truncate", meta, "--after", "255", "-n", "--json")
    assert cut.code == exits.NOT_FOUND
    assert "it is not seen" in cut.error()["found"]


def test_stats_and_compare_say_it(bad_journal: tuple[Path, str], tmp_path: Path) -> None:
    stats = run("journal", "stats", bad_journal[0], "--json").json()["summary"]
    assert (stats["journals"], "not seen" in stats["unseen"]) == (LAST, True)
    whole, _ = frontend(tmp_path / "whole", "nothing")
    result = run("journal", "compare", bad_journal[0], whole, "--json")
    assert result.code == exits.FINDINGS
    assert_valid("journal compare", result.out, "json")
    assert [(one["verdict"], one["after_damage"]) for one in result.json()["records"]] == [("behind", 10), ("start", 0)]
    assert any("after damage" in step for step in result.json()["summary"]["steps"])
    same = run("journal", "compare", bad_journal[0], bad_journal[0], "--json")
    assert same.code == exits.FINDINGS


def test_a_whole_log_after_a_crash_is_clean(tmp_path: Path) -> None:
    meta, _ = frontend(tmp_path, "nothing")
    found = run("journal", "list", meta, "--json").json()
    assert (found["verdict"], found["last"], found["unseen"], found["after_damage"]) == ("fits", 261, None, [])
    assert run("journal", "check", meta, "--json").json()["records"] == []
    shown = run("journal", "show", meta, "250..", "--json").json()
    assert (len(shown["records"]), shown["summary"]["complete"]) == (12, True)


def test_a_torn_tail_without_a_commit_is_clean(tmp_path: Path) -> None:
    meta, _ = frontend(tmp_path, "nothing")
    log = sorted((meta / "bdb").glob("*.jdb"))[-1]
    log.write_bytes(log.read_bytes()[:-8])
    assert run("journal", "check", meta).code == exits.DONE
    assert run("journal", "list", meta, "--json").json()["verdict"] == "fits"


def test_an_unknown_operation_names_the_releases(tmp_path: Path) -> None:
    env = tmp_path / "bdb"
    env.mkdir()
    write_frontend(env, {"1": {**journals(1, 9), 10: encode_json_journal(31_000, b"{}")}})
    (one,) = run("journal", "check", tmp_path, "--product", "doris", "--json").json()["records"]
    # A later release may have the code: no message says that a release lacks it.
    assert "made from the sources of Doris 1.1 to 4.0; another release may have the code" in one["text"]
    (one,) = run("journal", "check", tmp_path, "--product", "starrocks", "--json").json()["records"][-1:]
    assert "the sources of StarRocks 1.19 to 3.5;" in one["text"]
    assert "up to" not in one["text"]


def test_show_prints_only_what_stands_after_the_damage(bad_journal: tuple[Path, str]) -> None:
    """Ids that the damage has destroyed are named, as far as they are in the range asked for."""
    result = run("journal", "show", bad_journal[0], "--after-damage", "--json")
    assert result.code == exits.FINDINGS
    assert_valid("journal show", result.out, "json")
    found = result.json()
    assert [one["id"] for one in found["records"]] == list(range(LAST + 2, LAST + AFTER + 2))
    summary = {name: found["summary"][name] for name in ("journals", "after_damage", "destroyed")}
    assert summary == {"journals": AFTER, "after_damage": AFTER, "destroyed": [{"first": 251, "last": 251}]}
    part = run("journal", "show", bad_journal[0], "255..256", "--after-damage", "--json").json()
    assert ([one["id"] for one in part["records"]], part["summary"]["destroyed"]) == ([255, 256], [])
    all_of_them = run("journal", "show", bad_journal[0], "249..", "--json").json()
    assert [one["id"] for one in all_of_them["records"]] == [249, 250, *range(252, 262)]
    assert all_of_them["summary"]["after_damage"] == AFTER
    assert "destroyed     251\n" in run("journal", "show", bad_journal[0], "--after-damage").text


def test_show_has_nothing_after_damage_in_a_healthy_frontend(tmp_path: Path) -> None:
    env = tmp_path / "bdb"
    env.mkdir()
    write_frontend(env, rolled(1, LAST, 100), epochs=2, replicated=True)
    result = run("journal", "show", tmp_path, "--after-damage", "--json")
    assert (result.code, result.json()["records"]) == (exits.DONE, [])
    assert result.json()["summary"]["complete"] is True


def test_recover_names_the_journals_that_it_would_lose(
    bad_journal: tuple[Path, str], bad_commit: tuple[Path, str]
) -> None:
    for (meta, lsn), certain in ((bad_journal, True), (bad_commit, False)):
        result = run("recover", meta / "bdb", "-n", "--accept-loss", "--json")
        assert result.code == exits.DATA_GIVEN_UP
        lost = result.json()["lost"]
        assert [(one["kind"], one["name"]) for one in lost] == [("journal", str(n)) for n in range(251, 262)]
        # The Commit of journal 251 may be in the damaged bytes; its record is destroyed or is not.
        assert [one["certain"] for one in lost] == [certain] + [True] * AFTER
        assert lsn in result.json()["why"]
