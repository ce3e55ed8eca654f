"""``--comparator``: a real environment in the order of two Java classes, halted with records that no node has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import corpus
from tests.support.environments.copies import state_of
from tests.support.harness import run

NAMED = ("--comparator", "back=from-last", "--comparator", "fall=descending")
WRITERS = [
    ("recover",), ("recover", "-n"), ("checkpoint", "--yes"), ("clean", "--yes"),
    ("delete", "--db", "stock", "0x6b30303030303030"),
    ("put", "--db", "stock", "1", "2"), ("put", "--db", "back", "1", "2"),
]  # fmt: skip


@pytest.fixture
def halted() -> Path:
    return corpus.path() / "je-healthy" / "comparators-halted"


def files_of(env: Path) -> dict[str, object]:
    # The lock file came and went, and with it the time of the directory.
    return {path: state for path, state in state_of(env).items() if path != "."}


def called(env: Path, words: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return (words[0], str(env), *words[1:], *more)


@pytest.mark.parametrize("words", WRITERS, ids=" ".join)
def test_nothing_is_written_without_the_order(halted: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    env = corpus.copy(halted / "env", tmp_path / "env")
    before = files_of(env)
    done = run(*called(env, words))
    assert done.code == 5, done.err
    assert "the database 'fall' is in the order of a Java class" in done.err
    assert "Life$Falling" in done.err
    assert "--comparator fall=NAME" in done.err
    assert files_of(env) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [env.name]


@pytest.mark.parametrize("words", WRITERS, ids=" ".join)
def test_with_the_order_all_of_it_works(halted: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    env = corpus.copy(halted / "env", tmp_path / "env")
    done = run(*called(env, words, *NAMED))
    assert done.code == 0, done.err
    checked = run("verify", str(env), "--full", "--json", *NAMED)
    said = json.loads(checked.out)
    assert checked.code == 0, said["findings"]
    assert not [name for name in said["summary"]["not_checked"] if "key order" in name]


def test_what_is_typed_is_checked_first(halted: Path, tmp_path: Path) -> None:
    env = corpus.copy(halted / "env", tmp_path / "env")
    before = files_of(env)
    for words, code, text in (
        (("--comparator", "fall"), 2, "names no order"),
        (("--comparator", "fall=dings"), 2, "no order 'dings'"),
        (("--comparator", "nowhere=decimal"), 4, "no database 'nowhere'"),
        (("--comparator", "stock=decimal"), 2, "in the order of their bytes"),
        (("--comparator", "fall=descending,descending"), 2, "the duplicates of 'fall'"),
        ((*NAMED[:2], "--comparator", "fall=from-last"), 2, "the order given for 'fall' is not the one"),
    ):
        done = run("recover", str(env), *words)
        assert (done.code, text in done.err) == (code, True), done.err
    assert files_of(env) == before


def test_readers_read_all_and_say_what_is_not_in_order(halted: Path) -> None:
    env = halted / "env"
    expected = json.loads((halted / "manifest.json").read_text())["records"]["fall"]["count"]
    done = run("scan", str(env), "--db", "fall", "--format", "ndjson")
    assert done.code == 0
    assert len(done.out.splitlines()) - 1 == expected
    assert "the database 'fall' is in the order of a Java class that is not known here" in done.err
    keys = [json.loads(line)["key"] for line in done.out.splitlines()[:-1]]
    ordered = run("scan", str(env), "--db", "fall", "--format", "ndjson", *NAMED)
    assert ordered.err == ""
    in_order = [json.loads(line)["key"] for line in ordered.out.splitlines()[:-1]]
    assert sorted(keys) == sorted(in_order)
    assert in_order == sorted(in_order, reverse=True)
    checked = run("verify", str(env), "--full", "--json")
    assert checked.code == 0
    assert [name for name in json.loads(checked.out)["summary"]["not_checked"] if "key order of fall" in name]


def test_a_key_that_no_node_has_is_not_said_to_be_absent(halted: Path) -> None:
    assert run("get", str(halted / "env"), "--db", "fall", "nothing").code == 5
    assert run("get", str(halted / "env"), "--db", "fall", "nothing", *NAMED).code == 4


@pytest.mark.parametrize(
    "words",
    [("info",), ("dbs", "--count"), ("space",), ("space", "--why"), ("space", "--recalc"), ("missing",), ("txns",),
     ("dump", "--db", "fall"), ("dump-log", "--explain", "--tail", "5"), ("rollbacks",), ("recover", "--estimate"),
     ("verify", "--full"), ("crash", "--matrix", "3")],
    ids=" ".join,
)  # fmt: skip
def test_what_writes_nothing_needs_no_order(halted: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    env = corpus.copy(halted / "env", tmp_path / "env")
    before = state_of(env)
    done = run(*called(env, words))
    assert done.code == 0, done.err
    assert state_of(env) == before
