"""Groups of commands: ``jetool`` itself, and ``vlsn`` and the like.

Options in front of the command's name are noted as they were written; the command parses them with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click

from jetool.frame import options

# Where a context keeps the options in front of the command's name.
LEADING: Final = "jetool.leading"


class CommandGroup(click.Group):
    """A command that has commands (``vlsn``), or the program itself.

    Attributes:
        examples: as for commands.
        default: the command that is meant when the first word names none; None where there is no such command.
        home: of its commands, as ``Command.home``.
    """

    examples: tuple[tuple[str, str], ...] = ()
    default: str | None = None
    home: Callable[[str], str] = str

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note the leading options as they were written, for the command to parse."""
        if not ctx.resilient_parsing:
            if self.default is not None and self._means_default(ctx, args):
                args = [self.default, *args]
            with explained(ctx):
                # A parse of its own: in Click's result defaults cannot be told from what was given.
                found, _, _ = self.make_parser(ctx).parse_args(list(args))
            leading = ctx.meta.setdefault(LEADING, [])
            for param in self.params:
                if isinstance(param, click.Option) and param.name in found:
                    leading.extend(_as_written(param, found[param.name]))
        return super().parse_args(ctx, args)

    def _means_default(self, ctx: click.Context, args: list[str]) -> bool:
        """Whether the first word is not a command of this group, or an option stands there that only commands have."""
        try:
            _, words, _ = self.make_parser(ctx).parse_args(list(args))
        except click.UsageError:
            return True
        return bool(words) and words[0] not in self.commands

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of that name; for a name that no command has, a usage error with close names."""
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
        """The command that does what other tools call by this name; None for a name that none has."""
        return None

    def known(self, ctx: click.Context) -> list[str]:
        """All names that lead to a command, aliases included."""
        return self.list_commands(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands. Their options are for their own help to list."""
        self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - Click's
        """Examples."""
        if self.examples:
            with formatter.section("Examples"):
                for text, line in self.examples:
                    formatter.write(f"  {text}:\n      {line}\n")


def _as_written(option: click.Option, value: Any) -> list[list[str]]:
    """A leading option as words again; a count as often as it was given."""
    # The long name, which takes its value after an equals sign.
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
    metavar: str = "COMMAND ENV [OPTIONS]",
    home: Callable[[str], str] = str,
) -> CommandGroup:
    """A command that has commands.

    Arguments:
        name: as the user types it.
        help: what its commands are about.
        examples: as for ``command``.
        default: the command that is meant when the first word names none.
        metavar: what follows the name.
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
    made.examples, made.default, made.home = tuple(examples), default, home
    return made


@contextmanager
def explained(ctx: click.Context) -> Iterator[None]:
    """Usage errors of the parser with the command that they concern, and with what Click cannot know."""
    try:
        yield
    # A subclass of UsageError, so it comes first.
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
    """The error for an option in front of the command that the command does not have."""
    return click.UsageError(f"{name} has no effect on {ctx.command_path}; leave it out", ctx)
