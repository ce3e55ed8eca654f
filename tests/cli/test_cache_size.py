"""``cache-size``: planned records, databases that are there, and what does not go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.harness import assert_valid, run

GOLDEN = Path(__file__).parent.parent / "golden" / "je-17"


def test_planned_records() -> None:
    result = run("cache-size", "--record-count", "554719", "--key-bytes", "16", "--data-bytes", "100", "--json")
    assert_valid("cache-size", result.out)
    found = result.json()
    assert (found["internal_bytes"], found["all_bytes"], found["levels"]) == (23_983_600, 107_256_480, 3)
    assert "database" not in found
    assert (found["environment_bytes"], found["version_bytes"]) == (3_158_773, None)
    later = run(
        "cache-size", "--record-count", "1000000", "--key-bytes", "16", "--data-bytes", "200", "--json",
        "--je", "25.3", "--replicated",
    ).json()  # fmt: skip
    assert (later["environment_bytes"], later["version_bytes"]) == (3_166_872, 52_421_128)
    without = run("cache-size", "--record-count", "554719", "--key-bytes", "16", "--json").json()
    assert (without["internal_bytes"], without["data_bytes"], without["all_bytes"]) == (22_936_456, None, None)


def test_two_caches() -> None:
    words = ("cache-size", "--record-count", "1000000", "--key-bytes", "16", "--data-bytes", "100", "--json")
    result = run(*words, "--off-heap", "--main-cache", "30000000")
    assert_valid("cache-size", result.out)
    found = result.json()
    assert found["internal_bytes"] == 43_230_200
    assert (found["main_least_bytes"], found["main_all_bytes"]) == (533_280, 30_000_000 - 3_158_773)
    assert (found["off_heap_internal_bytes"], found["off_heap_all_bytes"]) == (11_058_532, 139_104_664)
    assert "off_heap_records" not in run(*words).json()


def test_a_database_of_an_environment() -> None:
    result = run("cache-size", GOLDEN / "txn-crash", "--db", "accounts", "--json")
    assert_valid("cache-size", result.out)
    found = result.json()
    records = run("dbs", GOLDEN / "txn-crash", "--count", "--json").json()["records"]
    assert found["records"] == next(one["records"] for one in records if one["name"] == "accounts")
    assert (found["key_bytes"], found["node_max"], found["current_bins"] > 0) == (4, 128, True)
    tags = run("cache-size", GOLDEN / "txn-crash", "--db", "tags", "--json").json()
    assert tags["embedded"] is False
    assert tags["internal_bytes"] == tags["all_bytes"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((str(GOLDEN / "txn-crash"), "--db", "nowhere"), 4),
        ((str(GOLDEN / "txn-crash"),), 2),
        (("--record-count", "5"), 2),
        (("--record-count", "5", "--key-bytes", "4", "--db", "x"), 2),
        (("--record-count", "5", "--key-bytes", "4", "--duplicates"), 2),
        (("--record-count", "5", "--key-bytes", "4", "--prefix-bytes", "4"), 2),
        ((str(GOLDEN / "txn-crash"), "--record-count", "5", "--key-bytes", "4"), 2),
        ((str(GOLDEN / "txn-crash"), "--db", "accounts", "--key-bytes", "4"), 2),
        (("--record-count", "0", "--key-bytes", "4"), 2),
        (("--record-count", "5", "--key-bytes", "4", "--main-cache", "1GB"), 2),
        (("--record-count", "5", "--key-bytes", "4", "--off-heap", "--je", "25.3"), 2),
        (("--record-count", "5", "--key-bytes", "4", "--off-heap", "--main-cache", "4207349"), 2),
        (("--record-count", "5", "--key-bytes", "4", "--file-max", "999999"), 2),
    ],
)
def test_what_does_not_go_together(words: tuple[str, ...], code: int) -> None:
    result = run("cache-size", *words)
    assert (result.code, result.out) == (code, b""), result.err
