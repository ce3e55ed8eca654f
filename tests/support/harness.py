"""What tests share: a runner for commands, and output validation."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs

from jetool.frame import cli, exits, schemas, table
from jetool.frame.command import Command
from jetool.frame.groups import CommandGroup
from jetool.output.shape import record_schema
from tests.support import corpus
from tests.support.waiting import PATIENCE_S

REPOSITORY = Path(__file__).resolve().parents[2]


class Result(NamedTuple):
    """What a command line did."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.out.decode()

    def json(self) -> Any:
        """Standard output as one JSON value."""
        return json.loads(self.out)

    def lines(self) -> list[dict[str, Any]]:
        """Standard output as NDJSON."""
        return [json.loads(line) for line in self.text.splitlines()]

    def error(self) -> dict[str, Any]:
        """The error object on the last line of standard error."""
        return dict(json.loads(self.err.splitlines()[-1]))


class _Stream(io.TextIOWrapper):
    def __init__(self, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="surrogateescape")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def taken(self) -> bytes:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue()


def run(*words: str | Path, terminal: bool = False) -> Result:
    """Run a command line in this process and check that its exit code is one that the command declares.

    Arguments:
        words: the words after ``jetool``.
        terminal: what ``isatty`` of the standard streams answers.
    """
    args = [str(word) for word in words]
    refuse_to_write_to_corpus(args)
    out, err = _Stream(terminal), _Stream(terminal)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        code = cli.run(args)
    finally:
        sys.stdout, sys.stderr = before
    result = Result(code, out.taken(), err.taken().decode())
    declared = declared_codes(args)
    assert declared is None or code in declared, f"{args} ended with {code}, declared are {declared}: {result.err}"
    return result


def refuse_to_write_to_corpus(args: list[str]) -> None:
    """Fail when a verb that can write is called on the corpus: root is not stopped by its file modes."""
    kept = corpus.location()
    inside = [word for word in args if word.startswith("/") and Path(word).resolve().is_relative_to(kept)]
    # Of what missing does only the copy is written.
    if not inside or {"-n", "--dry-run"} & set(args) or (args[0] == "missing" and "--repair" not in args):
        return
    names = [row.name for row in table.COMMANDS if args[0] == row.name or args[0] in row.aliases]
    loaded = [cli.load(row) for row in table.COMMANDS if row.name in names]
    if any(param.name == "dry_run" for command in loaded for param in command.params):
        raise AssertionError(f"{args[0]} could write to {inside[0]}: copy it first")


def spawn(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command line in a process of its own."""
    refuse_to_write_to_corpus([str(word) for word in words])
    command = [sys.executable, "-m", "jetool", *map(str, words)]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, env=environment(), **options)


def environment(**extra: str) -> dict[str, str]:
    """The environment variables of a child process that finds this tree, with buffers as users have them."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**inherited, "PYTHONPATH": str(REPOSITORY), **extra}


def find_command(name: str) -> Command:
    """A command by the words that call it."""
    first, _, rest = name.partition(" ")
    row = next(row for row in table.COMMANDS if first == row.name or first in row.aliases)
    found = cli.load(row)
    if rest and isinstance(found, CommandGroup):
        found = found.commands[rest]
    assert isinstance(found, Command)
    return found


def declared_codes(args: list[str]) -> set[int] | None:
    """The exit codes that the command called by these words declares; None when no command is called."""
    words = [word for word in args if not word.startswith("-")]
    for row in table.COMMANDS:
        if words and (words[0] == row.name or words[0] in row.aliases):
            found: Any = cli.load(row)
            if isinstance(found, CommandGroup):
                found = found.commands.get(words[1]) if len(words) > 1 else None
            return set(found.exits) | set(exits.ALWAYS) | {0} if isinstance(found, Command) else None
    return None


def assert_valid(name: str, output: bytes | str, form: str = "json") -> None:
    """Check output against the schema that the command publishes, with no key that is not in it.

    Arguments:
        name: the words that call the command (``vlsn map``).
        output: all of standard output.
        form: ``json`` or ``ndjson``.
    """
    schema = schemas.of(name, find_command(name))
    assert schema is not None, f"{name} has no schema"
    # Also as it is published, with keys that may be added: a record must not match one shape too many.
    for each in (schema, _closed(schema)):
        _assert_valid_by(each, output, form)


def _assert_valid_by(schema: dict[str, Any], output: bytes | str, form: str) -> None:
    if form == "json":
        value = json.loads(output)
        assert isinstance(value, dict), "not an object"
        jsonschema_rs.Draft202012Validator(schema).validate(value)
        return
    validator = jsonschema_rs.Draft202012Validator(schema["$defs"]["line"])
    text = output.decode() if isinstance(output, bytes) else output
    lines = text.splitlines()
    assert lines, "no output"
    for line in lines:
        validator.validate(json.loads(line))
    assert json.loads(lines[-1])["rec"] == "summary"


def assert_valid_error(result: Result) -> None:
    """Check the error object on standard error."""
    error = result.error()
    jsonschema_rs.Draft202012Validator(_closed(record_schema(schemas.Error, with_rec=True))).validate(error)
    assert error["exit_code"] == result.code


def _closed(schema: Any) -> Any:
    """A schema that refuses further keys. The published one allows them, since keys may be added."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        closed["additionalProperties"] = False
    return closed
