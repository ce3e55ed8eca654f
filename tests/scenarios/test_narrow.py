"""On a terminal of 80 columns text leaves nothing out that JSON has."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.outputs import LINES
from tests.support import corpus
from tests.support.environments.frontends import rolled, write_frontend
from tests.support.harness import run

JE = corpus.path() / "je/je-18.3.20"
WORDS = {"db": "accounts", "key": "0x00000000", "vlsn": "20", "lsn": "0x0/0x5b3", "other": str(JE / "txn-closed/env")}
# Their text is composed by the command, which names no fields.
COMPOSED = frozenset(
    {
        *(
            "doctor",
            "dump-log",
            "explain",
            "scan",
            "get",
            "dump",
            "rollbacks",
            "space",
            "missing",
            "verify",
            "vlsn check",
        ),
        *("journal check", "journal show", "ldap export", "ldap check", "ldap changelog", "ldap changes"),
    }
)
# They make something new at each call, or need what these environments have not; watch has a screen of its own.
ELSEWHERE = frozenset(
    {
        "group reset",
        "watch",
        "create",
        "load",
        "salvage",
        "backup take",
        "backup list",
        "backup verify",
        "backup prune",
        "restore",
        "undo",
    }
)


def fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of all fields with a value, nested ones too."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if inner not in (None, "", [], {}):
                yield name, inner
            # What the application means by a payload has names of its own.
            if name != "payload":
                yield from fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner)


def check(words: list[str | Path]) -> int:
    """Compare the text of a command with its JSON; the number of fields."""
    found = run(*words, "--json", "--progress", "never")
    if not found.out:
        return 0
    shown = run(*words, "--color", "never", "--progress", "never", terminal=True).text
    seen = set(re.findall(r"[^\s,:;]+", shown.lower()))
    document = found.json()
    # Text of a table has no summary.
    count = 0
    for name, value in fields(document if set(document) != {"records", "summary"} else document["records"]):
        if name in ("rec", "verdict", "state", "why", "decoded_key", "decoded_data"):
            continue
        label = name.removesuffix("_ms") if f"{name}_" not in shown else name
        assert set(label.lower().split("_")) <= seen, (words, name, shown)
        if isinstance(value, str) and re.fullmatch(r"[-\w./]+", value):
            assert value.lower() in shown.lower(), (words, name, value)
        count += 1
    for _, why in (one for one in fields(document) if one[0] == "why"):
        assert " ".join(why.split()) in " ".join(shown.split()), (words, why)
    return count


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def lines(env: Path, *, composed: bool) -> Iterator[list[str | Path]]:
    for name, forms in LINES.items():
        if name in ELSEWHERE or (name in COMPOSED) is not composed:
            continue
        for form in forms:
            if set(re.findall(r"{(\w+)}", form)) - {"env"} <= WORDS.keys():
                yield [*name.split(), *form.format(env=env, **WORDS).split()]


@pytest.mark.parametrize("name", ["txn-crash", "corrupt-middle", "ha-rollback-thrice/node2"])
def test_je(name: str) -> None:
    assert sum(check(words) for words in lines(JE / name / "env", composed=False)) > 300


def test_derby(tmp_path: Path) -> None:
    (packed,) = (corpus.path() / "derby/crash-five-transactions").glob("db.tar*")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    (env,) = (path.parent for path in tmp_path.rglob("service.properties"))
    commands: list[list[str | Path]] = [["info", env], ["txns", env], ["recover", env, "-n"]]
    assert sum(check(words) for words in commands) > 100


def test_frontend(tmp_path: Path) -> None:
    (tmp_path / "bdb").mkdir()
    write_frontend(tmp_path / "bdb", rolled(1, 60, 30), epochs=2, replicated=True)
    env = tmp_path / "bdb"
    commands: list[list[str | Path]] = [["list", env], ["stats", env], ["compare", env, env]]
    commands.append(["truncate", env, "-n", "--after", "40"])
    assert sum(check(["journal", *words]) for words in commands) > 50


@pytest.mark.parametrize("name", ["txn-crash", "corrupt-middle"])
def test_composed_text_fits(name: str) -> None:
    for words in lines(JE / name / "env", composed=True):
        for line in run(*words, "--color", "never", "--progress", "never", terminal=True).text.splitlines():
            assert len(line) <= 80 or max(map(len, line.split())) > 40, (words, line)


def test_a_stream_fits_its_columns_to_its_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[str | Path] = ["txns", JE / "txn-crash/env", "--color", "never", "--progress", "never"]
    first = "1 committed 0x0/0xc7 0x0/0xc7 0x0/0x169 2026-11-20T11:10:17.682Z"
    monkeypatch.setenv("COLUMNS", "150")
    shown = run(*words, terminal=True).text.splitlines()
    assert shown[0].split()[-3:] == ["after", "end", "xid"]
    assert " ".join(shown[1].split()) == f"{first} 1 0 44 B 1 no -"
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(*words, terminal=True).text.splitlines()
    assert " ".join(shown[1].split()) == first
    assert shown[2] == "    records 1  rolled back records 0  bytes 44 B  dbs 1  after end no"
