"""The meaning of every finding code, as ``explain`` prints it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from engine.diagnosis.codes import explain_findings, finding_rules, rule_of
from engine.verify.report import ERROR, NOTE, WARNING
from tests.support.harness import run

SOURCES: Final = Path(__file__).resolve().parents[2] / "engine"
_CODE: Final = re.compile(r'"((?:JE|DRB|START)(?:-[A-Z]+)?-[0-9]{3})"')


def test_every_code_of_the_engine_has_its_rule() -> None:
    named = {code for file in SOURCES.rglob("*.py") for code in _CODE.findall(file.read_text())}
    assert len(named) > 100
    assert named == set(finding_rules())
    for code, rule in finding_rules().items():
        assert rule.code == code
        assert rule.severity in {ERROR, WARNING, NOTE}
        assert all((rule.title, rule.consequence, rule.remedy))


def test_a_code_may_be_typed_in_lower_case() -> None:
    assert rule_of("je-tail-002") == rule_of("JE-TAIL-002") is not None
    assert rule_of("JE-TAIL-999") is None


def test_codes_of_a_report_are_explained_once() -> None:
    text = "ERROR JE-TAIL-002 00000005.jdb 0x5/0x80e\n  x\nNOTE JE-TAIL-001 a\nERROR JE-TAIL-002 00000006.jdb 0x6/0x1\n"
    first, second = explain_findings(text)
    assert (first.word, first.count, first.first_line, first.last_line) == ("JE-TAIL-002", 2, 1, 4)
    assert list(first.lsns) == [0x5_0000080E, 0x6_00000001]
    assert (second.word, second.count) == ("JE-TAIL-001", 1)


@pytest.mark.parametrize(
    ("code", "risk", "exit_code"),
    [("JE-TAIL-002", "data", 1), ("je-tail-001", "none", 0), ("DRB-CTL-002", "check", 0), ("START-001", "node", 0)],
)
def test_explain_takes_a_code(code: str, risk: str, exit_code: int) -> None:
    done = run("explain", code, "--json")
    (message,) = done.json()["messages"]
    assert (done.code, message["message"], message["risk"]) == (exit_code, code.upper(), risk)
    rule = rule_of(code)
    assert rule is not None
    assert (message["cause"], message["next"]) == (f"{rule.title}; consequence: {rule.consequence}", rule.remedy)


def test_explain_refuses_a_code_that_is_not_there() -> None:
    done = run("explain", "JE-TAIL-999")
    assert done.code == 4
    assert "neither a message of JE or Derby nor a finding code" in done.err
