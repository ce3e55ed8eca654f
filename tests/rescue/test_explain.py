"""``explain``: every message of the table, what lines name, and nothing guessed."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import click
import pytest

from engine.rescue.explanation import explain
from engine.rescue.messages.bare import BARE
from engine.rescue.messages.record import DATA, ENVIRONMENTS, RISKS, KnownMessage
from engine.rescue.messages.table import BY_WORD, OF_DERBY, OF_JE
from jetool.frame.cli import load
from jetool.frame.table import COMMANDS
from tests.support.environments.oracle import named
from tests.support.harness import assert_valid, run, spawn

# JE's EnvironmentFailureReason of 18.3, and what 25.3 adds.
REASONS = re.findall(
    r"\w+",
    """
    ENV_LOCKED ENV_NOT_FOUND FOUND_COMMITTED_TXN HANDSHAKE_ERROR HARD_RECOVERY JAVA_ERROR LATCH_ALREADY_HELD
    LATCH_NOT_HELD LISTENER_EXCEPTION BTREE_CORRUPTION LOG_CHECKSUM LOG_FILE_NOT_FOUND
    LOG_UNEXPECTED_FILE_DELETION LOG_INCOMPLETE LOG_INTEGRITY LOG_READ INSUFFICIENT_LOG LOG_WRITE
    MASTER_TO_REPLICA_TRANSITION MONITOR_REGISTRATION PROGRESS_LISTENER_HALT PROTOCOL_VERSION_MISMATCH
    ROLLBACK_PROHIBITED SHUTDOWN_REQUESTED TEST_INVALIDATE THREAD_INTERRUPTED UNCAUGHT_EXCEPTION
    UNEXPECTED_EXCEPTION UNEXPECTED_EXCEPTION_FATAL UNEXPECTED_STATE UNEXPECTED_STATE_FATAL VERSION_MISMATCH
    WEDGED TIME_OUT_OF_SYNC
    """,
)


def test_the_table() -> None:
    assert set(REASONS) <= set(BY_WORD)
    assert len(OF_JE) + len(OF_DERBY) + len(BARE) == len(BY_WORD) > 450
    for known in BY_WORD.values():
        assert known.risk in RISKS
        assert known.environment is None or known.environment in ENVIRONMENTS
        assert all(word in BY_WORD for word in known.refines), known
        assert known.cause[0].islower() or not known.cause.split()[0].islower()


@pytest.mark.parametrize("line", sorted({known.next for known in BY_WORD.values()}))
def test_next_commands_are_there(line: str) -> None:
    for part in line.split("; "):
        words = part.removeprefix("then ").split()
        if words[0] != "jetool":
            continue
        name = next(row for row in COMMANDS if row.name == words[1])
        command = load(name)
        if isinstance(command, click.Group):
            command = command.commands[words[2]]
        options = {option for param in command.params for option in param.opts}
        assert {word for word in words if word.startswith("-")} <= options, line


def text_of(known: KnownMessage) -> str:
    word = known.word
    if known.signs:
        base = text_of(BY_WORD[known.refines[0]]) if known.refines and known.refines[0] in BY_WORD else "(JE 18.3.20)"
        return f"{base} {' x 0x2 '.join(known.signs)}"
    if word in REASONS:
        return f"com.sleepycat.je.EnvironmentFailureException: (JE 18.3.20) /data {word}: What it says. Environment ..."
    if word == "ShutdownException":
        return f"org.apache.derby.iapi.error.{word}: what it says"
    if word.endswith("Exception"):
        return f"com.sleepycat.je.{word}: (JE 18.3.20) what it says"
    return f"ERROR {word}: What it says. Derby-10.14.2.0"


@pytest.mark.parametrize("word", sorted(set(BY_WORD) - {known.word for known in BARE}))
def test_every_row_is_recognised(word: str) -> None:
    known = BY_WORD[word]
    if known.refines and any(one in {row.word for row in BARE} for one in known.refines[:1]):
        text = f"java.lang.IllegalStateException: {' x '.join(known.signs)}"
    else:
        text = text_of(known)
    (found,) = explain([text, "\tat com.sleepycat.je.rep.RollbackException.<init>(X.java:1)"])
    assert (found.word, found.known, found.count) == (word, known, 1)


def test_what_lines_name() -> None:
    (found,) = explain(
        [
            "2026-11-22 SEVERE LOG_CHECKSUM: Checksum invalid on read at lsn 0x5/0x80e, txn=-17",
            "  lastVLSN: 4711 and 0xffffffff/0xffffffff",
            "other text 0x9/0x9",
            "LOG_CHECKSUM: again",
        ]
    )
    assert list(found.lsns) == [0x5_0000_080E]
    assert (list(found.vlsns), list(found.txns)) == ([4711], [-17])
    assert (found.count, found.first_line, found.last_line) == (2, 1, 4)


@pytest.mark.parametrize(
    "line",
    [
        "javax.transaction.RollbackException: not ours", "port 40001 is open", "constant LOG_READ is 3",
        "\tat org.example.LockTimeoutException.wrap(X.java:3)", "all is well", "", "WEDGED",
    ],
)  # fmt: skip
def test_nothing_is_guessed(line: str) -> None:
    assert explain([line]) == []


def test_unknown_ones_are_called_so() -> None:
    found = explain(["com.sleepycat.je.rep.BrandNewException: x", "ERROR X0Y32: x is there", "com.sleepycat.je.Foo"])
    assert [(one.word, one.known) for one in found] == [("BrandNewException", None), ("X0Y32", None)]


def test_any_bytes(tmp_path: Path) -> None:
    source = random.Random(14)
    words = [*BY_WORD, "com.sleepycat.", "0x5/0x80e", "VLSN: 9", "\n", " ", ": ", "\x00", "é", "ERROR "]
    for _ in range(60):
        parts = [source.choice(words).encode() for _ in range(200)] + [source.randbytes(50)]
        source.shuffle(parts)
        file = tmp_path / "text"
        file.write_bytes(b"".join(parts))
        assert run("explain", file, "-q").code in (0, 1, 4)


def test_the_command(tmp_path: Path) -> None:
    env = named("je-18.3.20/corrupt-middle").path / "env"
    file = tmp_path / "je.info.0"
    file.write_text(
        text_of(BY_WORD["LOG_CHECKSUM"])
        + " 0x5/0x80e and 0x4/0x26 and 0x77/0x0\n"
        + text_of(BY_WORD["DeadlockException"])
    )
    done = run("explain", file, "--env", env, "--json")
    assert done.code == 1
    assert_valid("explain", done.out)
    found = done.json()
    assert [one["message"] for one in found["messages"]] == ["LOG_CHECKSUM", "DeadlockException"]
    assert found["messages"][0]["risk"] == DATA
    assert str(env) in found["messages"][0]["next"]
    assert [one["intact"] for one in found["places"]] == [False, True, False]
    assert run("explain", file).code == 1
    file.write_text(text_of(BY_WORD["DeadlockException"]))
    assert run("explain", file).code == 0
    file.write_text("nothing here")
    assert run("explain", file).code == 4
    assert run("explain", tmp_path / "none").code == 4
    directory = run("explain", tmp_path)
    assert directory.code == 2
    assert "not a file with messages but a directory" in directory.err
    piped = spawn("explain", "--json", input=text_of(BY_WORD["WEDGED"]).encode())
    assert piped.returncode == 0
    assert b"WEDGED" in piped.stdout


def test_a_pasted_text_is_an_argument() -> None:
    text = text_of(BY_WORD["LOG_CHECKSUM"]) + " at 0x5/0x80e"
    pasted = run("explain", text, "--json")
    assert pasted.code == 1
    assert_valid("explain", pasted.out)
    assert pasted.json()["source"] == "argument"
    assert [one["message"] for one in pasted.json()["messages"]] == ["LOG_CHECKSUM"]
    # The same without quotes, as the shell splits it.
    assert run("explain", *text.split(), "--json").json()["messages"][0] == pasted.json()["messages"][0]


@pytest.mark.parametrize("code", ["LOG_CHECKSUM", "LOG_CHECKSUM:", "XSLA7", "40XL1", "RunRecoveryException"])
def test_a_code_alone(code: str) -> None:
    found = run("explain", code, "--json").json()["messages"]
    assert [(one["message"], one["known"]) for one in found] == [(code.rstrip(":"), True)]
    assert found[0]["cause"]


def test_several_arguments(tmp_path: Path) -> None:
    file = tmp_path / "fe.log"
    file.write_text("\n" + text_of(BY_WORD["DeadlockException"]))
    done = run("explain", file, "XSLA7", "WEDGED", "--json")
    assert_valid("explain", done.out)
    shown = [(one["message"], one["source"], one["first_line"]) for one in done.json()["messages"]]
    assert shown == [("DeadlockException", str(file), 2), ("XSLA7", "argument", 1), ("WEDGED", "argument", 1)]
    assert done.json()["source"] == f"{file}, argument, argument"
    piped = spawn("explain", "-", "XSLA7", "--json", input=text_of(BY_WORD["WEDGED"]).encode())
    assert [one["source"] for one in json.loads(piped.stdout)["messages"]] == ["-", "argument"]


@pytest.mark.parametrize("words", [("XSLA7", "/no/such/file"), ("./nothing",), ("nothing", "here"), ("b" * 5000,)])
def test_an_argument_without_a_message_is_named(words: tuple[str, ...]) -> None:
    done = run("explain", *words)
    assert (done.code, done.out) == (4, b"")
    assert words[-1][:20] in done.err
