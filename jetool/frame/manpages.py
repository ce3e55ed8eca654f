"""Man pages, generated from the commands: ``python -m jetool.frame.manpages --write man``, ``--check man``.

There is a page per command and one for the program. Their text has the same sources as ``--help``. Additional sections
are roff files ``PAGE.extra`` in the same directory, inserted before SEE ALSO. (The package click-man was tried: it
supports neither examples nor exit codes, and does not escape text that roff treats as a request.) The pages of man5 and
man7 come from Markdown in the same directory (``manual``); a command's SEE ALSO lists the pages that refer to it.

``--check`` exits with 1 if a page is missing, differs, or belongs to no command.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from engine.version import VERSION
from jetool.frame import cli, exits, manual, table
from jetool.frame.command import Command
from jetool.frame.groups import CommandGroup
from jetool.frame.manual import escape
from jetool.output.messages import Messages


def pages(directory: Path) -> Iterator[tuple[str, str]]:
    """Name and content of every generated page.

    Arguments:
        directory: the directory of the hand-written sections.
    """
    yield from manual.pages(directory)
    about = manual.about(directory)
    program = cli.root()
    yield "jetool.1", "".join(_program(program, _extra(directory, "jetool.1"), about.get("jetool", ())))
    for row in table.COMMANDS:
        found = cli.load(row)
        context = click.Context(found, info_name=f"jetool {row.name}")
        page = f"jetool-{row.name}"
        extra, also = _extra(directory, f"{page}.1"), about.get(page, ())
        if isinstance(found, Command):
            yield f"{page}.1", "".join(_command(found, context, row.help, row.aliases, extra, also))
        elif isinstance(found, CommandGroup):
            yield f"{page}.1", "".join(_group(found, context, row.help, extra, also))
            for inner in found.commands.values():
                assert isinstance(inner, Command)
                path = f"{context.info_name} {inner.name}"
                page = path.replace(" ", "-")
                extra, also = _extra(directory, f"{page}.1"), about.get(page, ())
                inner_context = click.Context(inner, info_name=path)
                help_line = inner.get_short_help_str()
                yield f"{page}.1", "".join(_command(inner, inner_context, help_line, (), extra, also))


def _extra(directory: Path, name: str) -> str:
    path = directory / f"{name}.extra"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _head(path: str, about: str) -> str:
    name = path.replace(" ", "-")
    title = f'.TH "{escape(name.upper())}" "1" "" "jetool {VERSION}" "jetool manual"\n'
    return f"{title}.SH NAME\n{escape(name)} \\- {escape(about[0].lower() + about[1:])}\n"


def _program(program: click.Group, extra: str, also: Sequence[str]) -> Iterator[str]:
    context = click.Context(program, info_name="jetool")
    yield _head("jetool", "administration toolkit for Berkeley DB Java Edition logs")
    yield _synopsis(program, context)
    yield _description(program.help or "")
    for group in table.GROUPS:
        rows = [row for row in table.COMMANDS if row.group == group]
        if rows:
            yield f".SH {group.upper()} COMMANDS\n"
            yield _list((f"\\fBjetool\\-{escape(row.name)}\\fR(1)", row.help + ".") for row in rows)
    yield ".SH GLOBAL OPTIONS\nThey may precede or follow the name of the command, if the command supports them.\n"
    yield _options(program.params, context)
    yield ".SH EXIT STATUS\n" + _codes(exits.TABLE)
    yield extra
    yield _see_also((f"jetool-{row.name}" for row in table.COMMANDS), also)


def _command(
    command: Command, context: click.Context, about: str, aliases: Sequence[str], extra: str, also: Sequence[str]
) -> Iterator[str]:
    yield _head(str(context.info_name), about)
    yield _synopsis(command, context)
    yield _description(command.help or "")
    if aliases:
        yield f".PP\nAlso called {escape(', '.join(aliases))}.\n"
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    if arguments:
        yield ".SH ARGUMENTS\n"
        yield _list((f"\\fI{escape(one.make_metavar(context))}\\fR", one.help or "") for one in arguments)
    yield ".SH OPTIONS\n" + _options(command.params, context)
    yield ".SH EXIT STATUS\n" + _codes({**{code: exits.TABLE[code] for code in exits.ALWAYS}, **command.exits})
    yield _examples(command.examples)
    yield extra
    yield _see_also(["jetool"], also)


def _group(group: CommandGroup, context: click.Context, about: str, extra: str, also: Sequence[str]) -> Iterator[str]:
    path = str(context.info_name).replace(" ", "-")
    yield _head(str(context.info_name), about)
    yield _synopsis(group, context)
    yield _description(group.help or "")
    yield ".SH COMMANDS\n"
    inner = group.commands.items()
    yield _list((f"\\fB{escape(f'{path}-{name}')}\\fR(1)", one.get_short_help_str()) for name, one in inner)
    yield _examples(group.examples)
    yield extra
    yield _see_also(["jetool", *(f"{path}-{name}" for name in group.commands)], also)


def _synopsis(command: click.Command, context: click.Context) -> str:
    pieces = " ".join(piece for piece in command.collect_usage_pieces(context) if piece)
    return f".SH SYNOPSIS\n.B {escape(str(context.info_name))}\n{escape(pieces)}\n"


def _description(text: str) -> str:
    """Paragraphs; one that begins with \\b, Click's mark for text that is not to be wrapped, keeps its lines."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith("\b"):
            parts.append(".nf\n" + escape(paragraph.removeprefix("\b").strip("\n")) + "\n.fi\n")
        else:
            parts.append(escape("\n".join(line.strip() for line in paragraph.splitlines())) + "\n")
    return ".SH DESCRIPTION\n" + ".PP\n".join(parts)


