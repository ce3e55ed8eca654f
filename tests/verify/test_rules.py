"""The list of finding codes: what scripts match on never changes, and every rule can be broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.verify import log_rules
from engine.verify.log_rules import BY_REASON, RULES
from engine.verify.report import ERROR, NOTE, WARNING

# A code is appended here and never changed: runbooks and alert rules name it.
CODES = {
    "JE-LOG-001": (ERROR, "checksum mismatch"),
    "JE-LOG-002": (ERROR, "no entry where one should begin"),
    "JE-LOG-003": (ERROR, "impossible item size"),
    "JE-LOG-004": (ERROR, "file ends inside an entry"),
    "JE-LOG-005": (ERROR, "prevOffset does not name the entry before"),
    "JE-LOG-006": (ERROR, "damaged file header"),
    "JE-LOG-007": (ERROR, "file header names another file"),
    "JE-LOG-008": (ERROR, "file shorter than a file header"),
    "JE-LOG-009": (ERROR, "end of a file and header of the next disagree"),
    "JE-LOG-010": (ERROR, "missing log file"),
    "JE-LOG-011": (WARNING, "log file missing, and the log does not say that it was cleaned"),
    "JE-LOG-012": (NOTE, "gap in the file numbers"),
    "JE-LOG-013": (ERROR, "entry marked as erased holds its old content"),
    "JE-LOG-014": (NOTE, "entry erased in part"),
    "JE-LOG-015": (ERROR, "invisible entry outside every rollback period"),
    "JE-LOG-016": (ERROR, "VLSN does not follow the one before"),
    "JE-LOG-017": (ERROR, "two files with one number"),
    "JE-LOG-018": (ERROR, "restore marker 7fffffff.jdb present"),
    "JE-LOG-019": (ERROR, "log version lower than that of an earlier file"),
    "JE-LOG-020": (ERROR, "file cannot be read"),
    "JE-LOG-021": (WARNING, "file name not in lower case"),
    "JE-LOG-022": (ERROR, "Commit inside a rollback period"),
    "JE-LOG-023": (ERROR, "rollback periods intersect"),
    "JE-LOG-024": (ERROR, "rolled-back entry is visible"),
    "JE-LOG-025": (WARNING, "invisible entry, and its rollback period is not in the log"),
    "JE-LOG-026": (NOTE, "file was begun before the one before it ended"),
    "JE-LOG-027": (ERROR, "header left by a kill was written on, and recovery reads back over it"),
    "JE-LOG-028": (ERROR, "rollback entries contradict each other"),
    "JE-LOG-029": (ERROR, "write of a replicated transaction between a RollbackStart and its RollbackEnd"),
    "JE-LOG-030": (ERROR, "the log has no root"),
    "JE-LOG-031": (ERROR, "two chains of entries interleave"),
    "JE-LOG-032": (ERROR, "log version of a file not supported"),
    "JE-TAIL-001": (NOTE, "torn tail"),
    "JE-TAIL-002": (ERROR, "damage in the last file with committed work after it"),
    "JE-TAIL-003": (NOTE, "damage in the last file, only uncommitted work after it"),
    "JE-TAIL-004": (WARNING, "the last entry is a Commit, whole in length, whose checksum is wrong"),
    "JE-TAIL-005": (NOTE, "last file holds no entry"),
    "JE-TAIL-006": (NOTE, "last file shorter than a file header"),
    "JE-TAIL-007": (NOTE, "last file is a damaged header and nothing else"),
    "JE-TAIL-008": (
        ERROR,
        "damaged Commit, CkptEnd or record outside transactions in the last file, and intact entries after it",
    ),
    "JE-TAIL-009": (NOTE, "the log ends where a file is full, without a checkpoint"),
    "JE-TAIL-011": (NOTE, "the log ends inside the checkpoint of a close"),
    "JE-TAIL-010": (ERROR, "the log ends with a request to restore the environment"),
}


def test_codes_keep_their_meaning() -> None:
    assert {rule.code: (rule.severity, rule.title) for rule in RULES} == CODES
    assert len(RULES) == len(CODES)


def test_every_rule_says_what_it_means_and_what_to_do() -> None:
    for rule in RULES:
        for text in (rule.title, rule.consequence, rule.remedy):
            assert text, rule.code
            assert not text.endswith("."), rule.code


def test_every_reason_for_damage_has_a_rule() -> None:
    from engine.log.entry import REASONS

    assert set(BY_REASON) == set(REASONS)
    assert set(BY_REASON.values()) <= set(RULES)
    assert log_rules.RULES is RULES


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_is_produced_by_a_test(code: str) -> None:
    """Some test of this package names the code as what it expects."""
    here = Path(__file__).parent
    texts = [path.read_text() for path in here.glob("test_*.py") if path.name != Path(__file__).name]
    assert any(f'"{code}"' in text for text in texts)
