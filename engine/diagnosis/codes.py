"""The meaning of every finding code: those of ``verify`` for JE and Derby, and those of ``doctor``.

A code such as ``JE-TAIL-002`` in a monitor or a report is enough to look up what is wrong, what follows from it, and
what to do::

    rule_of("JE-TAIL-002").title        # damage in the last file with committed work after it
"""

from __future__ import annotations

import re
from typing import Final

from engine.derby.verify.findings import CODES
from engine.diagnosis import rules
from engine.rescue import je_notes
from engine.rescue.explanation import ExplainedMessage
from engine.rescue.messages.record import CHECK, DATA, NODE, NONE, KnownMessage
from engine.verify.environment import ALWAYS, RULES
from engine.verify.report import ERROR, NOTE, WARNING, Rule

_CODE: Final = re.compile(r"\b(?:JE|DRB|START)(?:-[A-Z]+)?-[0-9]{3}\b", re.IGNORECASE)
_RISKS: Final = {ERROR: DATA, WARNING: CHECK, NOTE: NONE}


def finding_rules() -> dict[str, Rule]:
    """The rule of each code, in the order in which checks run."""
    of_je = (*ALWAYS, *(rule for level in RULES.values() for rule in level), *je_notes.RULES)
    of_derby = [Rule(code, one.severity, one.title, one.consequence, one.remedy) for code, one in CODES.items()]
    return {rule.code: rule for rule in (*of_je, *of_derby, *rules.RULES)}


def rule_of(code: str) -> Rule | None:
    """The rule of a code, in upper or lower case; None if no finding has it."""
    return finding_rules().get(code.upper())


def explain_findings(text: str) -> list[ExplainedMessage]:
    """The meaning of each finding code in a text, such as a line of ``verify``; each code once."""
    found: dict[str, ExplainedMessage] = {}
    rules_by_code = finding_rules()
    for number, line in enumerate(text.splitlines(), start=1):
        for code in _CODE.findall(line):
            rule = rules_by_code.get(code.upper())
            if rule is None:
                continue
            one = found.setdefault(rule.code, ExplainedMessage(rule.code, _as_message(rule), number, line))
            one.count, one.last_line, one.weak = one.count + 1, number, False
            one.name(line)
    return list(found.values())


def _as_message(rule: Rule) -> KnownMessage:
    # A reason of doctor keeps the application from starting, and says nothing against the data.
    risk = NODE if rule.severity == ERROR and rule in rules.RULES else _RISKS[rule.severity]
    return KnownMessage(
        word=rule.code, cause=f"{rule.title}; consequence: {rule.consequence}", risk=risk, next=rule.remedy
    )