def _options(params: Iterable[click.Parameter], context: click.Context) -> str:
    records = [param.get_help_record(context) for param in params if isinstance(param, click.Option)]
    return _list((f"\\fB{escape(record[0])}\\fR", record[1]) for record in records if record is not None)


def _codes(codes: Mapping[int, str]) -> str:
    return _list((f"\\fB{code}\\fR", codes[code][0].upper() + codes[code][1:] + ".") for code in sorted(codes))


def _list(entries: Iterable[tuple[str, str]]) -> str:
    """Tagged paragraphs. Tags are already roff; texts are escaped here."""
    return "".join(f".TP\n{tag}\n{escape(' '.join(text.split()))}\n" for tag, text in entries)


def _examples(examples: Sequence[tuple[str, str]]) -> str:
    parts = [f".PP\n{escape(text)}:\n.PP\n.RS 4\n.nf\n{escape(line)}\n.fi\n.RE\n" for text, line in examples]
    return ".SH EXAMPLES\n" + "".join(parts).removeprefix(".PP\n")


def _see_also(names: Iterable[str], also: Sequence[str]) -> str:
    """Pages of man1 by name, others as ``jetool-log(5)``."""
    pages = [f"{name}(1)" for name in names] + list(also)
    references = (f"\\fB{escape(name)}\\fR({rest}" for name, _, rest in (page.partition("(") for page in pages))
    return ".SH SEE ALSO\n" + ",\n".join(references) + "\n"


def drift(directory: Path) -> list[str]:
    """Problems of the pages in a directory, one line each."""
    wanted = dict(pages(directory))
    found = {path.name: path.read_text(encoding="utf-8") for path in directory.glob("jetool*.[1-9]")}
    missing = [f"{name} is missing" for name in wanted.keys() - found.keys()]
    stray = [f"{name} belongs to no command" for name in found.keys() - wanted.keys()]
    changed = [
        f"{name} differs from its command" for name in wanted.keys() & found.keys() if wanted[name] != found[name]
    ]
    return sorted(missing + stray + changed)


@click.command()
@click.option("--write", type=click.Path(file_okay=False, path_type=Path), help="Write the pages to this directory.")
@click.option("--check", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Compare them with it.")
def main(write: Path | None, check: Path | None) -> None:
    """Write the man pages, or check that those in a directory are up to date."""
    if write is not None:
        write.mkdir(parents=True, exist_ok=True)
        for name, text in pages(write):
            (write / name).write_text(text, encoding="utf-8")
    problems = drift(check) if check is not None else []
    for problem in problems:
        Messages().warning(problem, hint=f"python -m jetool.frame.manpages --write {check}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
