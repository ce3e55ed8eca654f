"""``jetool help``: the help of a command, or a page of the manual, also where no ``man`` is installed.

The pages are those of man5 and man7, from the checkout or the installation. ``as_text`` reads the few requests of roff
that ``jetool.frame.manual`` writes.

Example: ``.TP`` and the lines ``\\fB\\-\\-full\\fR`` and ``Read everything.`` become ``--full`` and, indented, ``Read
everything.``
"""

from __future__ import annotations

import re
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from engine.errors import NotFoundError
from jetool.frame import exits
from jetool.frame.command import Outputs, command
from jetool.frame.options import Run

_PAGE: Final = re.compile(r"jetool-(.+)\.([57])")
_WIDTH: Final = 100
_STEP: Final = "    "
# Characters that roff writes by name.
_CHARACTERS: Final = {"aq": "'", "bu": "*", "dq": '"', "ga": "`", "ha": "^", "ti": "~"}


@command(
    "help",
    outputs=lambda: Outputs("text"),
    formats=("text",),
    examples=(
        ("The options of a command", "jetool help verify"),
        ("What to run when an environment is in trouble", "jetool help runbook"),
    ),
    exits={exits.DONE: "the text was printed", exits.NOT_FOUND: "no command and no page has this name"},
)
@click.argument("words", nargs=-1, metavar="[COMMAND | PAGE]", help="A command (vlsn map), or a page (runbook).")
def help_page(run: Run, words: tuple[str, ...]) -> int:
    """Print the help of a command, or a page of the manual as text; without a name all commands and all pages."""
    found = _pages()
    text = _help_of(words)
    if text is not None:
        names = textwrap.fill(", ".join(sorted(found)), _WIDTH, initial_indent="  ", subsequent_indent="  ")
        run.out.text(text if words else f"{text}\n\nPages of the manual (jetool help PAGE):\n{names}")
        return exits.DONE
    path = found.get(words[0].removeprefix("jetool-")) if len(words) == 1 else None
    if path is None:
        raise NotFoundError(
            f"no command and no page of the manual is called {' '.join(words)!r}",
            hint="jetool help lists both" if found else "jetool help lists the commands; the pages are not installed",
        )
    run.out.text(as_text(path.read_text(encoding="utf-8")))
    return exits.DONE


def _help_of(words: tuple[str, ...]) -> str | None:
    """The help of the program or of a command; None if the words do not name one."""
    from jetool.frame import cli

    found: click.Command = cli.root()
    context = click.Context(found, info_name="jetool", max_content_width=_WIDTH)
    for word in words:
        inner = found.get_command(context, word) if isinstance(found, click.Group) else None
        if inner is None:
            return None
        found, context = inner, click.Context(inner, info_name=word, parent=context, max_content_width=_WIDTH)
    return found.get_help(context)


def _pages() -> dict[str, Path]:
    """The pages of man5 and man7 by name: ``runbook``, ``log``."""
    checkout = Path(__file__).parents[2] / "man"
    installed = Path(sysconfig.get_path("data"), "share", "man")
    found = {}
    for directory in (installed / "man5", installed / "man7", checkout):
        for path in sorted(directory.glob("jetool-*.[57]")):
            match = _PAGE.fullmatch(path.name)
            if match is not None:
                found[match[1]] = path
    return found


def as_text(page: str) -> str:
    """A page as plain text of at most 100 columns.

    Arguments:
        page: roff with the requests that ``jetool.frame.manual`` writes.
    """
    return "\n".join(_blocks(page.splitlines())).strip("\n")


def _blocks(lines: list[str]) -> Iterator[str]:
    """Lines of text: headings at the margin, paragraphs indented, examples as they are."""
    paragraph: list[str] = []
    indent, verbatim = _STEP, False
    rest = iter(lines)
    for line in rest:
        request, _, words = line.partition(" ")
        if verbatim and request not in (".fi", ".EE"):
            yield _STEP * 2 + _plain(line)
            continue
        if not line.startswith("."):
            paragraph.append(_plain(line))
            continue
        if request == ".B":
            paragraph.append(_plain(words))
            continue
        yield from _filled(paragraph, indent)
        paragraph = []
        if request in (".SH", ".SS"):
            indent = _STEP
            yield from ("", ("" if request == ".SH" else "  ") + _plain(words).strip('"'))
        elif request == ".PP":
            indent = _STEP
            yield ""
        elif request in (".TP", ".IP"):
            # The number after a bullet is the width of its column.
            term = words.removesuffix(" 3") if request == ".IP" else next(rest, "").removeprefix(".B ")
            yield _STEP + _plain(term).strip('"')
            indent = _STEP * 2
        elif request in (".nf", ".EX"):
            verbatim = True
        elif request in (".fi", ".EE"):
            verbatim = False
    yield from _filled(paragraph, indent)


def _filled(paragraph: list[str], indent: str) -> list[str]:
    return textwrap.wrap(
        " ".join(paragraph),
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _plain(text: str) -> str:
    """Text without fonts and escapes."""
    text = re.sub(r"\\f.", "", text).replace(r"\&", "").replace(r"\-", "-")
    for name, character in _CHARACTERS.items():
        text = text.replace(rf"\({name}", character)
    return text.replace(r"\e", "\\").replace("\\\\", "\\")
