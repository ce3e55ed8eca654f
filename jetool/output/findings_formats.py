"""Findings for other programs: JUnit XML (build servers), SARIF 2.1.0 (code scanners), Prometheus (node_exporter).

JUnit output has a test case per code, which fails if there is an error or a warning with that code, and a test case in
error if the check was not completed. SARIF output has a result per finding. Prometheus output has counts per code and
every number of the summary, each with environment and host. It also has the end time of the check and whether it was
complete, so that an alert can distinguish an old or broken check from a clean one. All three are written at the end,
since they begin with totals; until then at most ``MOST_KEPT`` findings per code are kept.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from engine.errors import plural
from engine.fields import Row, row_of
from engine.version import VERSION
from jetool.output import jsonl
from jetool.output.findings import SEVERITIES, FindingView, byte_offset, finding_row, path_of, place_words
from jetool.output.metrics import host, metric_lines
from jetool.output.shape import PLAIN, Style, lsn_text, printable, to_json, to_text

MOST_KEPT: Final = 1000
_WITH_UNITS: Final = frozenset(("size_bytes", "duration_ms"))
_DERBY_PLACE: Final = frozenset(("instant", "container", "page"))
# The lists of a summary with checked and unchecked parts.
_LEVELS: Final = (("checked", 1), ("not_checked", 0))
_UNFINISHED: Final = "the check did not come to its end; nothing is known of the rest"

Rules = Sequence[tuple[str, str]]


class FindingTally:
    """Findings by code: the first ``MOST_KEPT`` of each are kept, all are counted.

    Arguments:
        rules: code and one sentence for every possible finding.
        environments: the directories that are checked.

    Attributes:
        incomplete: environments whose check was not completed.
    """

    def __init__(self, rules: Rules, environments: Sequence[str]) -> None:
        self.rules = dict(rules)
        self.environments = tuple(map(os.path.abspath, environments))
        self.incomplete: tuple[str, ...] = ()
        self.kept: dict[str, list[FindingView]] = {code: [] for code, _ in rules}
        self.counts: Counter[tuple[str, str]] = Counter()
        # The same lists, prefixed with the environment.
        self.each: Counter[tuple[str, str, str]] = Counter()

    def add(self, finding: FindingView) -> None:
        """Count a finding, and keep it if few findings have its code."""
        kept = self.kept.setdefault(finding.code, [])
        # SARIF requires a rule for every result, so a code without a rule gets the first message.
        self.rules.setdefault(finding.code, finding.message)
        self.counts[finding.code, finding.severity] += 1
        # Findings of a fleet name their environment; otherwise there is only one.
        named: str | None = getattr(finding, "environment", None)
        env = self.environments[0] if named is None else os.path.abspath(named)
        self.each[env, finding.code, finding.severity] += 1
        if len(kept) < MOST_KEPT:
            kept.append(finding)

    def ended(self, incomplete: Collection[str]) -> None:
        """Note the end of the check, and the environments whose check was not completed."""
        self.incomplete = tuple(map(os.path.abspath, incomplete))

    def count(self, code: str) -> int:
        """The number of findings with a code."""
        return sum(self.counts[code, severity] for severity in SEVERITIES)


def render(form: str, found: FindingTally, summary: Row, style: Style) -> bytes:
    """The report in one of ``COLLECTED_FORMATS``."""
    return {"junit": _junit, "sarif": _sarif, "prometheus": _prometheus}[form](found, summary, style)


def _place(finding: FindingView) -> str:
    lsn = lsn_text(finding.lsn) if finding.lsn is not None else None
    parts = [path_of(finding), lsn, f"database {finding.db}" if finding.db is not None else None]
    named = place_words([field for field in row_of(finding_row(finding)) if field[0] in _DERBY_PLACE], PLAIN)
    return " ".join([*(part for part in parts if part), *named])


def _sentence(finding: FindingView) -> str:
    parts = (finding.message, finding.consequence, finding.remedy)
    return printable("; ".join(part for part in parts if part))


def _junit(found: FindingTally, summary: Row, style: Style) -> bytes:
    cases = [_case(code, kept, found.count(code)) for code, kept in found.kept.items()]
    failures = sum("<failure" in case for case in cases)
    # The test case is in error, not failed, because an unchecked environment must not count as clean.
    lost = [
        f'    <testcase classname="jetool" name={_attribute(f"complete: {env}")} time="0">\n'
        f'      <error message={_attribute(_UNFINISHED)} type="incomplete"/>\n    </testcase>\n'
        for env in found.incomplete
    ]
    properties = "".join(
        f"    <property name={_attribute(name)} value={_attribute(_plain_text(kind, value, style))}/>\n"
        for name, kind, value in (("environment", "texts", found.environments), *summary)
    )
    totals = f'tests="{len(cases) + len(lost)}" failures="{failures}" errors="{len(lost)}"'
    # A time without a zone, as the format's schema requires.
    when = f'timestamp="{time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())}" hostname={_attribute(host())} time="0"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<testsuites {totals}>\n"
        f'  <testsuite name="jetool verify" {totals} {when}>\n'
        f"    <properties>\n{properties}    </properties>\n{''.join((*cases, *lost))}  </testsuite>\n</testsuites>\n"
    ).encode("utf-8", "xmlcharrefreplace")


def _plain_text(kind: str, value: Any, style: Style) -> str:
    """A value for a program: numbers without units."""
    return str(value) if isinstance(value, int) and kind in _WITH_UNITS else to_text(kind, value, style)


def _attribute(text: str) -> str:
    # XML 1.0 forbids control characters, even escaped.
    return quoteattr(printable(text))


def _case(code: str, kept: Sequence[FindingView], count: int) -> str:
    # A note is only information, so it must not fail a build.
    failing = [finding for finding in kept if finding.severity != "note"]
    start = f'    <testcase classname="jetool" name={_attribute(code)} time="0"'
    if not failing:
        return f"{start}/>\n"
    lines = [escape(printable(f"{_place(finding)}: ") + _sentence(finding)) for finding in failing]
    # Beyond ``MOST_KEPT`` findings are counted, not kept.
    if count > len(kept):
        lines.append(f"and {count - len(kept)} more")
    body = "\n".join(lines)
    message = quoteattr(plural(count, "finding") if count > 1 else _sentence(failing[0]))
    severity = "error" if any(finding.severity == "error" for finding in failing) else "warning"
    return f'{start}>\n      <failure message={message} type="{severity}">{body}</failure>\n    </testcase>\n'


def _sarif(found: FindingTally, summary: Row, style: Style) -> bytes:
    rules = [{"id": code, "shortDescription": {"text": text}} for code, text in found.rules.items()]
    run = {
        "tool": {"driver": {"name": "jetool", "version": VERSION, "rules": rules}},
        "invocations": [
            {
                "executionSuccessful": not found.incomplete,
                "endTimeUtc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "machine": host(),
            }
        ],
        "results": [_result(finding) for kept in found.kept.values() for finding in kept],
        "properties": {
            "environments": list(found.environments),
            **{name: to_json(kind, value, style) for name, kind, value in summary},
        },
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return jsonl.pretty({"$schema": schema, "version": "2.1.0", "runs": [run]})


def _result(finding: FindingView) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": finding.severity,
        "message": {"text": _sentence(finding)},
    }
    path = path_of(finding)
    if path is not None:
        place: dict[str, Any] = {"artifactLocation": {"uri": quote(os.fsencode(path))}}
        offset = byte_offset(finding)
        # SARIF has no LSNs; the lower half of an LSN is the offset in the file.
        if offset is not None:
            place["region"] = {"byteOffset": offset}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _prometheus(found: FindingTally, summary: Row, style: Style) -> bytes:
    whole = {"environment": found.environments[0]} if len(found.environments) == 1 else {}
    # Alerts need series that always exist: the totals below have zeros. All codes would be hundreds of series, and of a
    # fleet tens of thousands.
    lines = metric_lines(
        "jetool_findings",
        "Findings of the last check.",
        [({"environment": e, "code": c, "severity": s}, count) for (e, c, s), count in found.each.items()],
    )
    totals = Counter[tuple[str, str]]()
    for (env, _, severity), count in found.each.items():
        totals[env, severity] += count
    pairs = [(env, severity) for env in found.environments for severity in SEVERITIES]
    lines += metric_lines(
        "jetool_environment_findings",
        "Findings of the last check by severity.",
        [({"environment": env, "severity": severity}, totals[env, severity]) for env, severity in pairs],
    )
    lines += metric_lines(
        "jetool_verify_complete",
        "1 when the last check came to its end, 0 when nothing is known of the rest.",
        [({"environment": env}, int(env not in found.incomplete)) for env in found.environments],
    )
    now = round(time.time(), 3)
    ended = "When the last check ended, in seconds since 1970-01-01 UTC."
    lines += metric_lines(
        "jetool_verify_timestamp_seconds", ended, [({"environment": env}, now) for env in found.environments]
    )
    given = {name: value for name, _, value in summary}
    levels = [({**whole, "level": level}, done) for name, done in _LEVELS for level in given.get(name) or ()]
    lines += metric_lines("jetool_verify_level", "1 for a level that was checked, 0 for what was not.", levels)
    for name, kind, value in summary:
        number = to_json(kind, value, style)
        if isinstance(number, int | float):
            # Prometheus accepts only letters, digits and underscores.
            metric = "jetool_verify_" + re.sub(r"\W", "_", name, flags=re.ASCII)
            lines += metric_lines(metric, f"Of the summary of the last check: {name}.", [(whole, number)])
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")
