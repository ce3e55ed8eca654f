"""Man pages, generated from the commands: ``python -m jetool.frame.manpages --write man``, ``--check man``.

There is a page per command and one for the program: ``jetool.frame.documents.command_pages`` describes it, and this
module renders it as roff. Additional sections are Markdown files ``PAGE.extra`` in the same directory, inserted before
SEE ALSO. (The package click-man was tried: it supports neither examples nor exit codes, and does not escape text that
roff treats as a request.) The pages of man5 and man7 come from Markdown in the same directory (``manual``); a command's
SEE ALSO lists the pages that refer to it.

``--check`` exits with 1 if a page is missing, differs, or belongs to no command.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from engine.version import VERSION
from jetool.frame import manual
from jetool.frame.documents.command_pages import (
    Block,
    CommandPage,
    Examples,
    Paragraph,
    Section,
    Synopsis,
    Terms,
    Verbatim,
    Written,
    command_pages,
)
from jetool.frame.manual import escape
from jetool.output.messages import Messages

_FONTS: Final = {"option": "B", "argument": "I"}


def pages(directory: Path) -> Iterator[tuple[str, str]]:
    """Name and content of every generated page.

    Arguments:
        directory: the directory of the hand-written sections.
    """
    yield from manual.pages(directory)
    for page in command_pages(directory):
        yield f"{page.name}.1", "".join(_page(page))


def _page(page: CommandPage) -> Iterator[str]:
    yield f'.TH "{escape(page.name.upper())}" "1" "" "jetool {VERSION}" "jetool manual"\n'
    yield f".SH NAME\n{escape(page.name)} \\- {escape(page.about)}\n"
    for section in page.sections:
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    if section.heading is not None:
        yield f".SH {section.heading.upper()}\n"
    before: Block | None = None
    for block in section.blocks:
        # Directly after a heading, and before a list, roff needs no paragraph request.
        if before is not None and not isinstance(block, Terms):
            yield ".PP\n"
        yield _block(block)
        before = block


def _block(block: Block) -> str:
    match block:
        case Synopsis(call, pieces):
            return f".B {escape(call)}\n{escape(pieces)}\n"
        case Paragraph(text):
            return escape(text) + "\n"
        case Verbatim(text):
            return f".nf\n{escape(text)}\n.fi\n"
        case Terms(kind, entries):
            return _list((_term(kind, term), text) for term, text in entries)
        case Examples(entries):
            return _examples(entries)
        case Written(markdown):
            return manual.blocks(markdown)
        case _:
            return ",\n".join(_reference(page) for page in block.pages) + "\n"


def _term(kind: str, term: str) -> str:
    return f"\\f{_FONTS[kind]}{escape(term)}\\fR" if kind in _FONTS else _reference(term)


def _reference(page: str) -> str:
    name, _, rest = page.partition("(")
    return f"\\fB{escape(name)}\\fR({rest}"


def _list(entries: Iterable[tuple[str, str]]) -> str:
    """Tagged paragraphs. Tags are already roff; texts are escaped here."""
    return "".join(f".TP\n{tag}\n{escape(' '.join(text.split()))}\n" for tag, text in entries)


def _examples(examples: Sequence[tuple[str, str]]) -> str:
    parts = [f".PP\n{escape(text)}:\n.PP\n.RS 4\n.nf\n{escape(line)}\n.fi\n.RE\n" for text, line in examples]
    return "".join(parts).removeprefix(".PP\n")


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
