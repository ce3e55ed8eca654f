"""What an operator meets at 3 a.m.: words that are found, keys as typed, who holds the lock, a moving tail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema_rs
import pytest

from engine.db.environment import Environment
from engine.inspect import survey
from engine.log.files import LogProgress
from engine.storage import posix_locks
from jetool.frame import cli, exits, schemas, table
from jetool.output import text
from jetool.output.shape import record_schema
from tests.support import corpus, harness
from tests.support.harness import run

HOLD = """
import sys, time
from engine import Environment
with Environment(sys.argv[1]):
    print("open", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def env(tmp_path: Path) -> Path:
    path = tmp_path / "env"
    assert run("create", path, "--db", "users").code == 0
    assert run("put", path, "ada", "1", "--db", "users").code == 0
    return path


def test_an_option_with_a_value_of_choice_may_stand_before_the_environment(env: Path) -> None:
    counted = run("dump-log", env, "--stats")
    assert counted.code == 0
    assert run("dump-log", "--stats", env) == counted
    assert run("dump-log", "--stats=type", env) == counted
    assert run("dump-log", "--stats", "file", env) == run("dump-log", env, "--stats", "file") != counted
    assert run("dump-log", "--stats", "--", env) == counted


def _choice_options() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for name, command in cli.commands():
        for param in command.params:
            if isinstance(param, click.Option) and isinstance(param.type, click.Choice):
                yield from ((name, word, param.type.choices) for word in param.opts)


@pytest.mark.parametrize(("name", "word", "choices"), list(_choice_options()))
def test_a_wrong_choice_is_repeated_as_typed(name: str, word: str, choices: tuple[str, ...]) -> None:
    listed = ", ".join(map(repr, choices))
    said = f"jetool: error: Invalid value for {word!r}: 'wrong' is not one of {listed}\n  next: jetool {name} --help\n"
    assert run(*name.split(), "/data/env", f"{word}=wrong").err == said
    # After --stats, which needs no value, another word is the environment.
    if word != "--stats":
        assert run(*name.split(), "/data/env", word, "wrong").err == said


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("print", "dump-log"),
        ("check", "verify"),
        ("stat", "info --stats"),
        ("repair", "recover"),
        ("restore-log", "undo"),
        ("DbDump", "dump"),
        ("DbVerify", "verify --full"),
        ("com.sleepycat.je.util.DbPrintLog", "dump-log"),
    ],
)
def test_words_of_other_tools_point_to_the_right_command(word: str, right: str) -> None:
    result = run(word, "/data/env")
    assert result.code == 2
    assert f"{word!r} is not a command of jetool; what you look for is jetool {right}" in result.err


def test_every_command_that_a_word_points_to_is_there() -> None:
    names = {name for name, _ in cli.commands()}
    options = {name: {o for param in command.params for o in param.opts} for name, command in cli.commands()}
    taken = {row.name for row in table.COMMANDS}
    for word in table.ELSEWHERE:
        right = table.elsewhere(word)
        if right is None:
            continue
        (*verbs,) = [part for part in right.split() if not part.startswith("-") and not part.isdigit()]
        assert " ".join(verbs) in names, (word, right)
        assert {part for part in right.split() if part.startswith("-")} <= options[" ".join(verbs)], (word, right)
        assert word in taken or run(word).code == 2


def test_a_message_shows_a_key_as_it_was_typed(env: Path) -> None:
    assert "the key grace in" in run("get", env, "grace", "--db", "users").err
    assert "the key 0x67 in" in run("get", env, "0x67", "--db", "users", "--key-format", "hex").err
    assert "the key 7 in" in run("delete", env, "7", "--db", "users", "--key-format", "tuple-long").err
    assert "a record of the key ada in" in run("put", env, "ada", "2", "--db", "users", "--no-overwrite").err
    assert "the key grace in" in run("history", env, "grace", "--db", "users").err


