"""What the documents of ``engine/doc`` define, and what the project cites of it.

Definitions stand at the beginning of a line: ``- **R-LOG-31** ...``, ``E-CKPT-4: ...``, a row ``| T-12 | ...`` or
``| D-5 | ...``, a heading ``### 9.2 ...``. Everything else is a citation, in these forms:

=====================================  ============================================
R-LOG-31; T-12; E-RB-1; D-5            that one
R-LOG-40, 41 and 43; R-TXN-24 or 25    each of them
R-CKPT-1 to R-CKPT-55; R-RB-30 to 36   the first, the last, and what is defined between
R-TXN-24 (timeouts), 25 (deadlocks)    both
E-RB                                   the worked examples of that area
je-log-format.md 9.2, 9.3              the sections
je-log-format.md section 15            the section
je-log-format.md 4.1 to 4.3            the first, the last, and what is between
je-behaviour.md                        the document
=====================================  ============================================

A citation may be broken over lines, of a comment too.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from tests.support.harness import REPOSITORY

DOCUMENTS: Final = REPOSITORY / "engine" / "doc"
# Its examples are no citations.
OWN: Final = REPOSITORY / "tests" / "doc"
SUFFIXES: Final = frozenset(
    {".py", ".md", ".java", ".sh", ".txt", ".json", ".toml", ".extra", *(f".{n}" for n in range(1, 10))}
)
PLACES: Final = ("engine", "jetool", "tests", "examples", "man", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")

_DEFINITION: Final = re.compile(r"^(?:- )?\*\*(R-[A-Z]+-\d+)\*\* |^(E-[A-Z]+-\d+)\b|^\| ([TD]-\d+) \|")
_HEADING: Final = re.compile(r"^#{2,4} (\d+(?:\.\d+)*)\.? ")

_FILE: Final = r"(?:je|derby|fe|embedders|opendj)[a-z-]*\.md"
_AND: Final = r"\s*(?:,(?:\s*(?:and|or))?|\band\b|\bor\b)\s+"
_REMARK: Final = r"(?:\s*\([^()]*\))?"
# A number that is neither part of a section's number nor of a word.
_NUMBER: Final = r"(\d+)(?![\w-]|\.\d)"
_RULE: Final = re.compile(r"(?<![\w-])((?:R-[A-Z]+|E-(?:CKPT|REC|RB|VLSN|CLN)|[TD])-)(\d+)(?![\d-])")
_AREA: Final = re.compile(r"(?<![\w-])(E-(?:CKPT|REC|RB|VLSN|CLN))(?![\w-])")
_NEXT: Final = re.compile(_REMARK + _AND + _NUMBER)
_SECTION_NUMBER: Final = r"(\d+(?:\.\d+)*)(?![\w])"
_SECTION: Final = re.compile(rf"({_FILE})(?:,?\s+sections?)?\s+{_SECTION_NUMBER}")
_NEXT_SECTION: Final = re.compile(_AND + _SECTION_NUMBER)
_LAST_SECTION: Final = re.compile(r"\s+to\s+" + _SECTION_NUMBER)
_DOCUMENT: Final = re.compile(rf"(?<![\w-])({_FILE})")
_BARE_SECTION: Final = re.compile(r"\b[Ss]ections? \d")
_BREAK: Final = re.compile(r"\n[ \t]*(?:#|//|\*|\.\\\")?[ \t]*")


class Definition(NamedTuple):
    """A rule, example, scenario, deviation, or section (``je-log-format.md 9.2``)."""

    name: str
    document: str
    line: int


class Citation(NamedTuple):
    """One cited name; ``between`` when it is only in a range, and need not exist."""

    name: str
    path: str
    line: int
    between: bool = False


def definitions() -> list[Definition]:
    """All definitions of all documents, in order."""
    return [one for path in sorted(DOCUMENTS.glob("*.md")) for one in defined_in(path.name, path.read_text())]


def defined_in(document: str, text: str) -> Iterator[Definition]:
    """Definitions of one text. Examples of code do not count."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        if fenced:
            continue
        if found := _DEFINITION.match(line):
            yield Definition(next(filter(None, found.groups())), document, number)
        elif found := _HEADING.match(line):
            yield Definition(f"{document} {found[1]}", document, number)


