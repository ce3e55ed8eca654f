"""``jetool group show HOST:PORT``: recorded nodes as the command shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jetool.commands.group import command
from jetool.frame import exits
from tests.support.groups.networks import RecordedNetwork
from tests.support.groups.recordings import HOME
from tests.support.harness import assert_valid, run

CRASHED = "n1 and n3 crash"


@pytest.fixture(autouse=True)
def _recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "network_of", lambda _: RecordedNetwork("services"))


def test_a_group_that_runs() -> None:
    result = run("group", "show", "localhost:15071", "--json")
    assert_valid("group show", result.out)
    found = result.json()
    manifest = json.loads((HOME / "services" / "manifest.json").read_text())
    assert (found["name"], found["uuid"]) == (manifest["group"]["name"], manifest["group"]["uuid"])
    assert (found["master"], found["min_je_version"], found["clock_ahead_ms"]) == ("n1", "7.5.0", None)
    nodes = {node["name"]: node for node in found["nodes"]}
    assert [(node["id"], node["type"], node["address"]) for node in nodes.values()] == [
        (1, "electable", "localhost:15070"), (2, "electable", "localhost:15071"), (3, "electable", "localhost:15072"),
    ]  # fmt: skip
    assert (nodes["n1"]["state"], nodes["n1"]["je_version"], nodes["n1"]["log_version"]) == ("MASTER", "18.3.20", 17)
    assert nodes["n3"]["problem"]
    # n3 was not asked in that scenario, and so does not answer.
    assert result.code == exits.FINDINGS


@pytest.mark.parametrize("form", ["text", "ndjson", "csv"])
def test_formats(form: str) -> None:
    result = run("group", "show", "localhost:15071", "--format", form)
    assert result.code == exits.FINDINGS
    assert "WIREGRP" in result.text
    if form == "ndjson":
        assert_valid("group show", result.out, "ndjson")


def test_fields() -> None:
    result = run("group", "show", "localhost:15071", "--json", "--fields", "master,name")
    assert result.json() == {"master": "n1", "name": "WIREGRP"}


def test_watching() -> None:
    result = run("group", "show", "localhost:15071", "--watch", "0.1", "--rounds", "3", "--format", "ndjson")
    # Each look ends with its summary.
    assert [line["rec"] for line in result.lines()] == ["running_group", "summary"] * 3
    assert [line["master"] for line in result.lines()[::2]] == ["n1"] * 3
    assert result.code == exits.FINDINGS


def test_watching_goes_on_when_the_group_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    network = RecordedNetwork("services")
    inner, calls = network.connect, iter(range(1000))

    def connect(address: tuple[str, int], deadline: float) -> Any:
        # The first look makes fewer calls than that.
        return inner(address if next(calls) < 6 else ("localhost", 1), deadline)

    monkeypatch.setattr(network, "connect", connect)
    monkeypatch.setattr(command, "network_of", lambda _: network)
    result = run("group", "show", "localhost:15071", "--watch", "0.1", "--rounds", "3", "--format", "ndjson")
    assert [line["rec"] for line in result.lines()] == ["running_group", "summary"]
    assert result.err.count("no node answers") == 2
    assert result.code == exits.NOT_FOUND


def test_nobody_answers() -> None:
    result = run("group", "show", "localhost:1", "localhost:2", "--json")
    assert result.code == exits.NOT_FOUND
    assert "Connection refused" in result.error()["found"]


def test_a_wrong_group() -> None:
    result = run("group", "show", "localhost:15071", "--group", "OTHER", "--json")
    assert result.code == exits.REFUSED
    assert "WIREGRP" in result.error()["found"]


@pytest.mark.parametrize(
    "words",
    [
        ["localhost:15071", "--rounds", "3"],
        ["localhost:15071", "--watch", "1", "--json"],
        ["localhost:15071", "--watch", "1", "--format", "csv"],
        ["localhost:15071", "localhost"],
        ["localhost:15071", "--group", "a|b"],
        ["localhost:0"],
        [".", "--max-lag", "5"],
        [".", "--clock"],
        [".", "localhost:15071"],
    ],
)
def test_what_makes_no_sense(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = exits.NOT_FOUND if words == ["localhost:0"] else exits.USAGE
    assert run("group", "show", *words).code == expected


def test_a_directory_of_that_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "localhost:15071").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "localhost:15071" in run("group", "show", "localhost:15071").err
