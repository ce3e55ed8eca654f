"""Pages of the manual as Markdown for MkDocs: those of the commands, and those of man5 and man7.

Text of commands is plain, so what Markdown would read as markup is escaped. ``jetool-info(1)`` becomes a link.

Example: the option ``--type TYPE`` with the help ``Only *_LN entries.`` becomes a definition list::

    `--type TYPE`
    :   Only \\*\\_LN entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from jetool.frame import manual
from jetool.frame.documents.command_pages import (
    Block,
    CommandPage,
    Examples,
    Handwritten,
    Paragraph,
    Synopsis,
    Terms,
    Verbatim,
)

# Where the pages of the sections lie in the site.
COMMANDS: Final = "commands"
TOPICS: Final = "manual"
_PROGRAM: Final = "jetool"
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]])")
_FIRST: Final = re.compile(r"^(\d+)\.|^([-+#>:~|])")
_CODE: Final = re.compile(r"(`[^`]+`)")
_ITEM: Final = re.compile(r"^(: |- |\* )")
# An item of a list in a document, whose later lines are indented to the column after its mark.
_MARK: Final = re.compile(r"^([-*+] |\d+\. )")
_COLUMNS: Final = 4


def path_of(name: str, section: str) -> str:
    """Where a page of the manual lies below the root of the site.

    Arguments:
        name: as ``jetool-vlsn-check``.
        section: of the manual: ``1``, ``5`` or ``7``.
    """
    short = name.removeprefix(f"{_PROGRAM}-")
    if section == "1":
        return f"{COMMANDS}/{'index' if name == _PROGRAM else short}.md"
    return f"{TOPICS}/{short}.md"


def command_markdown(page: CommandPage) -> str:
    """The page of a command."""
    parts = [f"# {page.path}", escape_markdown(page.about[0].upper() + page.about[1:] + ".")]
    for section in page.sections:
        if section.heading is not None:
            parts.append(f"## {section.heading}")
        parts.extend(_block(block) for block in section.blocks)
    return _joined(parts)


def topic_markdown(text: str) -> str:
    """A page of man5 or man7, from its own Markdown."""
    first, _, rest = text.partition("\n")
    found = re.fullmatch(r"# (\S+)\((\d)\): (.*)", first)
    assert found is not None, first
    what = found[3][0].upper() + found[3][1:]
    return _joined([f"# {what}", f"*{found[1]}({found[2]})*", _written(rest)])


def document_markdown(text: str) -> str:
    """A document of ``engine/doc``, with the lists that MkDocs needs: it takes an item's later lines only if they are
    indented by four columns, and a list after a paragraph of an item only after a blank line."""
    return "\n".join(_relisted(text.splitlines())) + "\n"


def _relisted(lines: Sequence[str]) -> Iterator[str]:
    width = 0  # Columns of the mark of the list's items; 0 outside a list.
    before = ""
    fenced = parted = False
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if not fenced and line and not depth:
            mark = _MARK.match(line)
            if mark and width and parted and before.startswith(" "):
                yield ""
            if mark and (width or not before or before.startswith("#")):
                width, parted = len(mark[0]), False
            elif not before or line.startswith(("#", "```")):
                width = 0
        elif width and depth >= width:
            # Code keeps its own columns after those of the item.
            inner = depth - width if fenced else (depth // width - 1) * _COLUMNS
            line = " " * (_COLUMNS + inner) + line.lstrip()
        fenced ^= line.lstrip().startswith("```")
        parted |= not line
        before = line
        yield line


def escape_markdown(text: str) -> str:
    """Escape a text so that Markdown prints it unchanged, in one line; references to pages become links."""
    words = " ".join(text.split())
    words = _MARKUP.sub(r"\\\1", words).replace("&", "&amp;").replace("<", "&lt;")
    words = _FIRST.sub(lambda found: f"{found[1]}\\." if found[1] else f"\\{found[2]}", words)
    return _linked(words)


def _block(block: Block) -> str:
    match block:
        case Synopsis(call, pieces):
            return _fenced(f"{call} {pieces}".rstrip())
        case Paragraph(text):
            return escape_markdown(text)
        case Verbatim(text):
            return _fenced(text)
        case Terms(kind, entries):
            return _definitions(kind, entries)
        case Examples(entries):
            return "\n\n".join(f"{escape_markdown(text)}:\n\n{_fenced(line, 'sh')}" for text, line in entries)
        case Handwritten(markdown):
            return _written(markdown)
        case _:
            return ", ".join(_linked(page) for page in block.pages)


def _definitions(kind: str, entries: Sequence[tuple[str, str]]) -> str:
    terms = ((_linked(term) if kind == "page" else f"`{term}`", escape_markdown(text)) for term, text in entries)
    return "\n\n".join(f"{term}\n:   {text or '-'}" for term, text in terms)


def _written(text: str) -> str:
    """Markdown by hand: tables from the code, links, and lists as MkDocs reads them."""
    return "\n".join(_lines(text.strip("\n").splitlines()))


def _lines(lines: Sequence[str]) -> Iterator[str]:
    fenced = False
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and (table := re.fullmatch(r"\{\{(.+)\}\}", line)):
            yield from _table(manual.TABLES[table[1]]())
            continue
        elif not fenced:
            parts = _CODE.split(_ITEM.sub(lambda found: f"{found[1]}  ", line))
            line = "".join(part if part.startswith("`") else _linked(part) for part in parts)
            # Later lines of an item: four columns for Markdown, two in the page.
            line = f"  {line}" if line.startswith("  ") else line
        yield line


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield ""
    for number, row in enumerate(rows):
        yield "| " + " | ".join(escape_markdown(cell).replace("|", "&#124;") for cell in row) + " |"
        if number == 0:
            yield "|" + " --- |" * len(row)
    yield ""


def _linked(text: str) -> str:
    return manual.REFERENCE.sub(lambda found: f"[{found[0]}](../{path_of(found[1], found[2])})", text)


def _fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text}\n```"


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(parts) + "\n"
