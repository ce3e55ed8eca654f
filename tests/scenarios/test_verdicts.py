"""The verdict of a command: the first line of text, two fields of JSON, and in agreement with the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.verdict import DAMAGED, DIFFERENT, EQUAL, NONE_SEEN, SOUND, UNJUDGED, VERDICTS
from jetool.frame import exits
from tests.support import corpus
from tests.support.environments.frontends import rolled, write_frontend, write_images
from tests.support.harness import REPOSITORY, run

JE = corpus.path() / "je/je-18.3.20"
COMMANDS = (
    ("verify",), ("verify", "--quick"), ("info",), ("info", "--quick"), ("missing",), ("space",), ("vlsn", "check"),
    ("recover", "-n"), ("recover", "-n", "--accept-loss"),
)  # fmt: skip
# info and space check no checksum of most of the log, recovery and missing read a part of it.
PARTLY = frozenset({"info", "space", "missing", "recover"})
CODES = {
    SOUND: {exits.DONE, exits.WARNINGS},
    NONE_SEEN: {exits.DONE},
    DAMAGED: {exits.FINDINGS, exits.DATA_GIVEN_UP},
    UNJUDGED: {exits.INCOMPLETE, exits.UNSUPPORTED},
    EQUAL: {exits.DONE},
    DIFFERENT: {exits.FINDINGS},
}


def verdict(*words: str | Path) -> str | None:
    """The word, after a comparison of text, JSON and exit code; None for a run that ends without a result."""
    found, shown = run(*words, "--json"), run(*words, "--color", "never")
    if not found.out:
        assert found.code not in (exits.DONE, exits.FINDINGS), words
        return None
    document = found.json()
    fields = document.get("summary", document)
    word, why = str(fields.get("state", fields.get("verdict"))), str(fields["why"])
    assert shown.text.splitlines()[0] == f"{word}: {why}"
    assert found.code == shown.code
    if "recover" in words and word == DAMAGED:
        # What recovery does not read is damaged: it loses nothing by that.
        assert found.code in (exits.DONE, exits.DATA_GIVEN_UP)
    else:
        assert found.code in CODES[word], (words, word, why)
    assert word != SOUND or not PARTLY & set(map(str, words))
    return word


@pytest.mark.parametrize("name", ["txn-crash", "txn-closed", "corrupt-middle", "corrupt-before-range", "missing-file",
                                  "restore-required", "torn-flip-last", "ha-rollback/node2"])  # fmt: skip
def test_word_and_exit_code_agree(name: str) -> None:
    env = JE / name / "env"
    for words in COMMANDS:
        at = 2 if words[0] == "vlsn" else 1
        found = verdict(*words[:at], env, *words[at:])
        # Only recovery ends without a result: where it refuses.
        assert found in VERDICTS or (found is None and words[0] in ("recover", "vlsn")), words


def test_words_of_known_environments(tmp_path: Path) -> None:
    assert verdict("verify", JE / "txn-crash/env") == SOUND
    assert verdict("verify", JE / "txn-crash/env", "--quick") == NONE_SEEN
    assert verdict("info", JE / "txn-crash/env") == NONE_SEEN
    for name in ("corrupt-middle", "corrupt-before-range", "missing-file"):
        assert verdict("verify", JE / name / "env") == DAMAGED
    assert verdict("missing", JE / "missing-file/env") == DAMAGED
    assert verdict("recover", JE / "missing-file/env", "-n") in (DAMAGED, None)
    assert verdict("recover", JE / "corrupt-before-range/env", "-n") == DAMAGED
    assert verdict("diff", JE / "txn-crash/env", JE / "txn-crash/env") == EQUAL
    assert verdict("diff", JE / "txn-crash/env", JE / "txn-closed/env") == DIFFERENT
    assert verdict("diff", JE / "corrupt-middle/env", JE / "corrupt-middle/env") == DAMAGED
    assert verdict("salvage", JE / "txn-crash/env", "-n", "--to", tmp_path / "saved") == SOUND
    assert verdict("salvage", JE / "corrupt-middle/env", "-n", "--to", tmp_path / "saved") == DAMAGED


def test_frontends(tmp_path: Path) -> None:
    meta = tmp_path / "meta"
    (meta / "bdb").mkdir(parents=True)
    write_frontend(meta / "bdb", rolled(1, 60, 30), epochs=2, replicated=True)
    assert verdict("journal", "list", meta) == NONE_SEEN
    write_images(meta, (30,))
    assert verdict("journal", "list", meta) == NONE_SEEN
    assert verdict("journal", "check", meta) == SOUND
    write_images(meta, (90,))
    assert verdict("journal", "list", meta) == DAMAGED
    assert verdict("journal", "check", meta) == DAMAGED


def test_words_are_in_schema_and_manual() -> None:
    schema = json.loads(run("schema", "verify").text)
    assert schema["anyOf"][0]["properties"]["summary"]["properties"]["verdict"]["enum"] == list(VERDICTS)
    manual = (REPOSITORY / "man/jetool-commands.7.md").read_text()
    for word, meaning in VERDICTS.items():
        assert f"* **{word}**: {meaning}" in " ".join(manual.split()), word


def test_every_healthy_environment_is_sound() -> None:
    for path in sorted((corpus.path() / "je-healthy").iterdir())[:12]:
        for env in {found.parent for found in path.rglob("*.jdb")}:
            if run("verify", env).code == exits.DONE:
                assert verdict("verify", env) == SOUND
                assert verdict("info", env) == NONE_SEEN
