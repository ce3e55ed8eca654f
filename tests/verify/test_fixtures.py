"""``verify`` on every fixture: the findings, to the LSN, and agreement with JE's own DbVerifyLog."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from engine.format.lsn import NULL_LSN, format_lsn
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.verify.log import verify_log
from engine.verify.report import ERROR, NOTE
from jetool.frame import exits
from tests.support.environments.oracle import Environment, environments
from tests.support.harness import assert_valid, run


class Expected(NamedTuple):
    """One finding."""

    code: str
    severity: str
    lsn: str
    file: str


def last_file(code: str, severity: str, offset: str) -> list[Expected]:
    """One finding in file 5, where the damaged copies of torn-base end."""
    return [Expected(code, severity, f"0x5/{offset}", "00000005.jdb")]


def older(offset: str, file: int) -> list[Expected]:
    return [Expected("JE-LOG-001", "error", f"0x{file:x}/{offset}", f"{file:08x}.jdb")]


def only_file(*places: tuple[str, str]) -> list[Expected]:
    """Errors in an environment of one file."""
    return [Expected(code, "error", f"0x0/{offset}", "00000000.jdb") for code, offset in places]


CLEANED = [Expected("JE-LOG-012", "note", "", "")]

# Every environment that is not named here has no finding at all. The offsets are those of the fixtures' README.
FINDINGS = {
    "je-3.3.98/corrupt-middle": last_file("JE-TAIL-002", "error", "0x15e8"),
    "je-7.5.11/corrupt-middle": last_file("JE-TAIL-002", "error", "0x82c"),
    "je-18.3.20/corrupt-middle": last_file("JE-TAIL-002", "error", "0x80e"),
    "je-25.3.17/corrupt-middle": last_file("JE-TAIL-002", "error", "0x1263"),
    "je-18.3.20/corrupt-before-range": older("0xbc3", 0),
    "je-18.3.20/corrupt-older-file": older("0x1d9e", 3),
    "je-18.3.20/missing-file": [Expected("JE-LOG-010", "error", "", "00000004.jdb")],
    "je-18.3.20/restore-required": [Expected("JE-LOG-018", "error", "", "7fffffff.jdb")],
    "je-18.3.20/rollback-commit-inside": only_file(
        ("JE-LOG-024", "0xfba"), ("JE-LOG-022", "0x1064"), ("JE-LOG-024", "0x1089")
    ),
    "je-18.3.20/rollback-overlap": only_file(
        ("JE-LOG-024", "0xfe3"),
        ("JE-LOG-024", "0x1030"),
        ("JE-LOG-024", "0x10a2"),
        ("JE-REP-011", "0x10a2"),
        ("JE-LOG-023", "0x10f7"),
    ),
    "je-18.3.20/erased": CLEANED,
    "je-18.3.20/vlsn-range": CLEANED,
    "je-3.3.98/torn-cut-mid": last_file("JE-TAIL-001", "note", "0x1b27"),
    "je-7.5.11/torn-cut-mid": last_file("JE-TAIL-001", "note", "0xc37"),
    "je-18.3.20/torn-cut-mid": last_file("JE-TAIL-001", "note", "0xc27"),
    "je-25.3.17/torn-cut-mid": last_file("JE-TAIL-001", "note", "0x1803"),
    "je-18.3.20/torn-cut-header": last_file("JE-TAIL-001", "note", "0xc27"),
    "je-18.3.20/torn-cut-commit": last_file("JE-TAIL-001", "note", "0xb6d"),
    "je-18.3.20/torn-flip-last": last_file("JE-TAIL-001", "note", "0xc27"),
    "je-18.3.20/torn-flip-uncommitted": last_file("JE-TAIL-003", "note", "0xb8c"),
    "je-18.3.20/torn-garbage-tail": last_file("JE-TAIL-001", "note", "0xc72"),
    "je-18.3.20/torn-zero-tail": last_file("JE-TAIL-001", "note", "0xc72"),
    "je-18.3.20/torn-empty-next-file": [Expected("JE-TAIL-005", "note", "", "00000006.jdb")],
}

# JE calls these bad and we do not: bytes after the end of the log that JE itself cuts off at the next open, with no
# commit among them. DbVerifyLog does not know about tails, except an entry that the file ends in.
HARMLESS_TO_US = {
    "je-18.3.20/torn-flip-last",
    "je-18.3.20/torn-flip-uncommitted",
    "je-18.3.20/torn-garbage-tail",
    "je-18.3.20/torn-zero-tail",
}
# DbVerifyLog calls these good and we do not: it looks at the entries of the files that are there, each for itself.
# JE refuses to open all of them (recovery.json).
GOOD_TO_JE = {
    "je-18.3.20/missing-file",
    "je-18.3.20/restore-required",
    "je-18.3.20/rollback-commit-inside",
    "je-18.3.20/rollback-overlap",
}


@pytest.mark.parametrize("environment", environments())
def test_findings(environment: Environment) -> None:
    expected = FINDINGS.get(environment.name, [])
    result = run("verify", environment.path / "env", "--json")
    assert_valid("verify", result.out)
    report = result.json()
    found = [Expected(f["code"], f["severity"], f["lsn"] or "", f["file"] or "") for f in report["findings"]]
    assert [one for one in found if not one.code.startswith("JE-OPEN-")] == expected
    assert {one.severity for one in found if one.code.startswith("JE-OPEN-")} <= {NOTE}
    has_error = any(finding.severity == ERROR for finding in expected)
    assert result.code == (exits.FINDINGS if has_error else exits.DONE)


@pytest.mark.parametrize("environment", environments("3.3.98"))
def test_what_a_later_je_refuses_is_noted(environment: Environment) -> None:
    """JE-OPEN-001 on each environment for which JE 18.3.20 asks for DbPreUpgrade, and on no other."""
    if not (environment.path / "expected/opened-by.json").exists():
        return
    told = json.loads(environment.expected("opened-by.json"))["18.3.20"]
    codes = [finding["code"] for finding in run("verify", environment.path / "env", "--json").json()["findings"]]
    assert ("JE-OPEN-001" in codes) == ("DbPreUpgrade" in told.get("gist", ""))


@pytest.mark.parametrize("environment", environments())
def test_classes_that_the_application_needs_are_noted(environment: Environment) -> None:
    listed = run("dbs", environment.path / "env", "--json")
    if listed.code != exits.DONE:
        return
    has_class = any(row["comparator"] for row in listed.json()["records"])
    codes = [finding["code"] for finding in run("verify", environment.path / "env", "--json").json()["findings"]]
    # The note goes by the last checkpoint; that of JE 3.3.98 is older than the database.
    assert ("JE-OPEN-003" in codes) == (has_class and environment.name != "je-3.3.98/schema-crash")


@pytest.mark.parametrize("environment", environments())
def test_every_entry_is_read(environment: Environment) -> None:
    """The report's entries are those that a reader meets; its bytes are those of the directory."""
    storage = DiskStorage(environment.path / "env")
    files = list_log_files(storage)
    report = verify_log(storage, files)
    met = [item for item in environment.read() if hasattr(item, "body")]
    in_marker = 0 if files.marker is None else sum(item.lsn >> 32 == files.marker.number for item in met)
    assert report.entries == len(met) - in_marker
    assert report.checked_bytes == sum(path.stat().st_size for path in environment.path.glob("env/**/*.jdb")) - (
        files.marker.size_bytes if files.marker else 0
    )
    assert report.files == len(files.files)


@pytest.mark.parametrize("environment", environments("7.3.8", "7.5.11", "18.3.20", "25.3.17"))
def test_agrees_with_je(environment: Environment) -> None:
    """DbVerifyLog finds the log good if and only if we find no error, with the exceptions named above."""
    told = environment.expected("verify-log.txt").decode()
    je_good = told.rstrip().endswith("(exit status 0)")
    ours_good = not any(finding.severity == ERROR for finding in FINDINGS.get(environment.name, []))
    if environment.name in HARMLESS_TO_US:
        assert (je_good, ours_good) == (False, True)
    elif environment.name in GOOD_TO_JE:
        assert (je_good, ours_good) == (True, False)
        assert json.loads(environment.expected("recovery.json"))["opened"] is False
    else:
        assert je_good == ours_good
        if ours_good:
            assert json.loads(environment.expected("recovery.json"))["opened"] is True
    if not je_good:
        # JE names the same place.
        storage = DiskStorage(environment.path / "env")
        (finding,) = verify_log(storage, list_log_files(storage)).findings
        assert finding.lsn != NULL_LSN
        assert format_lsn(finding.lsn) in told or f"logEntryOffset: 0x{finding.lsn & 0xFFFFFFFF:x}" in told
