"""``jetool journal``: on environments that our own engine wrote after the formats, with the defects of the drills."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.contents.journals import encode_json_journal, journal_key
from engine.db.environment import Environment
from engine.events import heard
from jetool.frame import exits
from tests.support.environments.frontends import (
    CLOCK_MS,
    Journals,
    damage_tail,
    journals,
    json_of,
    rolled,
    value_of,
    write_frontend,
    write_images,
)
from tests.support.harness import assert_valid, run


def made(meta: Path, databases: Mapping[str, Journals], **options: Any) -> Path:
    (meta / "bdb").mkdir(parents=True)
    write_frontend(meta / "bdb", databases, **options)
    return meta


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A replicated Doris frontend: 1 to 250 in three databases, two epochs, images 99 and 150."""
    meta = made(tmp_path_factory.mktemp("fe"), rolled(1, 250, 100), epochs=2, replicated=True)
    write_images(meta, (99, 150))
    return meta


def document(*words: str | Path) -> Any:
    result = run("journal", *words, "--json")
    assert result.code in (0, 1), result.err
    assert_valid(f"journal {words[0]}", result.out, "json")
    return result.json()


def test_list(healthy: Path) -> None:
    found = document("list", healthy)
    assert (found["product"], found["node"], found["role"], found["cluster"]) == (
        "doris", "fe1_9010_1700000000000", "FOLLOWER", "1234567",
    )  # fmt: skip
    assert (found["images"], found["epochs"], found["highest_epoch"]) == ([99, 150], 2, 2)
    assert (found["first"], found["last"], found["journals"], found["last_by_count"]) == (1, 250, 250, 250)
    assert found["verdict"] == "fits"
    rows = [(one["name"], one["first"], one["last"], one["journals"], one["holes"]) for one in found["databases"]]
    assert rows == [("1", 1, 100, 100, []), ("101", 101, 200, 100, []), ("201", 201, 250, 50, [])]
    assert all(one["bytes"] > 10_000 // 2 and one["first_time"] <= one["last_time"] for one in found["databases"])
    assert found["databases"][0]["first_time"].startswith("20")


def test_list_takes_the_environment_itself(healthy: Path) -> None:
    assert document("list", healthy / "bdb")["journals"] == 250
    assert "101 " in run("journal", "list", healthy).text


def test_show(healthy: Path) -> None:
    found = document("show", healthy, "5..6")["records"]
    assert [(one["id"], one["op"], one["name"], one["known"]) for one in found] == [
        (5, 126, "MODIFY_COMMENT", True), (6, 100, "UPSERT_TRANSACTION_STATE", True),
    ]  # fmt: skip
    assert found[0]["payload"] == {"id": 10_005, "name": "table_5", "label": "insert_5f1e"}
    assert found[0]["padding"] == 128 - 6 - len(json_of(found[0]["payload"]))
    assert (found[0]["db"], found[0]["bytes"], found[0]["skippable"]) == ("1", 128, None)
    assert found[1]["vlsn"] > found[0]["vlsn"]
    assert found[1]["txn"] != found[0]["txn"]
    assert found[0]["time"] <= found[1]["time"]
    line = run("journal", "show", healthy, "5").text.splitlines()[0]
    assert line.startswith("5  20")
    assert '126 MODIFY_COMMENT  {"id":10005,"name":"table_5","label":"insert_5f1e"}  padding=' in line


def test_show_chooses(healthy: Path) -> None:
    clock = document("show", healthy, "--op", "timestamp")
    assert [one["id"] for one in clock["records"]] == list(range(10, 251, 10))
    assert clock["records"][0]["payload"] == {"timestamp": CLOCK_MS + 10_000}
    assert [one["id"] for one in document("show", healthy, "--grep", "table_17")["records"]] == [17, *range(171, 180)][
        : 1 + 9
    ]
    limited = document("show", healthy, "240..", "--limit", "3")
    assert ([one["id"] for one in limited["records"]], limited["summary"]["complete"]) == ([240, 241, 242], False)
    time = document("show", healthy, "77")["records"][0]["time"]
    since = [one["id"] for one in document("show", healthy, "--since", time)["records"]]
    assert since[-1] == 250
    assert since[0] <= 77
    assert document("show", healthy, "--since", "2100-01-01")["records"] == []
    assert document("show", healthy, "--until", "2001-01-01")["records"] == []


def test_show_lists_the_operations(healthy: Path) -> None:
    lines = run("journal", "show", healthy, "--op", "list").text.splitlines()
    assert "  267  MODIFY_IN_MEMORY                           Doris      since 1.1, until 3.0" in lines
    assert "  475  ALTER_ROLE                                 Doris      since 2.1" in lines
    assert not any("StarRocks" in line for line in lines)
    other = run("journal", "show", healthy, "--op", "list", "--product", "starrocks").text
    assert "12110  UPSERT_TRANSACTION_STATE_V2                StarRocks  since 3.0.3" in other
    refused = run("journal", "show", healthy, "--op", "NO_SUCH")
    assert (refused.code, "--op list" in refused.err) == (exits.USAGE, True)


def test_show_says_why_there_is_none(tmp_path: Path) -> None:
    without = {number: value for number, value in journals(1, 20).items() if number not in (7, 8)}
    meta = made(tmp_path / "fe", {"1": without})
    missing = run("journal", "show", meta, "7", "--json")
    assert (missing.code, missing.error()["found"]) == (exits.NOT_FOUND, "a hole in database 1")
    assert run("journal", "show", meta, "99").code == exits.NOT_FOUND
    assert run("journal", "show", meta, "1..2", "--op", "NO_SUCH").code == exits.USAGE
    assert run("journal", "show", meta, "x").code == exits.USAGE
    assert run("journal", "show", meta, "1-3", "--json").text == run("journal", "show", meta, "1..3", "--json").text


@pytest.mark.parametrize("words", [("show", "--grep", "nowhere"), ("compare",), ("check",), ("stats",)], ids="-".join)
def test_what_reads_all_journals_tells_how_many(
    words: tuple[str, ...], healthy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("engine.journals.compare", "jetool.commands.journal.show"):
        monkeypatch.setattr(f"{module}.heard", partial(heard, every=1))
    others = [healthy] if words == ("compare",) else []
    result = run("journal", words[0], healthy, *others, *words[1:], "--progress", "json")
    assert '"step":"journals"' in result.err


def test_an_environment_without_journals(tmp_path: Path) -> None:
    write_frontend(tmp_path, {"orders": {1: b"x"}})
    result = run("journal", "list", tmp_path)
    assert result.code == exits.NOT_FOUND
    assert "no database of journals" in result.err


def test_a_healthy_frontend_is_clean(healthy: Path) -> None:
    found = document("check", healthy)
    assert found["findings" if "findings" in found else "records"] == []
    assert found["summary"] == {
        "verdict": "sound", "why": "250 journals read, nothing is missing or unknown; 151 to 250 can be replayed after "
        "image 150",
        "journals": 250, "findings": 0, "image": 150, "replay_first": 151, "replay_last": 250, "stops_at": None,
        "padded": 250, "padding_bytes": found["summary"]["padding_bytes"], "undecoded": 0, "next": None,
        "unseen": None,
    }  # fmt: skip
    assert run("journal", "check", healthy).code == exits.DONE


def without(values: Journals, *gone: int) -> Journals:
    return {number: value for number, value in values.items() if number not in gone}


# Databases, images, what is found: kind, first and last id, whether replay stops; and where it stops.
Finding = tuple[str, int | None, int | None]
DEFECTS: dict[str, tuple[Mapping[str, Journals], tuple[int, ...], list[Finding], int | None]] = {
    "a missing id": ({"1": without(journals(1, 50), 7, 8, 30)}, (), [("hole", 7, 8), ("hole", 30, 30)], 7),
    "a missing id before the image": ({"1": without(journals(1, 50), 7)}, (20,), [("hole", 7, 7)], None),
    "a hole between two databases": (
        {"1": journals(1, 50), "61": journals(61, 10)}, (), [("hole", 51, 60)], 51,
    ),
    "a name that is too early": (
        {"1": journals(1, 50), "41": journals(51, 10)}, (), [("hole", 41, 50), ("overlap", 41, 50)],
        41,
    ),
    "two databases with the same ids": (
        {"1": journals(1, 50), "41": journals(41, 30)}, (), [("overlap", 41, 50)], 41,
    ),
    "ids in two databases after the image": (
        {"1": journals(1, 50), "41": journals(41, 30)}, (20,), [("overlap", 41, 50)], 41,
    ),
    "a database without its first journal": ({"1": journals(3, 10)}, (), [("hole", 1, 2)], 1),
    "a wrong name after a hole": (
        {"1": without(journals(1, 50), 7), "51": journals(51, 5)}, (20,), [("hole", 7, 7), ("name", None, None)], None,
    ),
    "an unknown code": (
        {"1": {**journals(1, 9), 10: encode_json_journal(31_000, b"{}")}}, (), [("unknown-operation", 10, 10)], 10,
    ),
    "a payload that breaks off": (
        {"1": {**journals(1, 9), 10: struct.pack(">hi", 126, 400) + b'{"id":1,"na'}}, (),
        [("unreadable-payload", 10, 10)], 10,
    ),
    "a value that is too short": ({"1": {**journals(1, 9), 10: b"\x01"}}, (), [("unreadable-payload", 10, 10)], 10),
    "journals that are gone": ({"51": journals(51, 9)}, (20,), [("image-behind", 21, 50)], 21),
    "an image from the future": ({"1": journals(1, 9)}, (20,), [("image-ahead", 10, 20)], None),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_found(name: str, tmp_path: Path) -> None:
    databases, images, expected, stops_at = DEFECTS[name]
    meta = made(tmp_path / "fe", databases)
    if images:
        write_images(meta, images)
    result = run("journal", "check", meta, "--product", "doris", "--json")
    assert result.code == exits.FINDINGS, result.err
    assert_valid("journal check", result.out, "json")
    found = result.json()
    assert sorted((one["kind"], one["first"], one["last"]) for one in found["records"]) == sorted(
        expected, key=lambda one: (one[0], one[1] or 0)
    )
    assert found["summary"]["stops_at"] == stops_at
    assert found["summary"]["next"]


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("ids in two databases after the image", "overlap"), ("journals that are gone", "behind"),
        ("an image from the future", "ahead"), ("a missing id before the image", "fits"),
    ],
)  # fmt: skip
def test_the_verdict_of_a_list(name: str, verdict: str, tmp_path: Path) -> None:
    databases, images, _, _ = DEFECTS[name]
    meta = made(tmp_path / "fe", databases)
    write_images(meta, images)
    assert document("list", meta)["verdict"] == verdict


def test_a_damaged_image(tmp_path: Path) -> None:
    meta = made(tmp_path, rolled(1, 120, 50))
    write_images(meta, (50, 110))
    listed = document("list", meta)
    assert [(one["path"], one["checksum"], one["header_id"]) for one in listed["image_files"]] == [
        ("image.50", "unchecked", 50),
        ("image.110", "unchecked", 110),
    ]
    newest = meta / "image" / "image.110"
    newest.write_bytes(newest.read_bytes()[:-6])
    result = run("journal", "list", meta, "--json")
    found = result.json()
    assert (result.code, found["verdict"], found["image_files"][1]["checksum"]) == (
        exits.FINDINGS,
        "bad-image",
        "wrong",
    )
    checked = document("check", meta)
    (finding,) = checked["records"]
    assert (finding["kind"], finding["stops"]) == ("image-damaged", True)
    assert "image 110: footer of an image" in finding["text"]
    # An older one that is damaged is not loaded.
    newest.unlink()
    (meta / "image" / "image.20").write_bytes(b"")
    assert document("list", meta)["verdict"] == "fits"
    assert document("check", meta)["records"] == []


def test_check_against_a_named_image(healthy: Path) -> None:
    found = document("check", healthy, "--image", "/somewhere/image.200")
    assert (found["summary"]["replay_first"], found["summary"]["image"]) == (201, 200)
    assert document("check", healthy, "--image", "400")["records"][0]["kind"] == "image-ahead"
    assert run("journal", "check", healthy, "--image", "nothing").code == exits.USAGE


def test_keys_that_are_no_ids(tmp_path: Path) -> None:
    meta = made(tmp_path / "fe", {"1": journals(1, 9)})
    with Environment(meta / "bdb") as env, env.open_database("1") as db:
        db.put(b"short", b"x")
    found = document("check", meta)["records"]
    assert [(one["kind"], one["stops"]) for one in found] == [("wrong-key", False)]
    assert document("list", meta)["journals"] == 9


def test_starrocks_and_its_star_manager(tmp_path: Path) -> None:
    star = {number: encode_json_journal(5, b"{}") for number in range(1, 8)}
    meta = made(tmp_path / "fe", {**rolled(1, 40, 20, doris=False), "starmgr_1": star}, batch=4)
    found = document("list", meta)
    assert (found["product"], found["verdict"], found["last"]) == ("starrocks", "no-image", 40)
    assert [(one["name"], one["journals"]) for one in found["starmgr"]] == [("starmgr_1", 7)]
    assert document("check", meta)["records"] == []
    assert document("check", meta, "--starmgr")["records"] == []
    assert len(document("show", meta, "--starmgr")["records"]) == 7
    shown = document("show", meta, "1..5")["records"]
    assert [one["padding"] for one in shown] == [0] * 5
    assert shown[0]["txn"] == shown[3]["txn"] != shown[4]["txn"]


def test_compare(tmp_path: Path) -> None:
    """A fork between two masters: the majority's journals count, not the longer ones."""
    other = {number: encode_json_journal(1, b'{"of":"the other master"}') for number in range(41, 70)}
    made(tmp_path / "a", {"1": journals(1, 50)}, epochs=3)
    made(tmp_path / "b", {"1": {number: value.rstrip(b"\0") for number, value in journals(1, 45).items()}}, epochs=3)
    made(tmp_path / "c", {"1": {**journals(1, 40), **other}}, epochs=3)
    result = run("journal", "compare", tmp_path / "a", tmp_path / "b", tmp_path / "c", "--json")
    assert result.code == exits.FINDINGS
    assert_valid("journal compare", result.out, "json")
    nodes = result.json()["records"]
    assert [(one["verdict"], one["common"], one["fork"], one["behind"], one["own"]) for one in nodes] == [
        ("start", 50, None, 0, 0), ("behind", 45, None, 5, 0), ("forked", 40, 41, 10, 29),
    ]  # fmt: skip
    summary = result.json()["summary"]
    assert (summary["start"], summary["followers"]) == (str(tmp_path / "a" / "bdb"), 2)
    (looked_at,) = [step for step in summary["steps"] if "29 journals" in step]
    call = looked_at.partition(": jetool ")[2].split()
    assert run(*call, "--json").json()["summary"]["journals"] == 29
    assert any("metadata_failure_recovery" in step for step in summary["steps"])
    text = run("journal", "compare", tmp_path / "a", tmp_path / "c").text
    assert "forked" in text
    assert "  steps      stop all frontends" in text
    assert "\n             take the setting out again" in text


def test_compare_goes_on_after_a_hole(tmp_path: Path) -> None:
    """Nothing is lost where a journal is missing and the others are the same; a node with a hole is no start."""
    made(tmp_path / "a", {"1": without(journals(1, 50), 20, 30)}, epochs=3)
    made(tmp_path / "b", {"1": without(journals(1, 55), 40)}, epochs=2)
    made(tmp_path / "c", {"1": journals(1, 50)}, epochs=2)
    result = run("journal", "compare", tmp_path / "a", tmp_path / "b", tmp_path / "c", "--json")
    assert [
        (one["verdict"], one["common"], one["missing"], one["behind"], one["own"]) for one in result.json()["records"]
    ] == [("missing", 19, 20, 2, 0), ("missing", 39, 40, 1, 5), ("start", 50, None, 0, 0)]
    looked_at = [step for step in result.json()["summary"]["steps"] if "only" in step]
    assert len(looked_at) == 1
    assert "(5 journals)" in looked_at[0]
    # Those before the first of another are in its image.
    made(tmp_path / "d", {"101": journals(101, 10)}, epochs=2)
    apart = document("compare", tmp_path / "c", tmp_path / "d")["records"]
    assert [(one["verdict"], one["behind"], one["own"]) for one in apart] == [("behind", 10, 0), ("start", 0, 0)]


def test_check_says_what_starrocks_would_skip(tmp_path: Path) -> None:
    broken = {number: struct.pack(">hi", code, 40) + b'{"a' for number, code in ((7, 12001), (9, 10071))}
    meta = made(tmp_path / "fe", {"1": {**journals(1, 20, doris=False), **broken}})
    lines = run("journal", "check", meta).text.splitlines()
    assert (
        "7  journal 7: its payload begins as JSON but is not JSON  replay stops here; StarRocks would not skip"
        in lines[2]
    )
    assert "replay stops here; StarRocks may be told to skip it" in lines[3]
    assert lines[0].startswith("damaged: replay stops at 7: journal 7: its payload begins as JSON but is not JSON; 2 ")


def test_compare_finds_a_hole_and_epochs_decide(tmp_path: Path) -> None:
    made(tmp_path / "a", {"1": without(journals(1, 50), 20)}, epochs=2)
    made(tmp_path / "b", {"1": journals(1, 50)}, epochs=3)
    nodes = document("compare", tmp_path / "a", tmp_path / "b")["records"]
    assert [(one["verdict"], one["missing"], one["common"]) for one in nodes] == [
        ("missing", 20, 19),
        ("start", None, 50),
    ]
    assert run("journal", "compare", tmp_path / "b", tmp_path / "b").code == exits.DONE


def test_an_observer_is_not_started_from(tmp_path: Path) -> None:
    write_images(made(tmp_path / "a", {"1": journals(1, 50)}), (), role="OBSERVER")
    write_images(made(tmp_path / "b", {"1": journals(1, 40)}), ())
    found = document("compare", tmp_path / "a", tmp_path / "b")
    assert [one["verdict"] for one in found["records"]] == ["ahead", "start"]


def test_stats(healthy: Path) -> None:
    found = document("stats", healthy)
    assert found["summary"]["journals"] == 250
    by_name = {one["name"]: one["journals"] for one in found["records"]}
    assert by_name["TIMESTAMP"] == 25
    assert sum(by_name.values()) == 250
    assert sum(one["bytes"] for one in found["records"]) == found["summary"]["bytes"]
    hours = document("stats", healthy, "--by", "hour")["records"]
    assert [(one["hour"], one["journals"]) for one in hours] == [(None, 9), ("2026-11-21T00:00:00.000Z", 241)]
    assert document("stats", healthy, "1..9")["summary"]["journals"] == 9


def test_plan_skip(healthy: Path, tmp_path: Path) -> None:
    found = document("plan-skip", healthy, "6", "5")
    assert [one["id"] for one in found["records"]] == [5, 6]
    assert found["summary"]["setting"] == "force_skip_journal_ids=5,6"
    star = made(tmp_path / "fe", rolled(1, 40, 20, doris=False))
    result = run("journal", "plan-skip", star, "3", "4", "--json")
    assert result.code == exits.FINDINGS
    assert_valid("journal plan-skip", result.out, "json")
    summary = result.json()["summary"]
    assert (summary["refused"], summary["setting"]) == ([3, 4], "metadata_journal_skip_bad_journal_ids=3,4")
    skippable = document("plan-skip", star, "5")["summary"]
    assert (skippable["refused"], skippable["instead"]) == ([], "metadata_journal_ignore_replay_failure=true")
    assert run("journal", "plan-skip", star, "999").code == exits.NOT_FOUND


def state_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.jdb"))}


def test_truncate(tmp_path: Path) -> None:
    meta = made(tmp_path / "fe", rolled(1, 250, 100), replicated=True)
    before = state_of(meta / "bdb")
    preview = run("journal", "truncate", meta, "--after", "180", "-n", "--json")
    assert preview.code == exits.DATA_GIVEN_UP
    assert_valid("journal truncate", preview.out, "json")
    plan = preview.json()
    assert (plan["after"], plan["journals"], plan["last"], plan["changed"]) == (180, 70, 250, True)
    assert [one["id"] for one in plan["first_lost"]] == list(range(181, 201))
    assert sum(one["journals"] for one in plan["operations"]) == 70
    assert state_of(meta / "bdb") == before
    assert run("journal", "truncate", meta, "--after", "180").code == exits.REFUSED
    assert state_of(meta / "bdb") == before
    done = run("journal", "truncate", meta, "--after", "180", "--plan", plan["plan"], "--yes", "--json")
    assert done.code == exits.DATA_GIVEN_UP, done.err
    found = document("list", meta)
    assert (found["last"], found["journals"], [one["name"] for one in found["databases"]]) == (180, 180, ["1", "101"])
    assert document("check", meta)["records"] == []
    assert run("verify", meta / "bdb", "--full").code == 0
    assert run("undo", meta / "bdb").code == 0
    assert document("list", meta)["last"] == 250


def test_truncate_within_a_transaction_is_refused(tmp_path: Path) -> None:
    meta = made(tmp_path / "fe", rolled(1, 40, 20, doris=False), batch=4)
    before = state_of(meta / "bdb")
    result = run("journal", "truncate", meta, "--after", "6", "--yes", "--json")
    assert (result.code, result.error()["hint"]) == (
        exits.REFUSED, "the transaction ends with journal 8: --after 8 keeps it",
    )  # fmt: skip
    assert state_of(meta / "bdb") == before
    assert run("journal", "truncate", meta, "--after", "8", "--yes").code == exits.DATA_GIVEN_UP
    assert document("list", meta)["last"] == 8


def test_truncate_at_the_end_changes_nothing(tmp_path: Path) -> None:
    meta = made(tmp_path / "fe", {"1": journals(1, 10)})
    assert run("journal", "truncate", meta, "--after", "11", "--yes").code == exits.NOT_FOUND
    assert run("journal", "list", meta, "--json").json()["last"] == 10


def test_times_of_journals_that_the_cleaner_moved(tmp_path: Path) -> None:
    """Without its transaction a journal has the time of the clock before it."""
    meta = made(tmp_path / "fe", {"1": journals(1, 40)})
    with Environment(meta / "bdb") as env, env.open_database("1") as db:
        assert db.get(journal_key(10)) == value_of(10)
    found = document("show", meta, "35")["records"][0]
    assert found["txn"] is not None
    assert found["time"] is not None


def test_info_names_what_it_belongs_to(healthy: Path, tmp_path: Path) -> None:
    result = run("info", healthy / "bdb", "--json")
    assert_valid("info", result.out, "json")
    assert result.json()["belongs_to"] == "Doris frontend (journals)"
    assert "belongs to" in run("info", healthy / "bdb").text
    assert "belongs_to" not in run("info", healthy / "bdb", "--quick", "--json").json()
    assert run("create", tmp_path / "env").code == 0
    assert "belongs_to" not in run("info", tmp_path / "env", "--json").json()


def test_order_and_number_of_journals(healthy: Path) -> None:
    def ids(*words: str) -> list[int]:
        return [one["id"] for one in document("show", healthy, *words)["records"]]

    assert ids("--reverse") == list(range(250, 0, -1))
    assert ids("--tail", "3") == [248, 249, 250]
    assert ids("--tail", "3", "--reverse") == ids("--reverse", "--limit", "3") == [250, 249, 248]
    assert ids("95..105", "--tail", "10") == list(range(96, 106))
    assert ids("95..105", "--reverse") == list(range(105, 94, -1))
    assert ids("--tail", "1000") == list(range(1, 251))
    assert document("show", healthy, "--tail", "3")["summary"]["complete"] is False
    assert document("show", healthy, "--tail", "250")["summary"]["complete"] is True
    forward = document("show", healthy, "40..60")["records"]
    assert document("show", healthy, "40..60", "--reverse")["records"] == forward[::-1]
    word = str(forward[3]["op"])
    assert ids("--op", word, "--tail", "2") == ids("--op", word)[-2:]
    assert run("journal", "show", healthy, "--tail", "1", "--limit", "1").code == 2


def test_the_last_journals_after_a_long_hole(tmp_path: Path) -> None:
    """A hole of any length is passed over in growing steps."""
    far = 1 << 50
    numbers = [*range(1, 6), *range(far, far + 700)]
    meta = made(tmp_path / "meta", {"1": {number: value_of(1) for number in numbers}})
    shown = [one["id"] for one in document("show", meta, "--reverse")["records"]]
    assert shown == numbers[::-1]
    assert [one["id"] for one in document("show", meta, "--tail", "701")["records"]] == numbers[-701:]


def test_journals_after_damage_are_the_last(tmp_path: Path) -> None:
    """In the opposite order these come first."""
    meta = made(tmp_path / "meta", rolled(1, 250, 100))
    damage_tail(meta / "bdb", "commit")
    forward = document("show", meta)["records"]
    assert any(not one["seen"] for one in forward)
    assert document("show", meta, "--reverse")["records"] == forward[::-1]
    assert document("show", meta, "--tail", "5")["records"] == forward[-5:]
