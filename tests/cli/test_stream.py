"""``jetool stream``: what it prints and writes of a group that is played; how it goes on, and how it ends."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.contents.journals import journal_key
from engine.fields import named_row, shape_of
from engine.inspect.contents import decoding_by_name
from engine.rep.changes.transactions import RecordChange
from jetool.commands.stream import rows
from jetool.commands.stream.files import PART, STATE, ChangeFiles
from jetool.frame import exits
from jetool.output.base import StreamLayout
from jetool.output.jsonl import NdjsonEncoder
from jetool.output.shape import PLAIN
from tests.support.environments.frontends import value_of
from tests.support.groups.group_double import GroupDouble
from tests.support.groups.streamed import group, rows_of, stream
from tests.support.groups.subscribers import forked, operations
from tests.support.harness import assert_valid

__all__ = ["group"]
IDLE = ("--from", "begin", "--fast", "--until-idle", "0")


@pytest.mark.parametrize("form", ["ndjson", "json", "csv", "text"])
def test_every_format(group: GroupDouble, form: str) -> None:
    result = stream(*IDLE, "--format", form)
    assert result.code == exits.DONE, result.err
    if form in ("ndjson", "json"):
        assert_valid("stream", result.out, form)
    assert b"create_database" in result.out
    assert b"67" in result.out


def test_what_is_printed(group: GroupDouble) -> None:
    printed = rows_of(stream(*IDLE).out)
    assert printed[0] == {
        "rec": "change", "vlsn": 17, "txn": -18, "op": "create_database", "db": "alpha", "db_id": -258, "key": None,
        "data": None, "expires": None, "old_name": None,
    }  # fmt: skip
    assert printed[1]["rec"] == "transaction"
    assert printed[1]["changes"] == 1
    assert [row["old_name"] for row in printed if row["rec"] == "change" and row["op"] == "rename_database"] == ["tmp"]
    assert printed[-1] == {
        "rec": "summary", "group": "WIREGRP", "transactions": 27, "changes": 30, "retractions": 0, "connections": 1,
        "last_vlsn": 140, "ended": "idle",
    }  # fmt: skip


def test_durable_is_the_default(group: GroupDouble) -> None:
    assert rows_of(stream("--from", "begin", "--until-idle", "0").out)[-1]["last_vlsn"] == 139


def test_the_fast_lines_are_those_of_the_encoder() -> None:
    plain = NdjsonEncoder(StreamLayout((shape_of(rows.StreamedChange),), None, PLAIN))
    changes = [
        RecordChange(5, "insert", -258, 'na"me\u2028\udc80', b"\x00k", b"v", 0, None),
        RecordChange(6, "delete", -258, None, b"", None, 0, None),
        RecordChange(7, "update", 300, "x", b"k", b"", -20_000, None),
        RecordChange(8, "rename_database", -258, "new", None, None, 0, "old"),
    ]
    names: dict[str | None, str] = {}
    wanted = plain.rows([named_row(rows.streamed_change(one, -9)) for one in changes])
    assert rows.fast_lines(changes, -9, names) == wanted
    assert rows.fast_lines(changes, -9, names) == wanted


def test_selection(group: GroupDouble) -> None:
    printed = rows_of(stream(*IDLE, "--db", "beta").out)
    assert {row["db"] for row in printed if row["rec"] == "change"} == {"beta"}
    assert [row["changes"] for row in printed if row["rec"] == "transaction"] == [1, 1]
    by_id = rows_of(stream(*IDLE, "--db", "id:-259").out)
    assert by_id == printed
    # A number is a name, as frontends have them.
    number = stream(*IDLE, "--db", "-259")
    assert b'"change"' not in number.out
    assert "-259 is the id of database 'beta', and --db takes names" in number.err
    everything = rows_of(stream(*IDLE, "--internal").out)
    assert {"_jeRepGroupDB", "_jeExtinctScansDb"} <= {row.get("db") for row in everything}
    readable = rows_of(stream(*IDLE, "--key-format", "utf8", "--fields", "key", "--db", "beta").out)
    assert readable[2] == {"rec": "change", "key": "tx1"}


def test_names_that_are_not_known(group: GroupDouble) -> None:
    result = stream("--from", "24", "--fast", "--until-idle", "0", "--db", "alpha")
    assert result.out.count(b'"change"') == 0
    assert "has not told the name of database -258" in result.err
    assert result.err.count("database -258;") == 1


def test_a_limit_and_a_state(group: GroupDouble, tmp_path: Path) -> None:
    state = tmp_path / "state"
    whole = [row for row in rows_of(stream(*IDLE).out) if row["rec"] != "summary"]
    got = []
    for _ in range(20):
        result = stream(*IDLE, "--state", state, "--limit", "2")
        assert result.code == exits.DONE
        *some, summary = rows_of(result.out)
        got += some
        if summary["ended"] == "idle":
            break
    assert got == whole
    # The file is what goes on; where a new stream would begin does not matter.
    assert len(rows_of(stream("--from", state, "--fast", "--until-idle", "0").out)) == 1


def test_files_have_each_transaction_once(group: GroupDouble, tmp_path: Path) -> None:
    whole = [row for row in rows_of(stream(*IDLE).out) if row["rec"] != "summary"]
    to = tmp_path / "changes"
    result = stream(*IDLE, "--to", to, "--file-size", "900", "--limit", "9")
    assert_valid("stream", result.out, "ndjson")
    listed = rows_of(result.out)
    assert listed[0]["rec"] == "file"
    assert os.stat(listed[0]["path"]).st_size == listed[0]["bytes"]
    stream(*IDLE, "--to", to, "--file-size", "900")
    names = sorted(path.name for path in to.iterdir() if path.name.startswith("changes-"))
    assert len(names) > 3
    assert [row for name in names for row in rows_of((to / name).read_text())] == whole
    assert rows_of((to / names[-1]).read_text())[-1]["vlsn"] == 139


@pytest.mark.parametrize("point", range(12))
def test_files_after_a_kill_at_each_step(
    group: GroupDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: int
) -> None:
    whole = [row for row in rows_of(stream(*IDLE).out) if row["rec"] != "summary"]
    to = tmp_path / "changes"
    steps = iter(range(point + 1))

    def dying(method: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object) -> object:
            if next(steps, None) is None:
                raise KeyboardInterrupt
            return method(*args)

        return call

    with monkeypatch.context() as patched:
        for name in ("rename", "sync_directory"):
            storage = "engine.storage.disk.DiskStorage"
            from engine.storage.disk import DiskStorage

            patched.setattr(f"{storage}.{name}", dying(getattr(DiskStorage, name)))
        assert stream(*IDLE, "--to", to, "--file-size", "2000").code == exits.INTERRUPTED
    assert stream(*IDLE, "--to", to, "--file-size", "2000").code == exits.DONE
    names = sorted(path.name for path in to.iterdir() if path.name.startswith("changes-"))
    assert [row for name in names for row in rows_of((to / name).read_text())] == whole
    assert not (to / PART).exists()


def test_a_fork_is_printed(group: GroupDouble, tmp_path: Path) -> None:
    log = operations()
    group.nodes[0].entries = log[:76]
    state = tmp_path / "state"
    stream(*IDLE, "--state", state)
    group.nodes[0].entries = forked(log, 60)
    result = stream(*IDLE, "--state", state)
    assert rows_of(result.out)[0] == {"rec": "retraction", "to_vlsn": 60, "from_vlsn": 76, "commits": 8}
    assert rows_of(result.out)[-1]["retractions"] == 1
    assert "another history" in result.err
    assert_valid("stream", result.out, "ndjson")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_in_order(group: GroupDouble, tmp_path: Path, number: int) -> None:
    group.quiet = lambda: os.kill(os.getpid(), number)
    before = signal.getsignal(number)
    result = stream("--from", "begin", "--fast", "--state", tmp_path / "state")
    assert (result.code, rows_of(result.out)[-1]["ended"]) == (exits.DONE, "signal")
    assert signal.getsignal(number) == before
    assert json.loads((tmp_path / "state").read_text())["commits"][-1][0] == 140


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--format", "json"), exits.USAGE, "has no end"),
        (("--state", "s", "--to", "d"), exits.USAGE, "keeps its own state"),
        (("--state", "s", "--from", "t"), exits.USAGE, "given twice"),
        (("--file-size", "5"), exits.USAGE, "are for --out"),
        (("--group", "a|b"), exits.USAGE, "name of a group"),
        (("--from", "no-such-file"), exits.NOT_FOUND, "no such state file"),
        (("--group", "OTHER"), exits.REFUSED, "Group name mismatch"),
        (("--from", "500"), exits.NOT_FOUND, "not come to VLSN 500"),
        (("--to", "tests"), exits.REFUSED, "not empty"),
    ],
)
def test_what_is_refused(group: GroupDouble, words: tuple[str, ...], code: int, said: str) -> None:
    result = stream(*words)
    assert result.code == code
    assert said in result.err
    assert result.out == b""


def test_a_gap_has_a_way_on(group: GroupDouble) -> None:
    group.nodes[0].entries = operations()[30:]
    result = stream("--from", "5")
    assert result.code == exits.INCOMPLETE
    assert "does not have VLSN 5 any more" in result.err
    assert "jetool backup" in result.err


def test_two_runs_and_one_directory(group: GroupDouble, tmp_path: Path) -> None:
    files = ChangeFiles(str(tmp_path / "d"), "ndjson", 5, 5)
    try:
        result = stream("--to", tmp_path / "d")
        assert result.code == exits.REFUSED, result.err
    finally:
        files.close()
    assert not (tmp_path / "d" / STATE).exists()


def test_a_change_is_decoded() -> None:
    plan = decoding_by_name("doris")
    put = rows.streamed_change(RecordChange(5, "insert", -258, "1", journal_key(7), value_of(7), 0, None), -9, plan)
    assert (put.decoded_key, put.known) == ({"id": 7}, True)
    assert isinstance(put.decoded_data, dict)
    gone = rows.streamed_change(RecordChange(6, "delete", -258, "1", journal_key(7), None, 0, None), -9, plan)
    assert gone.decoded_data is None
    # A change of a database, a range, and a record of a database without a name have nothing to decode.
    for change in (
        RecordChange(7, "rename_database", -258, "new", None, None, 0, "old"),
        RecordChange(8, "discard", -258, "1", journal_key(1), journal_key(5), 0, None),
        RecordChange(9, "insert", -258, None, journal_key(1), b"", 0, None),
    ):
        assert rows.streamed_change(change, -9, plan) == rows.streamed_change(change, -9)


@pytest.mark.parametrize("form", ["ndjson", "json", "csv", "text"])
def test_decoded_changes_in_every_format(group: GroupDouble, form: str) -> None:
    result = stream(*IDLE, "--decode", "doris", "--format", form)
    assert result.code == exits.DONE, result.err
    assert b"hex" in result.out
    if form in ("ndjson", "json"):
        assert_valid("stream", result.out, form)
    if form == "ndjson":
        printed = rows_of(result.out)
        plain = rows_of(stream(*IDLE).out)
        added = ("decoded_key", "decoded_data", "known")
        assert [{name: value for name, value in row.items() if name not in added} for row in printed] == plain
        assert {row["known"] for row in printed if row.get("op") == "insert"} == {False}


def test_decoded_changes_in_files(group: GroupDouble, tmp_path: Path) -> None:
    assert stream(*IDLE, "--out", tmp_path / "to", "--decode", "doris").code == exits.DONE
    written = [row for path in sorted((tmp_path / "to").glob("*.ndjson")) for row in rows_of(path.read_text())]
    assert any("decoded_key" in row for row in written)
    assert stream(*IDLE, "--out", tmp_path / "avro", "--file-format", "avro", "--decode", "doris").code == exits.USAGE
    refused = stream(*IDLE, "--decode", "auto")
    assert refused.code == exits.USAGE
    assert "cannot recognise the application from a stream" in refused.err
    assert not (tmp_path / "avro").exists()
