"""Commands made for tests: one for each way of printing, one for each way of ending."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import click

from engine import errors
from jetool.app import cli, exits, params, table
from jetool.app.command import Outputs, command, environment, group
from jetool.app.options import FORMATS, Run
from jetool.output.shape import Field, Shape
from jetool.output.sink import OutputClosedError

EXAMPLES = (("One", "jetool sample /data/env"), ("Two", "jetool sample -h /data/env --json"))
ALL = dict.fromkeys(exits.TABLE, "for tests")

ENTRY = Shape(
    "entry",
    "An entry.",
    (
        Field("lsn", "lsn", "where"),
        Field("type", "text", "name"),
        Field("key", "key", "key", null=True),
        Field("vlsn", "vlsn", "VLSN"),
    ),
)
BAD = Shape("bad", "Damage.", (Field("lsn", "lsn", "where"), Field("skipped", "size_bytes", "bytes stepped over")))
SUMMARY = Shape("summary", "The end.", (Field("entries", "int", "entries printed"),))
FILES = Field(
    "files", "records", "files", fields=(Field("name", "text", "name"), Field("size_bytes", "size_bytes", "size"))
)
CONTROL = Shape(
    "control",
    "Control data.",
    (
        Field("home", "text", "directory"),
        Field("clean", "bool", "closed cleanly"),
        Field("ids", "ints", "transactions"),
        Field("ckpt", "record", "last checkpoint", null=True, fields=(Field("start_lsn", "lsn", "start"),)),
        FILES,
    ),
)
RULES = (("JE-LOG-001", "checksum does not match"), ("JE-LOG-002", "file is missing"))

ENTRIES = [(0x1F00002A3C, "CkptStart", None, -1), (0x1F00002A60, "INS_LN_TX", b"key,1", 17)]


class Found(SimpleNamespace):
    """A finding."""


FINDINGS = [
    Found(
        code="JE-LOG-001",
        severity="error",
        lsn=0x1F00002A3C,
        file="0000001f.jdb",
        db=None,
        key=b"\x00\xff",
        message="checksum does not match <&>",
        consequence="one record is lost",
        remedy="jetool salvage",
    )
]


@command(
    "sample", outputs=lambda: Outputs("stream", (ENTRY, BAD), SUMMARY), examples=EXAMPLES, exits=ALL,
    features=("fields", "progress", "times", "keys", "jobs"),
)  # fmt: skip
@environment
@click.argument("words", nargs=-1, help="Words.")
@click.option("--bad", is_flag=True, help="With damage.")
@click.option("--since", type=params.TIME, help="Time.")
@click.option("--key", type=params.KEY, help="Key.")
def sample(run: Run, env: str, words: tuple[str, ...], bad: bool, since: int | None, key: bytes | None) -> int:
    """Print a stream."""
    run.messages.detail(f"env={env} words={words} since={since} key={key!r} jobs={run.jobs}")
    with run.out.stream(ENTRY, BAD) as stream:
        for entry in ENTRIES:
            stream.row("entry", ENTRY.row(entry))
        if bad:
            stream.write(stream.encoder.rows([("bad", BAD.row((0x1F00003000, 99)))]))
        stream.end(SUMMARY.row((len(ENTRIES),)))
    return exits.FINDINGS if bad else exits.DONE


@command("control", outputs=lambda: Outputs("document", (CONTROL,)), examples=EXAMPLES, exits=ALL, features=("fields",))
@environment
def control(run: Run, env: str) -> int:
    """Print a document."""
    start = [("start_lsn", "lsn", 0x10)]
    files = [[("name", "text", "00000000.jdb"), ("size_bytes", "size_bytes", 20_000)]]
    run.out.document(CONTROL, CONTROL.row((env, True, [1, 2], start, files)))
    return exits.DONE


@command("rows", outputs=lambda: Outputs("table", (ENTRY,)), examples=EXAMPLES, exits=ALL, features=("fields", "keys"))
@environment
@click.argument("number", type=int, help="A number.")
def rows(run: Run, env: str, number: int) -> int:
    """Print a table."""
    run.messages.detail(f"env={env} number={number}")
    run.out.table(ENTRY, [ENTRY.row(entry) for entry in ENTRIES[:number]])
    return exits.DONE


@command(
    "check", outputs=lambda: Outputs("findings", (_finding(),), SUMMARY), examples=EXAMPLES, exits=ALL,
    formats=(*FORMATS, "junit", "sarif", "prometheus"), features=("fields", "keys"),
)  # fmt: skip
@environment
@click.option("--clean", is_flag=True, help="Without findings.")
def check(run: Run, env: str, clean: bool) -> int:
    """Print findings."""
    found = run.out.findings(RULES, [env])
    for finding in [] if clean else FINDINGS:
        found.add(finding)
    found.end(SUMMARY.row((len(ENTRIES),)))
    return exits.DONE if clean else exits.FINDINGS


def _finding() -> Shape:
    from jetool.output.findings import FINDING

    return FINDING


def after(first: BaseException) -> Exception:
    """A bug in the cleaning up after another exception."""
    second = RuntimeError("cannot join thread before it is started")
    second.__context__ = OSError(5, "between")
    second.__context__.__context__ = first
    return second


ERRORS = {
    "usage": errors.UsageError("no sense"),
    "refused": errors.RefusedError("lock held", file="je.lck", found="pid 17", hint="stop the writer"),
    "not_found": errors.NotFoundError("no environment", file="/data"),
    "unsupported": errors.UnsupportedError("log version", file="0.jdb", expected="6 to 26", found="27"),
    "damage": errors.DamageError("bad entry", file="0.jdb", lsn="0x0/0x1"),
    "storage": errors.StorageError("read failed"),
    "format": errors.FormatError("no such kind"),
    "base": errors.JetoolError("says nothing"),
    "click_usage": click.UsageError("odd"),
    "click_parameter": click.BadParameter("odd"),
    "click_other": click.ClickException("odd"),
    "click_file": click.FileError("x", "odd"),
    "abort": click.Abort(),
    "interrupt": KeyboardInterrupt(),
    "terminate": exits.TerminatedError(),
    "exit": click.exceptions.Exit(6),
    "system_exit": SystemExit(3),
    "system_exit_text": SystemExit("text"),
    "bug": ZeroDivisionError("division by zero"),
    "index": IndexError(),
    "memory": MemoryError(),
    "recursion": RecursionError("deep"),
    "os": OSError(5, "Input/output error"),
    "pipe_elsewhere": BrokenPipeError(32, "Broken pipe"),
    "output_closed": OutputClosedError(),
    "interrupt_then_bug": after(KeyboardInterrupt()),
    "closed_then_bug": after(OutputClosedError()),
    "bug_then_bug": after(ValueError()),
}


@command("fail", outputs=lambda: Outputs("text"), examples=EXAMPLES, exits=ALL, features=("write", "lock"))
@environment
@click.option("--how", help="Which way.")
def fail(run: Run, env: str, how: str) -> int:
    """Print a line, then fail."""
    run.out.text(f"before {env} {run.dry_run} {run.yes} {run.backup_dir} {run.lock_timeout_s}")
    if how.isdigit():
        return int(how)
    raise ERRORS[how]


@command("endless", outputs=lambda: Outputs("text"), examples=EXAMPLES, exits=ALL)
@environment
@click.option("--pause", type=float, default=0.0, help="Seconds between lines.")
def endless(run: Run, env: str, pause: float) -> int:
    """Print until somebody stops it."""
    while True:
        run.out.text(env * 100)
        if pause:
            sys.stdout.flush()
            time.sleep(pause)


nest = group("nest", help="Commands in a command.", examples=EXAMPLES)


@command("inner", parent=nest, outputs=lambda: Outputs("text"), examples=EXAMPLES, exits=ALL)
@environment
def nest_inner(run: Run, env: str) -> int:
    """A command in a command."""
    run.out.text(f"inner {env} {run.out.format}")
    return exits.DONE


MADE = {
    "sample": sample, "control": control, "rows": rows, "check": check, "fail": fail, "endless": endless, "nest": nest,
}  # fmt: skip

cli_load = cli.load
ROWS = tuple(
    table.CommandRow(name, "Look", "sample", f"Test {name}", ("old-sample",) if name == "sample" else ())
    for name in MADE
)


def load(row: table.CommandRow) -> click.Command:
    """In place of ``cli.load``."""
    return MADE[row.name] if row in ROWS else cli_load(row)


if __name__ == "__main__":
    vars(table)["COMMANDS"] = (*table.COMMANDS, *ROWS)
    cli.load = load
    cli.main()
