"""Findings for other programs: JUnit XML (build servers), SARIF 2.1.0 (code scanners), Prometheus (node_exporter).

JUnit gives a test case per code, failed when there is an error or a warning of that code. SARIF gives a result per
finding. Prometheus gives counts per code and every number of the summary. All three are written at the end, since they
carry totals in front; what is kept until then is bounded by ``_KEPT`` findings per code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from engine.version import VERSION
from jetool.output import jsonl
from jetool.output.findings import SEVERITIES, FindingView, byte_offset, place_words, row
from jetool.output.shape import PLAIN, Row, Style, lsn_text, printable, to_json

_KEPT: Final = 1000
_DERBY_PLACE: Final = frozenset(("instant", "container", "page"))

Rules = Sequence[tuple[str, str]]


class FindingTally:
    """Findings by code, the first ``_KEPT`` of each in full and all of them counted.

    Arguments:
        rules: code and one sentence for every finding that can be made.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = dict(rules)
        self.kept: dict[str, list[FindingView]] = {code: [] for code, _ in rules}
        self.counts: Counter[tuple[str, str]] = Counter()

    def add(self, finding: FindingView) -> None:
        """Count a finding, and keep it while there are few of its code."""
        kept = self.kept.setdefault(finding.code, [])
        # SARIF wants a rule for every result, so a code without one gets the first message.
        self.rules.setdefault(finding.code, finding.message)
        self.counts[finding.code, finding.severity] += 1
        if len(kept) < _KEPT:
            kept.append(finding)

    def count(self, code: str) -> int:
        """How many findings of a code there were."""
        return sum(self.counts[code, severity] for severity in SEVERITIES)


def render(form: str, found: FindingTally, summary: Row, style: Style) -> bytes:
    """The report in one of ``COLLECTED_FORMATS``."""
    return {"junit": _junit, "sarif": _sarif, "prometheus": _prometheus}[form](found, summary, style)


def _place(finding: FindingView) -> str:
    lsn = lsn_text(finding.lsn) if finding.lsn is not None else None
    parts = [finding.file, lsn, f"database {finding.db}" if finding.db is not None else None]
    named = place_words([field for field in row(finding) if field[0] in _DERBY_PLACE], PLAIN)
    return " ".join([*(part for part in parts if part), *named])


def _sentence(finding: FindingView) -> str:
    parts = (finding.message, finding.consequence, finding.remedy)
    return printable("; ".join(part for part in parts if part))


def _junit(found: FindingTally, summary: Row, style: Style) -> bytes:
    cases = [_case(code, kept, found.count(code)) for code, kept in found.kept.items()]
    failures = sum("<failure" in case for case in cases)
    properties = "".join(
        f"    <property name={quoteattr(name)} value={quoteattr(str(to_json(kind, value, style)))}/>\n"
        for name, kind, value in summary
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites tests="{len(cases)}" failures="{failures}">\n'
        f'  <testsuite name="jetool verify" tests="{len(cases)}" failures="{failures}">\n'
        f"    <properties>\n{properties}    </properties>\n{''.join(cases)}  </testsuite>\n</testsuites>\n"
    ).encode("utf-8", "xmlcharrefreplace")


def _case(code: str, kept: Sequence[FindingView], count: int) -> str:
    # A note explains; it must not fail a build.
    failing = [finding for finding in kept if finding.severity != "note"]
    start = f'    <testcase classname="jetool" name={quoteattr(code)}'
    if not failing:
        return f"{start}/>\n"
    lines = [escape(printable(f"{_place(finding)}: ") + _sentence(finding)) for finding in failing]
    # Beyond ``_KEPT`` findings are counted, not kept.
    if count > len(kept):
        lines.append(f"and {count - len(kept)} more")
    body = "\n".join(lines)
    message = quoteattr(f"{count} findings" if count > 1 else _sentence(failing[0]))
    return f"{start}>\n      <failure message={message}>{body}</failure>\n    </testcase>\n"


def _sarif(found: FindingTally, summary: Row, style: Style) -> bytes:
    rules = [{"id": code, "shortDescription": {"text": text}} for code, text in found.rules.items()]
    run = {
        "tool": {"driver": {"name": "jetool", "version": VERSION, "rules": rules}},
        "results": [_result(finding) for kept in found.kept.values() for finding in kept],
        "properties": {name: to_json(kind, value, style) for name, kind, value in summary},
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return jsonl.pretty({"$schema": schema, "version": "2.1.0", "runs": [run]})


def _result(finding: FindingView) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": finding.severity,
        "message": {"text": _sentence(finding)},
    }
    if finding.file is not None:
        place: dict[str, Any] = {"artifactLocation": {"uri": finding.file}}
        offset = byte_offset(finding)
        # SARIF has no notion of an LSN; its lower half is the offset in the file.
        if offset is not None:
            place["region"] = {"byteOffset": offset}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _prometheus(found: FindingTally, summary: Row, style: Style) -> bytes:
    lines = ["# HELP jetool_findings Findings of the last jetool verify.", "# TYPE jetool_findings gauge"]
    for code in found.kept:
        # Zeros, too: a series that comes and goes cannot be alerted on.
        for severity in SEVERITIES:
            count = found.counts[code, severity]
            lines.append(f'jetool_findings{{code="{code}",severity="{severity}"}} {count}')
    for name, kind, value in summary:
        number = to_json(kind, value, style)
        if isinstance(number, int | float):
            # Prometheus takes letters, digits and underscores only.
            metric = "jetool_verify_" + re.sub(r"\W", "_", name, flags=re.ASCII)
            lines += [
                f"# TYPE {metric} gauge",
                f"{metric} {float(number):g}" if isinstance(number, float) else f"{metric} {int(number)}",
            ]
    return ("\n".join(lines) + "\n").encode()
