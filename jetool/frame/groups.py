"""Groups of commands: ``jetool`` itself, and groups such as ``vlsn``.

Options before the command's name are kept as written; the command parses them together with its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click

from jetool.frame import options

# The key under which a context keeps the options before the command's name.
LEADING: Final = "jetool.leading"


class CommandGroup(click.Group):
    """A command with subcommands (``vlsn``), or the program itself.

    Attributes:
        examples: as for commands.
        default: the subcommand to use if the first word is not one; None without a default.
        place_default: the subcommand to use if the first word is a directory or a node instead: ``jetool vlsn DIR``.
        home: ``Command.home`` of its subcommands.
    """

    examples: tuple[tuple[str, str], ...] = ()
    default: str | None = None
    place_default: str | None = None
    home: Callable[[str], str] = str

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the leading options as written, for the command to parse."""
        if not ctx.resilient_parsing:
            if self.default is not None and self._means_default(ctx, args):
                args = [self.default, *args]
            with explained(ctx):
                # Parse separately, because Click's result does not distinguish defaults from given values.
                found, words, _ = self.make_parser(ctx).parse_args(list(args))
            if self.place_default is not None and words and self._is_place(ctx, words[0]):
                return self.parse_args(ctx, [self.place_default, *args])
            leading = ctx.meta.setdefault(LEADING, [])
            for param in self.params:
                if isinstance(param, click.Option) and param.name in found:
                    leading.extend(_as_written(param, found[param.name]))
        return super().parse_args(ctx, args)

    def _means_default(self, ctx: click.Context, args: list[str]) -> bool:
        """Whether the first word is not a subcommand, or is an option that only subcommands have."""
        try:
            _, words, _ = self.make_parser(ctx).parse_args(list(args))
        except click.UsageError:
            return True
        return bool(words) and words[0] not in self.commands

    def _is_place(self, ctx: click.Context, word: str) -> bool:
        """Whether a word is a path or a node (``HOST:PORT``), and not the name of a command or a mistyped name."""
        looks_like_one = os.sep in word or os.path.isdir(word) or re.fullmatch(r".+:\d+", word) is not None
        return looks_like_one and self.get_command(ctx, word) is None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of that name; for an unknown name, a usage error with similar names."""
        command = self.get_command(ctx, args[0])
        if command is None and not ctx.resilient_parsing:
            raise click.UsageError(f"{args[0]!r} is not a command of {ctx.command_path}{self._near(ctx, args[0])}", ctx)
        return (args[0] if command else None), command, args[1:]

    def _near(self, ctx: click.Context, name: str) -> str:
        from difflib import get_close_matches

        other = self.elsewhere(name)
        if other:
            return f"; what you look for is jetool {other}"
        near = get_close_matches(name, self.known(ctx), n=3)
        return f"; did you mean {' or '.join(near)}?" if near else ""

    def elsewhere(self, name: str) -> str | None:  # noqa: ARG002 - for groups that know of others
        """The jetool command for another tool's command name, or None."""
        return None

    def known(self, ctx: click.Context) -> list[str]:
        """All names of commands, including aliases."""
        return self.list_commands(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands. The help of each subcommand lists its options."""
        self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - Click's
        """Examples."""
        if self.examples:
            with formatter.section("Examples"):
                for text, line in self.examples:
                    formatter.write(f"  {text}:\n      {line}\n")


def _as_written(option: click.Option, value: Any) -> list[list[str]]:
    """A leading option as words again; a counting option is repeated."""
    # Use the long name, which accepts its value after an equals sign.
    name = option.opts[-1]
    if option.count:
        return [[name]] * int(value)
    return [[name]] if option.is_flag else [[f"{name}={value}"]]


def group(
    name: str,
    *,
    help: str,
    examples: Sequence[tuple[str, str]],
    default: str | None = None,
    place_default: str | None = None,
    metavar: str = "COMMAND ENV [OPTIONS]",
    home: Callable[[str], str] = str,
) -> CommandGroup:
    """Create a command with subcommands.

    Arguments:
        name: as the user types it.
        help: the subject of its subcommands.
        examples: as for ``command``.
        default: the subcommand to use if the first word is not one.
        place_default: the subcommand to use if the first word is a directory or a node.
        metavar: the text after the name in usage lines.
        home: gives the directory of the environment, which ENV names or contains.
    """
    made = CommandGroup(
        name,
        help=help,
        no_args_is_help=False,
        params=[*options.leading(), options.help_option()],
        add_help_option=False,
        options_metavar="",
        subcommand_metavar=metavar,
    )
    made.examples, made.default, made.place_default, made.home = tuple(examples), default, place_default, home
    return made


@contextmanager
def explained(ctx: click.Context) -> Iterator[None]:
    """Add to usage errors of the parser the command concerned, and hints that Click cannot give."""
    try:
        yield
    # Catch NoSuchOption first, because it is a subclass of UsageError.
    except click.NoSuchOption as error:
        if any(error.option_name in option.opts for option in options.leading()):
            raise without_effect(ctx, error.option_name) from error
        error.ctx = error.ctx or ctx
        raise
    except click.UsageError as error:
        error.ctx = error.ctx or ctx
        if isinstance(error, click.BadOptionUsage) and error.option_name == "-h":
            text = "-h names the environment and needs a directory; help is --help"
            raise click.UsageError(text, ctx) from error
        raise


def without_effect(ctx: click.Context, name: str) -> click.UsageError:
    """The error for an option before the command's name that the command does not have."""
    return click.UsageError(f"{name} has no effect on {ctx.command_path}; leave it out", ctx)
