"""Commands made for tests: one for each way of printing, one for each way of ending."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Annotated, NamedTuple

import click

from engine import errors
from engine.fields import Bool, Int, Key, Lsn, SizeBytes, Text, Vlsn, named_row, record
from jetool.frame import cli, exits, params, table
from jetool.frame.command import Outputs, command, environment
from jetool.frame.groups import group
from jetool.frame.options import FORMATS, Run
from jetool.output.sink import OutputClosedError

EXAMPLES = (("One", "jetool sample /data/env"), ("Two", "jetool sample -h /data/env --json"))
ALL = dict.fromkeys(exits.TABLE, "for tests")


@record("entry")
class Entry(NamedTuple):
    """An entry."""

    lsn: Annotated[Lsn, "where"]
    type: Annotated[Text, "name"]
    key: Annotated[Key | None, "key"]
    vlsn: Annotated[Vlsn, "VLSN"]


@record("bad")
class Bad(NamedTuple):
    """Damage."""

    lsn: Annotated[Lsn, "where"]
    skipped: Annotated[SizeBytes, "bytes stepped over"]


@record("summary")
class Summary(NamedTuple):
    """The end."""

    entries: Annotated[Int, "entries printed"]


@record()
class Start(NamedTuple):
    """A checkpoint."""

    start_lsn: Annotated[Lsn, "start"]


@record()
class File(NamedTuple):
    """A file."""

    name: Annotated[Text, "name"]
    size_bytes: Annotated[SizeBytes, "size"]


@record("control")
class Control(NamedTuple):
    """Control data."""

    home: Annotated[Text, "directory"]
    clean: Annotated[Bool, "closed cleanly"]
    ids: Annotated[Sequence[Int], "transactions"]
    ckpt: Annotated[Start | None, "last checkpoint"]
    files: Annotated[Sequence[File], "files"]


RULES = (("JE-LOG-001", "checksum does not match"), ("JE-LOG-002", "file is missing"))

ENTRIES = [
    Entry(lsn=0x1F00002A3C, type="CkptStart", key=None, vlsn=-1),
    Entry(lsn=0x1F00002A60, type="INS_LN_TX", key=b"key,1", vlsn=17),
]


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
    "sample", outputs=lambda: Outputs("stream", (Entry, Bad), Summary), examples=EXAMPLES, exits=ALL,
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
    with run.out.stream(Entry, Bad) as stream:
        for entry in ENTRIES:
            stream.row(entry)
        if bad:
            stream.write(stream.encoder.rows([named_row(Bad(lsn=0x1F00003000, skipped=99))]))
        stream.end(Summary(entries=len(ENTRIES)))
    return exits.FINDINGS if bad else exits.DONE


@command("control", outputs=lambda: Outputs("document", (Control,)), examples=EXAMPLES, exits=ALL, features=("fields",))
@environment
def control(run: Run, env: str) -> int:
    """Print a document."""
    files = [File(name="00000000.jdb", size_bytes=20_000)]
    run.out.document(Control(home=env, clean=True, ids=[1, 2], ckpt=Start(start_lsn=0x10), files=files))
    return exits.DONE


@command("rows", outputs=lambda: Outputs("table", (Entry,)), examples=EXAMPLES, exits=ALL, features=("fields", "keys"))
@environment
@click.argument("number", type=int, help="A number.")
def rows(run: Run, env: str, number: int) -> int:
    """Print a table."""
    run.messages.detail(f"env={env} number={number}")
    run.out.table(Entry, ENTRIES[:number])
    return exits.DONE


@command(
    "check", outputs=lambda: Outputs("findings", (_finding(),), Summary), examples=EXAMPLES, exits=ALL,
    formats=(*FORMATS, "junit", "sarif", "prometheus"), features=("fields", "keys"),
)  # fmt: skip
@environment
@click.option("--clean", is_flag=True, help="Without findings.")
def check(run: Run, env: str, clean: bool) -> int:
    """Print findings."""
    found = run.out.findings(RULES, [env])
    for finding in [] if clean else FINDINGS:
        found.add(finding)
    found.end(Summary(entries=len(ENTRIES)))
    return exits.DONE if clean else exits.FINDINGS


def _finding() -> type:
    from jetool.output.findings import FindingRow

    return FindingRow


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
    "unsupported": errors.UnsupportedError("log version", file="0.jdb", expected="1 to 26", found="27"),
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
    sys.exit(cli.main())