def test_who_holds_the_lock_is_named_with_the_command_line(env: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(env)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=harness.environment(), text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            refused = run("put", env, "ada", "2", "--db", "users")
            seen = run("scan", env, "--db", "users")
        finally:
            process.kill()
    assert refused.code == 3
    named = f"process {process.pid} ({sys.executable} -c"
    if sys.platform == "linux":
        assert f"a lock held by {named}" in refused.err
        assert f"{named}" in seen.err
    assert "has the environment open for writing" in seen.err


def test_the_words_for_a_holder_are_bounded() -> None:
    assert posix_locks.holder_in_words(0) == posix_locks.holder_in_words(None) == "another process"
    assert posix_locks.holder_in_words(os.getpid()).startswith(f"process {os.getpid()} (")
    assert len(posix_locks.holder_in_words(os.getpid())) < 200
    assert posix_locks.holder_in_words(1 << 30) == f"process {1 << 30}"


def test_a_log_that_grows_while_it_is_read_is_named(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer appends between the first and the last look of a reader."""
    reader = survey.survey

    def writing(*words: Any, **options: Any) -> object:
        with Environment(str(env)) as opened, opened.open_database("users") as users, opened.begin() as txn:
            users.put(b"k", b"v", txn)
        return reader(*words, **options)

    monkeypatch.setattr("jetool.commands.info.command.survey", writing)
    moved = run("info", env)
    assert moved.code == 0
    assert f"the tail is moving in {env}: " in moved.err
    monkeypatch.undo()
    assert "the tail is moving" not in run("info", env).err


def test_recover_says_first_what_it_does() -> None:
    text = run("recover", "--help").text
    about = " ".join(text.split("\n\n")[1].split())
    assert about.startswith("Cut off a torn tail, redo committed work after the last checkpoint, undo uncommitted")


def test_counting_and_walking_tell_how_far_they_are(env: Path) -> None:
    """Records and percent, up to the end, for a program that watches."""
    progress = jsonschema_rs.Draft202012Validator(record_schema(schemas.ProgressMessage, with_rec=True))
    for words, step in (
        (("dbs", "--count"), "count"),
        (("verify", "--full"), "trees"),
        (("recover",), "REDO_DATA_RECORDS"),
    ):
        result = run(words[0], env, *words[1:], "--progress", "json")
        assert result.code == 0
        told = [json.loads(line) for line in result.err.splitlines() if line.startswith('{"rec":"progress"')]
        for line in told:
            progress.validate(line)
        last = [line for line in told if line["step"] == step][-1]
        assert (last["percent"], last["left_ms"]) == (100.0, 0), words
        assert last.get("records", 1) >= 1


@pytest.mark.parametrize(
    ("words", "step"),
    [
        (("dump", "--db", "users"), "write"), (("scan", "--db", "users"), "write"), (("txns",), "write"),
        (("info",), "read log"), (("salvage", "-n", "--to", "nowhere"), "judge"), (("dump-log", "--reverse"), "dump"),
        (("dump-log", "--tail", "99"), "dump"), (("dump-log", "--limit", "99"), "dump"), (("space",), "count files"),
        (("missing",), "trees"), (("diff", "--from", "ckpt"), "check logs"),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_what_takes_long_on_large_logs_tells_how_far_it_is(
    env: Path, words: tuple[str, ...], step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    along = LogProgress.along

    def often(told: LogProgress, items: Iterable[Any], *, every: int | None = None) -> Iterator[Any]:
        return along(told, items, every=every or 4)

    monkeypatch.setattr(LogProgress, "along", often)
    result = run(words[0], env, *words[1:], "--progress", "json")
    assert result.code in (exits.DONE, exits.FINDINGS), result.err
    told = [json.loads(line) for line in result.err.splitlines() if line.startswith('{"rec":"progress"')]
    assert step in {line["step"] for line in told}


# Tables, documents, streams with columns and with lines of their own.
LOOKS = (
    ("info",), ("dbs", "--internal"), ("vlsn", "map"), ("vlsn", "range"), ("vlsn", "buckets"), ("rollbacks", "--txns"),
    ("txns", "--limit", "9"), ("verify",), ("dump-log", "--stats"), ("recover", "-n"),
)  # fmt: skip


@pytest.mark.parametrize("words", LOOKS, ids=lambda words: words[0])
@pytest.mark.parametrize("width", [80, 200])
def test_text_fits_the_terminal(words: tuple[str, ...], width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is wider but for a word that is, and no word is cut."""
    env = corpus.path() / "je/je-18.3.20/ha-rollback-thrice/node2/env"
    monkeypatch.setenv("COLUMNS", str(width))
    shown = run(*words, env, "--color", "never", "--progress", "never", terminal=True)
    assert shown.code in (0, 1)
    for line in shown.text.splitlines():
        assert len(line) <= width or max(map(len, line.split())) > width - 40, line


def test_columns_of_a_stream_that_do_not_fit_follow_their_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    env = corpus.path() / "je/je-18.3.20/ha-rollback-thrice/node2/env"
    lines = run("txns", env, "--limit", "3", "--color", "never", terminal=True).text.splitlines()
    assert [line.split()[0] for line in lines[2:7:2]] == ["records"] * 3
    assert next(line for line in lines[7:] if line.startswith("  ")).split() == ["committed", "116"]


def test_lines_are_folded_between_words() -> None:
    words = "  remedy: \x1b[31mcut\x1b[0m the log at 0x1f/0x2a3c, then jetool recover " + "/path" * 10
    shown = text.fold(words, 40)
    assert " ".join(shown.split()) == " ".join(words.split()), "nothing is lost, and no word is cut"
    plain = shown.replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert all(len(line) <= 40 or " " not in line.strip() for line in plain.splitlines())
    assert shown.splitlines()[1].startswith("      ")
    assert text.fold(words, None) == text.fold(words, 200) == words


def test_columns_without_a_value_are_named(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("dbs", env, "--color", "never", terminal=True).text
    said = "no in every row: temporary, internal; no value in any row: comparator, records"
    assert said in " ".join(shown.split())
    monkeypatch.setenv("COLUMNS", "200")
    assert "every row" not in run("dbs", env, "--color", "never", terminal=True).text
    monkeypatch.setenv("COLUMNS", "80")
    assert "every row" not in run("dbs", env).text, "a script looks for whole lines"


def test_columns_with_one_value_are_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    healthy = corpus.path() / "je/je-18.3.20/txn-crash/env"
    shown = run("dump-log", healthy, "--stats", "--color", "never", terminal=True).text.splitlines()
    assert shown[-1] == "in every row: before ckpt end 0"
    assert next(line for line in shown if line.startswith("total")).split() == (
        ["total", "1221", "25", "122690", "26", "7916", "100", "100"]
    )
    group = corpus.path() / "je/je-18.3.20/ha-group/node1/env"
    members = run("group", "show", group, "--color", "never", terminal=True).text
    assert "no in every row: removed; in every row: acknowledged yes, je version 18.3.20" in members
    assert run("vlsn", "gaps", group, "--color", "never", terminal=True).text.splitlines()[1:] == ["none"]


def test_info_has_a_map_of_the_files(tmp_path: Path) -> None:
    corpus.copy(corpus.path() / "je/je-18.3.20/corrupt-middle/env", tmp_path / "env")
    files = sorted((tmp_path / "env").glob("*.jdb"))
    assert run("info", tmp_path / "env", "--json").json()["log_map"] == "=" * (len(files) - 1) + "!"
    healthy = corpus.path() / "je/je-18.3.20/txn-crash/env"
    assert run("info", healthy, "--json").json()["log_map"] == "=" * (len(list(healthy.glob("*.jdb"))) - 1) + ">"
    files[1].unlink()
    assert run("info", tmp_path / "env", "--json").json()["log_map"] == "=." + "=" * (len(files) - 3) + "!"
