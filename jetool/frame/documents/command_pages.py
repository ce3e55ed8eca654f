"""The page of a command as sections, for every renderer. The text has the same sources as ``--help``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from jetool.frame import cli, exits, manual, table
from jetool.frame.command import Command
from jetool.frame.groups import CommandGroup

PROGRAM: Final = "jetool"


class Synopsis(NamedTuple):
    """How the command is called."""

    call: str
    pieces: str


class Paragraph(NamedTuple):
    """Plain text, wrapped anywhere."""

    text: str


class Verbatim(NamedTuple):
    """Plain text whose lines stay as they are."""

    text: str


class Terms(NamedTuple):
    """Terms, each with its meaning.

    Attributes:
        kind: ``option`` (as it is typed), ``argument`` (stands for what is typed) or ``page`` (a page of the manual).
    """

    kind: str
    entries: tuple[tuple[str, str], ...]


class Examples(NamedTuple):
    """Pairs of a description and a command line."""

    entries: tuple[tuple[str, str], ...]


class Written(NamedTuple):
    """Sections by hand, in the Markdown of ``jetool.frame.manual``."""

    markdown: str


class References(NamedTuple):
    """Pages of the manual: ``jetool-log(5)``."""

    pages: tuple[str, ...]


Block = Synopsis | Paragraph | Verbatim | Terms | Examples | Written | References


class Section(NamedTuple):
    """A part of a page. A heading of None: the blocks bring their own."""

    heading: str | None
    blocks: tuple[Block, ...]


class CommandPage(NamedTuple):
    """The page of a command.

    Attributes:
        path: the command as it is typed: ``jetool vlsn check``.
        about: one line, without a full stop.
    """

    path: str
    about: str
    sections: tuple[Section, ...]

    @property
    def name(self) -> str:
        """``jetool-vlsn-check``."""
        return self.path.replace(" ", "-")


class _Sources(NamedTuple):
    """What the directory of the manual adds to a page."""

    written: Callable[[str], str]
    about: Mapping[str, Sequence[str]]

    def end(self, name: str, pages: Iterable[str]) -> Iterator[Section]:
        """The last sections: those written by hand, and the references."""
        if text := self.written(name):
            yield Section(None, (Written(text),))
        yield Section("See also", (References((*(f"{page}(1)" for page in pages), *self.about.get(name, ()))),))


def command_pages(directory: Path) -> Iterator[CommandPage]:
    """The page of the program and of every command.

    Arguments:
        directory: the directory of the hand-written sections.
    """

    def written(name: str) -> str:
        path = directory / f"{name}.1.extra"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    sources = _Sources(written, manual.about(directory))
    yield _program(cli.root(), sources)
    for row in table.COMMANDS:
        found = cli.load(row)
        context = click.Context(found, info_name=f"{PROGRAM} {row.name}")
        if isinstance(found, Command):
            yield _command(found, context, row.help, row.aliases, sources)
        elif isinstance(found, CommandGroup):
            yield _group(found, context, row.help, sources)
            for inner in found.commands.values():
                assert isinstance(inner, Command)
                inner_context = click.Context(inner, info_name=f"{context.info_name} {inner.name}")
                yield _command(inner, inner_context, inner.get_short_help_str(), (), sources)


def _page(path: str, about: str, sections: Iterable[Section]) -> CommandPage:
    return CommandPage(path, about[0].lower() + about[1:], tuple(sections))


def _program(program: click.Group, sources: _Sources) -> CommandPage:
    context = click.Context(program, info_name=PROGRAM)
    leading = "They may precede or follow the name of the command, if the command supports them."

    def sections() -> Iterator[Section]:
        yield _synopsis(program, context)
        yield _description(program.help or "")
        for group in table.GROUPS:
            rows = [row for row in table.COMMANDS if row.group == group]
            if rows:
                entries = tuple((f"{PROGRAM}-{row.name}(1)", row.help + ".") for row in rows)
                yield Section(f"{group} commands", (Terms("page", entries),))
        yield Section("Global options", (Paragraph(leading), _options(program.params, context)))
        yield Section("Exit status", (_codes(exits.TABLE),))
        yield from sources.end(PROGRAM, (f"{PROGRAM}-{row.name}" for row in table.COMMANDS))

    return _page(PROGRAM, "administration toolkit for Berkeley DB Java Edition logs", sections())


def _command(
    command: Command, context: click.Context, about: str, aliases: Sequence[str], sources: _Sources
) -> CommandPage:
    path = str(context.info_name)

    def sections() -> Iterator[Section]:
        yield _synopsis(command, context)
        also = (Paragraph(f"Also called {', '.join(aliases)}."),) if aliases else ()
        yield _description(command.help or "", also)
        arguments = [param for param in command.params if isinstance(param, click.Argument)]
        if arguments:
            entries = tuple((one.make_metavar(context), one.help or "") for one in arguments)
            yield Section("Arguments", (Terms("argument", entries),))
        yield Section("Options", (_options(command.params, context),))
        yield Section("Exit status", (_codes({**{code: exits.TABLE[code] for code in exits.ALWAYS}, **command.exits}),))
        yield Section("Examples", (Examples(command.examples),))
        yield from sources.end(path.replace(" ", "-"), [PROGRAM])

    return _page(path, about, sections())


def _group(group: CommandGroup, context: click.Context, about: str, sources: _Sources) -> CommandPage:
    path = str(context.info_name)
    name = path.replace(" ", "-")

    def sections() -> Iterator[Section]:
        yield _synopsis(group, context)
        yield _description(group.help or "")
        entries = ((f"{name}-{inner}(1)", one.get_short_help_str()) for inner, one in group.commands.items())
        yield Section("Commands", (Terms("page", tuple(entries)),))
        yield Section("Examples", (Examples(tuple(group.examples)),))
        yield from sources.end(name, [PROGRAM, *(f"{name}-{inner}" for inner in group.commands)])

    return _page(path, about, sections())


def _synopsis(command: click.Command, context: click.Context) -> Section:
    pieces = " ".join(piece for piece in command.collect_usage_pieces(context) if piece)
    return Section("Synopsis", (Synopsis(str(context.info_name), pieces),))


def _description(text: str, more: Sequence[Block] = ()) -> Section:
    """Paragraphs; one that begins with \\b, Click's mark for text that is not to be wrapped, keeps its lines."""
    blocks: list[Block] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith("\b"):
            blocks.append(Verbatim(paragraph.removeprefix("\b").strip("\n")))
        else:
            blocks.append(Paragraph("\n".join(line.strip() for line in paragraph.splitlines())))
    return Section("Description", (*blocks, *more))


def _options(params: Iterable[click.Parameter], context: click.Context) -> Terms:
    records = [param.get_help_record(context) for param in params if isinstance(param, click.Option)]
    return Terms("option", tuple((record[0], record[1]) for record in records if record is not None))


def _codes(codes: Mapping[int, str]) -> Terms:
    return Terms("option", tuple((str(code), codes[code][0].upper() + codes[code][1:] + ".") for code in sorted(codes)))
