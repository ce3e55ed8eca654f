"""Every citation of a rule, an example, a scenario, a deviation or a section has exactly one home in engine/doc."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from tests.doc.citations import (
    DOCUMENTS,
    Citation,
    bare_sections,
    cited_in,
    defined_in,
    definitions,
    texts,
    without_definitions,
)

AREAS = {"E-RB": ["E-RB-1", "E-RB-2"]}
# The beginning of a rule's or an example's name that goes on in a way which the parser does not know.
ODD = re.compile(
    r"(?<![\w-])(?:R-[A-Z]{2,}\b(?!-\d)|(?:R-[A-Z]{2,}|E-(?:CKPT|REC|RB|VLSN|CLN)|[TD])-\d++[-\w/][^\n]{0,10})"
)
# They make names from pieces.
NAMES_BUILT = ("tests/scenarios/table.py",)


def areas() -> dict[str, list[str]]:
    found = defaultdict(list)
    for one in definitions():
        if one.name.startswith("E-"):
            found[one.name.rpartition("-")[0]].append(one.name)
    return found


def names(text: str) -> list[str]:
    return [one.name for one in cited_in("text", text, AREAS)]


def whole(text: str) -> list[str]:
    return [one.name for one in cited_in("text", text, AREAS) if not one.between]


@pytest.fixture(scope="module")
def citations() -> list[Citation]:
    known = areas()
    return [one for path, text in texts().items() for one in cited_in(path, text, known)]


def test_everything_is_defined_once() -> None:
    twice = [name for name, count in Counter(one.name for one in definitions()).items() if count > 1]
    assert twice == []


def test_the_documents_define_what_they_are_known_for() -> None:
    """So that a change of form does not empty the other tests."""
    found = Counter(one.name.partition("-")[0] for one in definitions())
    assert found["R"] > 300
    assert found["T"] == 91
    assert found["E"] >= 19
    assert found["D"] >= 14
    sections = Counter(one.document for one in definitions() if one.name.startswith(one.document))
    assert {path.name for path in DOCUMENTS.glob("*.md")} >= set(sections)
    assert sections["je-log-format.md"] > 80
    assert sections["je-behaviour.md"] > 50


def test_citations_lead_somewhere(citations: list[Citation]) -> None:
    known = {one.name for one in definitions()} | {path.name for path in DOCUMENTS.glob("*.md")}
    assert [str(one) for one in citations if not one.between and one.name not in known] == []


def test_nothing_that_looks_like_a_citation_is_overlooked() -> None:
    """Another form of a name (``R-LOG section 0``, ``R-DRB-...``) would be passed over by all of the other tests."""
    odd = {path: ODD.findall(text) for path, text in texts().items() if path not in NAMES_BUILT}
    assert {path: found for path, found in odd.items() if found} == {}


def test_citations_of_the_code_are_found(citations: list[Citation]) -> None:
    """The parser does not overlook them: there are this many, in these places, of each kind."""
    outside = [one for one in citations if not one.path.startswith("engine/doc/")]
    assert len([one for one in outside if not one.between]) > 700
    assert len({one.path for one in outside}) > 150
    kinds = Counter(
        one.name.partition("-")[0] for one in outside if not one.name.endswith(".md") and " " not in one.name
    )
    assert kinds["R"] > 400
    assert kinds["T"] > 150
    assert kinds["E"] > 40
    assert kinds["D"] > 20
    assert len([one for one in outside if ".md " in one.name]) > 80


def test_sections_are_cited_with_their_document() -> None:
    found = {
        path: bare_sections(text) for path, text in texts().items() if not path.startswith(("engine/doc/", "man/"))
    }
    assert {path: words for path, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the end of the log (R-LOG-31).", ["R-LOG-31"]),
        ("R-LOG-40 and 41 (checksums), R-LOG-43 (bounds)", ["R-LOG-40", "R-LOG-41", "R-LOG-43"]),
        ("R-LOG-30, 31, 40 or 41, and 43; 44", ["R-LOG-30", "R-LOG-31", "R-LOG-40", "R-LOG-41", "R-LOG-43"]),
        ("R-TXN-24 (timeouts), 25 (deadlocks, late), 26", ["R-TXN-24", "R-TXN-25", "R-TXN-26"]),
        ("R-REC-60 to R-REC-62)", ["R-REC-60", "R-REC-61", "R-REC-62"]),
        ("R-RB-30 to 32.", ["R-RB-30", "R-RB-31", "R-RB-32"]),
        ("R-TXN-1 to 3, 20 and 24 to 25 of", ["R-TXN-1", "R-TXN-2", "R-TXN-3", "R-TXN-20", "R-TXN-24", "R-TXN-25"]),
        ("(R-CKPT-30,\n31).", ["R-CKPT-30", "R-CKPT-31"]),
        ("# (R-CLN-1 to\n# R-CLN-3)", ["R-CLN-1", "R-CLN-2", "R-CLN-3"]),
        ("(R-VLSN-75,\n    R-REC-63)", ["R-VLSN-75", "R-REC-63"]),
        ("R-SYNC-3 to R-SYNC-4, 7.3", ["R-SYNC-3", "R-SYNC-4"]),
        ("R-VLSN-9: 1 to 6 fit", ["R-VLSN-9"]),
        ("T-13, T-15 to T-17: 5", ["T-13", "T-15", "T-16", "T-17"]),
        ("E-RB-1 to 3 and the tests T-1", ["E-RB-1", "E-RB-2", "E-RB-3", "T-1"]),
        ("(section, E-RB)", ["E-RB-1", "E-RB-2"]),
        ("deviation D-5.", ["D-5"]),
        ("UTF-8, CVE-2, AT-5, 1E-4, INS-T-3, je-6, T-shirt", []),
    ],
)  # fmt: skip
def test_forms_of_rules(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(je-log-format.md 9.3).", ["je-log-format.md 9.3"]),
        ("je-log-format.md 9.2, 9.3)", ["je-log-format.md 9.2", "je-log-format.md 9.3"]),
        ("je-log-format.md 3.8 and 16.", ["je-log-format.md 3.8", "je-log-format.md 16"]),
        ("je-log-format.md sections 1 and 15. A", ["je-log-format.md 1", "je-log-format.md 15"]),
        ("je-log-format.md section 5)", ["je-log-format.md 5"]),
        ("je-log-format.md 4.1 to 4.3, 8.5", [f"je-log-format.md {n}" for n in ("4.1", "4.2", "4.3", "8.5")]),
        ("je-log-format.md 6 to 8)", [f"je-log-format.md {n}" for n in (6, 7, 8)]),
        ("(derby-log-format.md\n# 11.2).", ["derby-log-format.md 11.2"]),
        ("je-log-format.md 2; R-LOG-14, 30", ["R-LOG-14", "R-LOG-30", "je-log-format.md 2"]),
        ("of je-behaviour.md.", ["je-behaviour.md"]),
        ("README.md 3", []),
    ],
)
def test_forms_of_sections(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_what_is_between_may_be_missing() -> None:
    assert whole("R-LOG-15 to R-LOG-20") == ["R-LOG-15", "R-LOG-20"]
    assert whole("je-log-format.md 4.1 to 4.3") == ["je-log-format.md 4.1", "je-log-format.md 4.3"]


def test_lines_of_citations() -> None:
    text = "R-LOG-1\n    # R-LOG-2, R-LOG-3 to\n    # R-LOG-5\nR-LOG-6"
    found = [(one.name, one.line) for one in cited_in("text", text, {}) if not one.between]
    assert found == [("R-LOG-1", 1), ("R-LOG-2", 2), ("R-LOG-3", 2), ("R-LOG-5", 2), ("R-LOG-6", 4)]


def test_forms_of_definitions() -> None:
    text = """\
## 9. Databases
### 9.1 One
- **R-LOG-1** A
**R-DRB-2** B [V]
E-RB-1, C
| T-1 | D |
| D-1 | E |
```
## 4. no
```
see R-LOG-4
#### a
- R-LOG-7 no
"""
    found = [one.name for one in defined_in("x.md", text)]
    assert found == ["x.md 9", "x.md 9.1", "R-LOG-1", "R-DRB-2", "E-RB-1", "T-1", "D-1"]
    assert names(without_definitions(text)) == ["R-LOG-4", "R-LOG-7"]


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("(section 5)", True),
        ("Sections 4.6, 5", True),
        ("je-log-format.md section 5", False),
        ("je-log-format.md, section 5", False),
        ("section 5 of je-log-format.md", False),
        ("sections 4.6 and 5 of je-behaviour.md", False),
        ("a section of 5", False),
    ],
)
def test_bare_sections(text: str, bare: bool) -> None:
    assert bool(bare_sections(text)) == bare
