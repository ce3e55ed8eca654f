"""Messages and progress on standard error."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import click
import jsonschema_rs
import pytest

from engine.errors import NotFoundError, located
from jetool.frame import cli, exits, schemas
from jetool.output import messages
from jetool.output.messages import Messages
from jetool.output.shape import record_schema
from tests.support import harness
from tests.support.harness import run
from tests.support.waiting import PATIENCE_S


def test_message_has_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    told = Messages()
    told.warning("entry cannot be read", file="1f.jdb", lsn="0x1f/0x1", consequence="812 bytes lost", hint="jetool x")
    told.notice("no checkpoint", expected="1", found="0")
    assert capsys.readouterr().err == (
        "jetool: warning: entry cannot be read in 1f.jdb at 0x1f/0x1; 812 bytes lost\n  next: jetool x\n"
        "jetool: notice: no checkpoint: expected 1, found 0\n"
    )


@pytest.mark.parametrize(("level", "shown"), [(-1, ""), (0, "warning notice"), (1, "warning notice detail")])
def test_levels(level: int, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = Messages(level)
    told.warning("a")
    told.notice("b")
    told.detail("c")
    assert [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()] == shown.split()


def test_colours_and_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    Messages(color=True).warning("name \x1b]0;x\x07")
    err = capsys.readouterr().err
    assert err.startswith("jetool: \x1b[33mwarning:\x1b[0m name ")
    assert "\x1b]" not in err
    assert "\x07" not in err


def test_a_bar_makes_room_for_messages(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    told = Messages(before=lambda: seen.append(capsys.readouterr().err))
    told.notice("a")
    told.detail("not shown")
    assert seen == [""]
    assert "notice: a" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "terminal", "expected"),
    [
        ([], False, False),
        ([], True, True),
        (["--color", "never"], True, False),
        (["--color=never"], True, False),
        (["--color", "always"], False, True),
        (["--color=always"], False, True),
        (["--color"], False, False),
    ],
)
def test_colours_of_errors(words: list[str], terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(messages, "is_terminal", lambda _: terminal)
    assert messages.wants_color(words) is expected
    monkeypatch.setenv("TERM", "dumb")
    assert messages.wants_color(words) is (expected and "always" in " ".join(words))


def test_json_progress_is_valid_and_not_too_frequent(capsys: pytest.CaptureFixture[str]) -> None:
    listener = messages.make_reporter("json", quiet=True)
    for done in range(1000):
        listener.step("scan", done, 1000)
    listener.step("scan", 1000, 1000)
    listener.count("other", 9)
    listener.step("other", 1, 0)
    listener.close()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    validator = jsonschema_rs.Draft202012Validator(record_schema(schemas.ProgressMessage, with_rec=True))
    for line in lines:
        validator.validate(line)
    assert [line["done"] for line in lines if line["step"] == "scan"][-1] == 1000
    assert 3 <= len(lines) < 20
    assert ["records" in line for line in lines] == [line["step"] == "other" for line in lines]
    assert lines[-1]["records"] == 9


def test_the_bar_moves_while_nothing_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    drawn = Terminal()
    monkeypatch.setattr(sys, "stderr", drawn)
    monkeypatch.setenv("TERM", "xterm")
    clock = [100.0]
    bar = messages.Bar(lambda: clock[0])
    shown = []
    for _ in range(3):
        clock[0] += 1.15
        drawn.seek(0)
        drawn.truncate()
        bar.step("look", 0, 4)
        shown.append(drawn.getvalue())
    bar.close()
    assert len(set(shown)) == 3


def test_bar_waits_a_second() -> None:
    clock = [100.0]
    drawn: list[str] = []

    class Fake:
        def add_task(self, name: str, percent: str, records: str) -> int:
            drawn.append(f"new {name}")
            return 1

        def update(
            self, task: int, *, completed: int, total: int | None, percent: str, records: str, visible: bool
        ) -> None:
            assert visible
            drawn.append(" ".join(filter(None, [f"{completed}/{total}", percent.strip(), records])))

        def refresh(self) -> None:
            pass

        def stop(self) -> None:
            drawn.append("stop")

    make: Any = Fake
    bar = messages.Bar(lambda: clock[0], make)
    bar.step("scan", 1, 10)
    assert drawn == []
    clock[0] += 1.0
    bar.step("scan", 2, 10)
    bar.step("scan", 3, 10)  # too soon after the last
    clock[0] += 0.2
    bar.step("scan", 4, 0)
    assert drawn == ["new scan", "2/10 20%", "4/None"]
    bar.pause()
    clock[0] += 0.2
    bar.step("scan", 5, 10)
    assert drawn[3:] == ["stop", "new scan", "5/10 50%"]
    clock[0] += 0.2
    bar.count("scan", 71_000)
    bar.step("scan", 6, 10)
    assert drawn[6:] == ["6/10 60% 71,000 records"]
    # A result goes first, and the bar comes back when none has come for a second; never within a line.
    bar.make_way(b"a line\n")
    clock[0] += 0.9
    bar.step("scan", 6, 10)
    assert drawn[7:] == ["stop"]
    clock[0] += 0.2
    bar.step("scan", 6, 0)
    assert drawn[8:] == ["new scan", "6/None 71,000 records"]
    bar.make_way(b"half a")
    clock[0] += 5
    bar.step("scan", 6, 0)
    bar.make_way(b" line\n")
    clock[0] += 1
    bar.step("scan", 6, 0)
    assert drawn[10:] == ["stop", "new scan", "6/None 71,000 records"]
    del drawn[7:]
    bar.close()
    clock[0] += 0.2
    bar.step("scan", 7, 10)
    bar.close()
    assert drawn[7:] == ["stop"]


def test_a_new_step_takes_the_place_of_the_last() -> None:
    class Fake:
        def __init__(self) -> None:
            self.visible: dict[str, bool] = {}

        def add_task(self, name: str, **_columns: str) -> str:
            self.visible[name] = True
            return name

        def update(self, task: str, *, visible: bool, **_columns: object) -> None:
            self.visible[task] = visible

        def refresh(self) -> None:
            pass

        def stop(self) -> None:
            pass

    drawn: Any = Fake()
    clock = [100.0]
    bar = messages.Bar(lambda: clock[0], lambda: drawn)
    seen = []
    for name in ("start", "start", "read", "write", "read"):
        clock[0] += 1.0
        bar.step(name, 0, 0)
        seen.append([name for name, shown in drawn.visible.items() if shown])
    bar.close()
    # The last two go on side by side.
    assert seen == [["start"], ["start"], ["read"], ["write"], ["read", "write"]]


def test_bar_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(messages.make_reporter("auto", quiet=False), messages.NoProgress)
    monkeypatch.setattr(messages, "is_terminal", lambda _: True)
    assert isinstance(messages.make_reporter("auto", quiet=False), messages.Bar)
    assert isinstance(messages.make_reporter("auto", quiet=True), messages.NoProgress)
    assert isinstance(messages.make_reporter("never", quiet=False), messages.NoProgress)


def test_real_bar_on_a_real_terminal() -> None:
    """With a pseudo-terminal: the bar is drawn on standard error and gone at the end."""
    code = (
        "from jetool.output import messages; messages._DELAY_S = messages._DRAW_S = 0.0\n"
        "bar = messages.make_reporter('auto', quiet=False); assert isinstance(bar, messages.Bar), bar\n"
        "[bar.step('scan', done, 100) for done in range(100)]; bar.close()\n"
    )
    wrapper = "import pty, sys; sys.exit(pty.spawn([sys.executable, '-c', sys.argv[1]]) >> 8)"
    env = harness.environment(TERM="xterm", COLUMNS="80")
    done = subprocess.run([sys.executable, "-c", wrapper, code], env=env, capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout
    assert b"scan" in done.stdout
    assert b"99%" in done.stdout
    assert done.stdout.rstrip().endswith(b"\x1b[2K"), "the line is erased"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("no such directory", "no such directory: /data/env"),
        ("not a directory", "not a directory: /data/env"),
        ("cannot write", "cannot write /data/env"),
        ("cannot open /data/env: permission denied", "cannot open /data/env: permission denied"),
        ("cannot open /data/env/00000000.jdb", "cannot open /data/env/00000000.jdb in /data/env"),
        ("the directory is not empty", "the directory /data/env is not empty"),
        ("the environment belongs to no group", "the environment /data/env belongs to no group"),
        ("the environment holds a restore marker: it", "the environment /data/env holds a restore marker: it"),
        ("the database 'users' is gone", "the database 'users' is gone in /data/env"),
        ("no database 'users'", "no database 'users' in /data/env"),
        ("the log is damaged", "the log is damaged in /data/env"),
        ("the tail is moving: 5 bytes more", "the tail is moving in /data/env: 5 bytes more"),
        ("no record with the key a: b", "no record with the key a: b in /data/env"),
    ],
)
def test_a_place_stands_where_a_sentence_has_it(what: str, said: str) -> None:
    assert located(what, "/data/env", None) == said
    assert str(NotFoundError(what, file="/data/env")) == said


def test_a_place_with_an_lsn() -> None:
    assert located("stopped at damage: bad checksum", "0.jdb", "0x0/0x1f") == (
        "stopped at damage in 0.jdb at 0x0/0x1f: bad checksum"
    )
    assert located("the file is damaged", "0.jdb", "0x0/0x1f") == "the file 0.jdb is damaged at 0x0/0x1f"
    assert located("the log ends", None, "0x0/0x1f") == "the log ends at 0x0/0x1f"
    # A short path is often a part of a word.
    assert located("no environment", "env", None) == "no environment in env"


def test_every_command_reads_well_on_a_directory_that_is_not_there() -> None:
    """Every command that takes an environment; none glues the place to a sentence that is complete."""
    seen = 0
    for name, command in cli.commands():
        arguments = [param for param in command.params if isinstance(param, click.Argument)]
        if not arguments or arguments[0].name != "env" or any(one.required for one in arguments[1:]):
            continue
        if any(param.required for param in command.params if isinstance(param, click.Option)) or name == "diff":
            continue
        result = run(*name.split(), "/no/such/place/env")
        place = "/no/such/place" + ("" if name == "create" else "/env")
        assert result.code == exits.NOT_FOUND, name
        assert result.err.startswith(f"jetool: error: no such directory: {place}"), (name, result.err)
        seen += 1
    assert seen > 25
