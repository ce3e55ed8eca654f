"""The pages of man5 and man7: prose in Markdown beside the pages, tables from the codecs and the commands.

``python -m jetool.frame.manpages`` generates ``man/jetool-recovery.7`` from ``man/jetool-recovery.7.md``. These
elements of Markdown are supported, which are enough for a terminal:

* ``# name(7): what it is`` on the first line; ``## Heading``, ``### Heading``; paragraphs; lists of ``- `` or ``* ``;
* a term on a line of its own, and on the next line its meaning after ``:`` and a blank (a definition list);
* tables of ``|``, and code in fences, both printed as they are;
* ``**bold**``, ``*italic*``, `` `code` ``; ``jetool-info(1)`` becomes a reference;
* ``{{entry types}}`` alone on a line inserts one of ``TABLES``, which are generated from the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from engine.format.entry.file_header import FILE_HEADER_BODY
from engine.format.entry_types import ENTRY_TYPES, GROUPS
from engine.format.header import (
    BEFORE_CKPT_END,
    HEADER,
    HEADER_BYTES,
    INVISIBLE,
    PROVISIONAL,
    REPLICATED,
    VERSION_BITS_V6,
    VLSN_FIELD,
    VLSN_PRESENT,
)
from engine.format.versions import (
    HIGHEST_TYPE,
    INVISIBLE_BIT,
    JE_RELEASES,
    OLDEST_CONTINUED,
    VLSN_PRESENT_BIT,
    continued_in,
)
from engine.version import VERSION
from jetool.frame import cli, table
from jetool.frame.command import Command

SOURCE: Final = ".md"
REFERENCE: Final = re.compile(r"\b(jetool(?:-[a-z-]+)?)\((\d)\)")
_INLINE: Final = re.compile(r"(`[^`]+`|\*\*[^*]+\*\*|(?<!\w)\*[^*\s][^*]*\*(?!\w)|\bjetool(?:-[a-z-]+)?\(\d\))")
_TYPES: Final = {"B": "u8", "H": "u16", "I": "u32", "i": "i32", "q": "i64"}
_SIZES: Final = {"B": 1, "H": 2, "I": 4, "i": 4, "q": 8}


def escape(text: str) -> str:
    """Escape a text so that roff prints it unchanged: no requests, no escapes, no typographic hyphens or quotes."""
    # Replace the backslash first, because the other replacements insert backslashes.
    for plain, escaped in (("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha"), ("~", "\\(ti")):
        text = text.replace(plain, escaped)
    # A dot at the start of a line would be a request.
    return re.sub(r"^\.", r"\\&.", text, flags=re.MULTILINE)


def sources(directory: Path) -> list[Path]:
    """The Markdown of the pages, in order."""
    return sorted(directory.glob(f"jetool-*.[57]{SOURCE}"))


def pages(directory: Path) -> Iterator[tuple[str, str]]:
    """Name and content of every page of man5 and man7.

    Arguments:
        directory: the directory of the Markdown.
    """
    for path in sources(directory):
        yield path.name.removesuffix(SOURCE), page(path.read_text(encoding="utf-8"))


def about(directory: Path) -> dict[str, list[str]]:
    """By command or program, the pages of man5 and man7 that list it under SEE ALSO, as ``jetool-log(5)``."""
    found: dict[str, list[str]] = {}
    for path in sources(directory):
        text = path.read_text(encoding="utf-8")
        title = re.search(REFERENCE, text)
        assert title is not None, path
        for name, section in REFERENCE.findall(text.partition("## See also")[2]):
            if section == "1":
                found.setdefault(name, []).append(title[0])
    return found


def page(text: str) -> str:
    """One page as roff."""
    first, _, rest = text.partition("\n")
    found = re.fullmatch(r"# (\S+)\((\d)\): (.*)", first)
    assert found is not None, first
    name, section, what = found.groups()
    head = f'.TH "{escape(name.upper())}" "{section}" "" "jetool {VERSION}" "jetool manual"\n'
    return f"{head}.SH NAME\n{escape(name)} \\- {escape(what)}\n" + blocks(rest)


def blocks(text: str) -> str:
    """The part of a page after its first line, as roff."""
    return "".join(_blocks(text.splitlines()))


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    """The blocks of a page, one after the other."""
    paragraph: list[str] = []
    fresh = True  # Directly after a heading, roff needs no paragraph request.
    at = 0
    while at < len(lines):
        line = lines[at]
        block = ""
        if line.startswith("```"):
            end = lines.index("```", at + 1)
            block, at = _as_it_is(lines[at + 1 : end], fresh or bool(paragraph)), end
        elif line.startswith("|"):
            end = at + next((n for n, one in enumerate(lines[at:]) if not one.startswith("|")), len(lines) - at)
            rows = [[cell.strip() for cell in one.strip("|").split("|")] for one in lines[at:end]]
            # The second row of a Markdown table is the separator line.
            block, at = _as_it_is(_columns([rows[0], *rows[2:]]), fresh or bool(paragraph)), end - 1
        elif found := re.fullmatch(r"\{\{(.+)\}\}", line):
            block = _as_it_is(_columns(TABLES[found[1]]()), fresh or bool(paragraph))
        elif line.startswith("#"):
            level, _, title = line.partition(" ")
            block = f".SH {escape(title.upper())}\n" if level == "##" else f".SS {escape(title)}\n"
        elif line.startswith(("- ", "* ", ": ")):
            body = [line[2:]]
            while at + 1 < len(lines) and lines[at + 1].startswith("  "):
                at += 1
                body.append(lines[at])
            words = _inline(" ".join(part.strip() for part in body))
            tag = _inline(paragraph.pop()) if line.startswith(":") else ""
            block = f".TP\n{tag}\n{words}\n" if tag else f".IP \\(bu 3\n{words}\n"
        elif line.strip():
            paragraph.append(line.strip())
        # A block ends the previous paragraph even without a blank line.
        if paragraph and (block or not line.strip()):
            yield ("" if fresh else ".PP\n") + "\n".join(_inline(one) for one in paragraph) + "\n"
            paragraph, fresh = [], False
        if block:
            yield block
            fresh = line.startswith("#")
        at += 1
    if paragraph:
        yield ("" if fresh else ".PP\n") + "\n".join(_inline(one) for one in paragraph) + "\n"


def _inline(text: str) -> str:
    """Words with their fonts."""
    parts = []
    for part in _INLINE.split(text):
        if reference := REFERENCE.fullmatch(part):
            parts.append(f"\\fB{escape(reference[1])}\\fR({reference[2]})")
        elif len(part) > 2 and part.startswith("`"):
            parts.append(f"\\fB{escape(part[1:-1])}\\fR")
        elif len(part) > 4 and part.startswith("**"):
            parts.append(f"\\fB{escape(part[2:-2])}\\fR")
        elif len(part) > 2 and part.startswith("*") and part.endswith("*"):
            parts.append(f"\\fI{escape(part[1:-1])}\\fR")
        else:
            parts.append(escape(part))
    return "".join(parts)


def _as_it_is(lines: Iterable[str], first: bool) -> str:
    body = "\n".join(escape(line) for line in lines)
    return ("" if first else ".PP\n") + f".RS 2\n.nf\n{body}\n.fi\n.RE\n"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in aligned columns, with a line under its head."""
    rows = [[cell.replace("`", "") for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


# What the code knows.


def _layout(formats: str, fields: Sequence[tuple[str, str]], at: int = 0) -> list[list[str]]:
    """Offset, type and field of a structure, by its format."""
    rows = []
    for letter, (name, meaning) in zip(formats.lstrip("<"), fields, strict=True):
        rows.append([str(at), _TYPES[letter], name, meaning])
        at += _SIZES[letter]
    return rows


def _entry_header() -> list[list[str]]:
    fields = [
        ("checksum", "Adler-32 of all that follows, body included"),
        ("type", "entry type, see ENTRY TYPES"),
        ("flags", "see FLAGS"),
        ("prevOffset", "where the header of the previous entry begins, in this file"),
        ("item size", "bytes of the body"),
    ]
    vlsn = [("VLSN", "only when the flags say so")]
    return [
        ["offset", "type", "field", "meaning"],
        *_layout(HEADER.format, fields),
        *_layout(VLSN_FIELD.format, vlsn, HEADER_BYTES),
    ]


def _file_header() -> list[list[str]]:
    fields = [
        ("time", "creation, milliseconds since 1970"),
        ("file number", "the number in the file's name"),
        ("last entry", "offset of the last entry of the previous file; 0 in file 0"),
        ("log version", "of all entries in this file"),
    ]
    return [["offset", "type", "field", "meaning"], *_layout(FILE_HEADER_BODY.format, fields, HEADER_BYTES)]


def _flags() -> list[list[str]]:
    return [
        ["bit", "name", "since", "meaning"],
        [f"0x{PROVISIONAL:02x}", "provisional YES", "", "recovery never replays it"],
        [f"0x{BEFORE_CKPT_END:02x}", "BEFORE_CKPT_END", "", "not replayed before the CkptEnd that recovery uses"],
        [f"0x{REPLICATED:02x}", "replicated", "", "of the replication stream; a VLSN follows"],
        [f"0x{INVISIBLE:02x}", "invisible", f"v{INVISIBLE_BIT}", "rolled back; the checksum is taken without this bit"],
        [f"0x{VLSN_PRESENT:02x}", "VLSN present", f"v{VLSN_PRESENT_BIT}", "a VLSN follows"],
        [f"0x{VERSION_BITS_V6:02x}", "version", "", "until v6, in place of the two above: the version of the entry"],
    ]


def _entry_types() -> list[list[str]]:
    rows = [["no", "name", "kind", "txn", "rep", "versions", "groups"]]
    for one in ENTRY_TYPES:
        written = f"{one.since}-" if one.until is None else f"{one.since}-{one.until}"
        stream = "sync" if one.sync_point else "yes" if one.replicable else ""
        name = one.name.replace("_WITH_BEFORE_IMAGE", "_WITH_...")
        rows.append(
            [
                str(one.number),
                name,
                one.family,
                "yes" if one.transactional else "",
                stream,
                written,
                " ".join(one.groups),
            ]
        )
    return rows


def _versions() -> list[list[str]]:
    rows = [["version", "first JE", "highest type", "continued in"]]
    for version, release in JE_RELEASES.items():
        continued = str(continued_in(version)) if version >= OLDEST_CONTINUED else "-"
        rows.append([str(version), release, str(HIGHEST_TYPE[version]), continued])
    return rows


def _groups() -> list[list[str]]:
    rows = [["group", "types"]]
    for group in GROUPS:
        rows.append([group, " ".join(str(one.number) for one in ENTRY_TYPES if group in one.groups)])
    return rows


def _recover_fields() -> list[list[str]]:
    from engine.fields import shape_of

    outputs = _command("recover").outputs()
    report = next(shape for shape in map(shape_of, outputs.records) if shape.rec == "recovered")
    return [
        ["field", "meaning"],
        *([field.name, field.help] for field in report.fields if field.name != "environment"),
    ]


def _command(name: str) -> Command:
    found = cli.load(next(row for row in table.COMMANDS if row.name == name))
    assert isinstance(found, Command)
    return found


def _exits(name: str) -> Callable[[], list[list[str]]]:
    def rows() -> list[list[str]]:
        found = _command(name)
        return [["code", "meaning"], *([str(code), found.exits[code]] for code in sorted(found.exits))]

    return rows


TABLES: Final[dict[str, Callable[[], list[list[str]]]]] = {
    "entry header": _entry_header,
    "file header": _file_header,
    "flags": _flags,
    "entry types": _entry_types,
    "groups": _groups,
    "versions": _versions,
    "fields of recover": _recover_fields,
    "exits of recover": _exits("recover"),
    "exits of undo": _exits("undo"),
}
