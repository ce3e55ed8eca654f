"""Entry point: finds the command, runs it, and turns the outcome into an exit code.

``jetool --help`` prints ``jetool.frame.table``; a command's module is imported only when the command is called. Every
start loads the modules that this module imports, so it imports little besides Click.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final, TypeGuard

import click

from jetool.frame import command, exits, groups, options, table
from jetool.output import sink

# The completion script sets this variable when it requests completions.
COMPLETE_VARIABLE: Final = "_JETOOL_COMPLETE"

_WIDEST: Final = 200

_HELP = """Administration toolkit for Berkeley DB Java Edition logs, without a JVM.

ENV is the directory of an environment. Results go to standard output, messages to standard error."""


class Root(groups.CommandGroup):
    """The program: commands by table."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As for every group; ``jetool version`` is ``jetool --version``."""
        return super().parse_args(ctx, ["--version"] if args == ["version"] else args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's signature
        """Names in the order of the table."""
        return [row.name for row in table.COMMANDS]

    def known(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names and aliases."""
        return [name for row in table.COMMANDS for name in (row.name, *row.aliases)]

    def elsewhere(self, name: str) -> str | None:
        """Look up the name in the table of other tools' names, including JE's tools."""
        return table.elsewhere(name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load a command by name or alias."""
        for row in table.COMMANDS:
            if cmd_name == row.name or cmd_name in row.aliases:
                return load(row)
        return None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by group, then the options that may precede them."""
        for name in table.GROUPS:
            rows = [(row.name, row.help + _aliases(row)) for row in table.COMMANDS if row.group == name]
            if rows:
                with formatter.section(name):
                    formatter.write_dl(rows)
        records = [record for param in self.get_params(ctx) if (record := param.get_help_record(ctx)) is not None]
        with formatter.section("Global options, where a command honours them"):
            formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and the whole table of exit codes."""
        super().format_epilog(ctx, formatter)
        command.write_exits(formatter, exits.TABLE)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Commands that begin with the typed text, from the table, so that completion imports at most one module."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(row.name, help=row.help) for row in table.COMMANDS if row.name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def _aliases(row: table.CommandRow) -> str:
    return f" (also {', '.join(row.aliases)})" if row.aliases else ""


def load(row: table.CommandRow) -> click.Command:
    """Import the module of a command and return the command."""
    found = getattr(import_module(f"jetool.commands.{row.module}"), row.module.partition(".")[0])
    assert isinstance(found, click.Command)
    return found


def commands() -> Iterator[tuple[str, command.Command]]:
    """All commands with their names (``vlsn map``), in the order of the help. Loads every module."""
    for row in table.COMMANDS:
        found = load(row)
        if isinstance(found, groups.CommandGroup):
            yield from ((f"{row.name} {name}", one) for name, one in found.commands.items() if _is_ours(one))
        elif _is_ours(found):
            yield row.name, found


def _is_ours(found: click.Command) -> TypeGuard[command.Command]:
    return isinstance(found, command.Command)


def _version(ctx: click.Context) -> str:  # noqa: ARG001 - what print_and_exit calls
    from jetool.frame.version import text

    return text()


def root() -> Root:
    """The program as a Click command."""
    version = click.Option(
        ["-V", "--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=options.print_and_exit(_version),
        help="Print the version of jetool and the log versions that it reads and writes.",
    )
    made = Root(
        "jetool",
        help=_HELP,
        no_args_is_help=False,
        params=[*options.leading(), version, options.help_option()],
        add_help_option=False,
        subcommand_metavar="COMMAND ENV [OPTIONS]",
        options_metavar="[GLOBAL OPTIONS]",
    )
    made.place_default = "info"
    made.examples = (
        ("What an environment is, the same as jetool info", "jetool /data/env"),
        ("What a command does, and a page of the manual", "jetool help verify; jetool help runbook"),
        ("Commands completed by bash", 'eval "$(jetool completion bash)"'),
    )
    return made


def run(args: Sequence[str]) -> int:
    """Run a command line.

    Arguments:
        args: the arguments after the program name.

    Returns:
        The exit code. Nothing is raised.
    """
    try:
        code = _invoke(list(args))
        # Flush here, because a full disk at Python's own exit would give another exit code.
        sink.flush()
    except BaseException as error:
        # Every end of the run, including SystemExit and KeyboardInterrupt, has an exit code of the table.
        code = exits.report(error, args)
    return code


def _invoke(args: list[str]) -> int:
    # Do not use Click's main(): it returns 1 for a closed pipe and swallows exceptions.
    program = root()
    wanted = os.environ.get(COMPLETE_VARIABLE)
    if wanted:
        from click.shell_completion import shell_complete

        return shell_complete(program, {}, "jetool", COMPLETE_VARIABLE, wanted)
    try:
        # Click's default limit is 80 columns, even on wider terminals.
        with program.make_context("jetool", args, max_content_width=_WIDEST) as ctx:
            return int(program.invoke(ctx))
    except click.exceptions.Exit as done:
        return done.exit_code


def _terminate(number: int, _: object) -> None:
    # Ignore further signals: a second SIGTERM must not interrupt the cleanup.
    signal.signal(number, signal.SIG_IGN)
    raise exits.TerminatedError


def main() -> int:
    """Run the command line of the process; returns its exit code."""
    # Keep SIGTERM ignored if the parent process ignores it.
    if signal.getsignal(signal.SIGTERM) != signal.SIG_IGN:
        signal.signal(signal.SIGTERM, _terminate)
    code = run(sys.argv[1:])
    # The buffer may still hold the report of an error.
    sink.drop_unwritten_messages()
    return code
