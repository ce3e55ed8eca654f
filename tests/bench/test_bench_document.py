"""The document of figures has one place for each bench, and a bench changes its own place only."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.bench import document, je_groups


def test_the_document_has_a_place_for_every_bench() -> None:
    text = document.DOCUMENT.read_text()
    assert re.findall(r"<!-- bench: (\S+) -->", text) == list(document.SECTIONS)
    assert text.count("<!-- end of bench -->") == len(document.SECTIONS)


def test_every_place_holds_the_figures_of_its_own_bench() -> None:
    text = document.DOCUMENT.read_text()
    for name, words in document.SECTIONS.items():
        place = text.partition(f"<!-- bench: {name} -->\n")[2].partition("<!-- end of bench -->")[0]
        assert place.startswith(f"`python -m {shlex.join(words)}`, 20"), f"{name}: not written by the bench"


def test_a_section_is_replaced_and_nothing_else() -> None:
    text = document.DOCUMENT.read_text()
    made = document.replaced(text, "derby", "MEASURED")
    before, _, rest = text.partition("<!-- bench: derby -->\n")
    assert made == f"{before}<!-- bench: derby -->\nMEASURED\n{rest[rest.index('<!-- end of bench -->') :]}"
    with pytest.raises(KeyError):
        document.replaced(text, "no such bench", "")


def test_figures_say_how_they_were_measured() -> None:
    text = document.figures(("tests.bench.derby",), "redo 3 s\n", "")
    assert re.match(r"`python -m tests\.bench\.derby`, \d{4}-\d\d-\d\d, \d+ cores, ", text)
    assert text.endswith("```text\nredo 3 s\n```")


def test_without_je_a_section_of_its_logs_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    before = document.DOCUMENT.read_bytes()
    assert document.main(["command-lines", "--je-classpath", ""]) == 0
    said = capsys.readouterr().err
    assert "command-lines is left as it is: JE writes its logs; name JE's classes with --je-classpath" in said
    assert document.DOCUMENT.read_bytes() == before


def test_groups_are_judged_by_the_rate_of_je(capsys: pytest.CaptureFixture[str]) -> None:
    """In the same run: all of it with SYNC, half of it with NO_SYNC."""
    rates = {("SYNC", 1, "JE"): [200.0], ("SYNC", 1, "jetool"): [210.0, 100.0, 300.0]}
    assert not je_groups.print_rates(rates)
    assert je_groups.print_rates({**rates, ("NO_SYNC", 8, "JE"): [900.0], ("NO_SYNC", 8, "jetool"): [440.0]})
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split(maxsplit=4)[4] == "210 commits/s   1.05 of JE's, at least 1.0: kept"
    assert lines[-1].endswith("440 commits/s   0.49 of JE's, at least 0.5: MISSED")