def texts() -> dict[str, str]:
    """Every text of the project in which something can be cited, by path; the documents too, without definitions."""
    found: dict[str, str] = {}
    for place in PLACES:
        root = REPOSITORY / place
        for path in sorted([root] if root.is_file() else root.rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and path.parent != OWN:
                name = str(path.relative_to(REPOSITORY))
                text = path.read_text(encoding="utf-8")
                found[name] = without_definitions(text) if path.parent == DOCUMENTS else text
    return found


def without_definitions(text: str) -> str:
    """A document with the names that it defines taken out of the beginnings of lines."""
    return "\n".join(_HEADING.sub("## ", _DEFINITION.sub("", line)) for line in text.splitlines())


def cited_in(path: str, text: str, areas: Mapping[str, list[str]]) -> Iterator[Citation]:
    """Citations of one text.

    Arguments:
        path: of the text.
        text: all of it.
        areas: the examples of each area, such as ``E-RB``.
    """
    flat, lines = _flatten(text)
    found = _RULE.search(flat)
    while found:
        names, end = _numbers(flat, found[1], int(found[2]), found.end())
        yield from (Citation(name, path, lines(found.start()), between) for name, between in names)
        found = _RULE.search(flat, end)
    for area in _AREA.finditer(flat):
        for name in areas.get(area[1], [f"{area[1]} (no such area)"]):
            yield Citation(name, path, lines(area.start()))
    for one in _SECTION.finditer(flat):
        for section, between in _sections(flat, one[2], one.end()):
            yield Citation(f"{one[1]} {section}", path, lines(one.start()), between)
    for one in _DOCUMENT.finditer(flat):
        if not _SECTION.match(flat, one.start()):
            yield Citation(one[1], path, lines(one.start()))


def bare_sections(text: str) -> list[str]:
    """Sections cited without their document, each with what stands around it."""
    flat, _ = _flatten(text)
    around = ((found, flat[max(found.start() - 40, 0) : found.end() + 40]) for found in _BARE_SECTION.finditer(flat))
    return [
        words
        for found, words in around
        if not re.search(rf"{_FILE},? $", flat[: found.start()])
        and not re.match(rf"[\d., and]*of {_FILE}", flat[found.end() - 1 :])
    ]


def _flatten(text: str) -> tuple[str, Callable[[int], int]]:
    """The text on one line, without the marks of comments, and the line of each of its positions."""
    pieces, starts, pos = [], [0], 0
    for found in _BREAK.finditer(text):
        pieces.append(text[pos : found.start()] + " ")
        starts.append(starts[-1] + len(pieces[-1]))
        pos = found.end()
    pieces.append(text[pos:])
    return "".join(pieces), lambda position: bisect.bisect_right(starts, position)


def _numbers(flat: str, prefix: str, first: int, end: int) -> tuple[list[tuple[str, bool]], int]:
    """The names that a citation stands for, from its first number on, and where it ends."""
    names: list[tuple[str, bool]] = []
    number = first
    last = re.compile(rf"\s+to\s+(?:{re.escape(prefix)})?{_NUMBER}")
    while True:
        names.append((f"{prefix}{number}", False))
        if found := last.match(flat, end):
            names += ((f"{prefix}{between}", True) for between in range(number + 1, int(found[1])))
            names.append((f"{prefix}{found[1]}", False))
            end = found.end()
        following = _NEXT.match(flat, end)
        if following is None:
            return names, end
        number, end = int(following[1]), following.end()


def _sections(flat: str, first: str, end: int) -> Iterator[tuple[str, bool]]:
    section = first
    while True:
        yield section, False
        if found := _LAST_SECTION.match(flat, end):
            yield from ((between, True) for between in _between(section, found[1]))
            yield found[1], False
            end = found.end()
        following = _NEXT_SECTION.match(flat, end)
        if following is None:
            return
        section, end = following[1], following.end()


def _between(first: str, last: str) -> list[str]:
    """Sections between two of one chapter, or between two chapters."""
    *chapter, low = first.split(".")
    *same, high = last.split(".")
    return [".".join([*chapter, str(n)]) for n in range(int(low) + 1, int(high))] if chapter == same else []
