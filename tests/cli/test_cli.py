"""The program as a whole: help, names, environments, shared options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.format.versions import NEWEST_VERSION, OLDEST_VERSION, WRITTEN_VERSION
from engine.native import is_native
from engine.version import VERSION
from jetool.frame import table
from tests.support import harness
from tests.support.harness import run
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("samples")

# Modules that --help must not load: each costs more than the whole budget allows, or grows with the project.
HEAVY = ("rich", "tabulate", "pyspark", "zoneinfo", "tempfile", "multiprocessing", "engine.format", "engine.storage")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from jetool.frame import cli; assert cli.run(['--help']) == 0\n"
        f"loaded = [n for n in sys.modules if n.startswith({(*HEAVY, 'jetool.commands')!r})]\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=harness.environment(), capture_output=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr.decode()


def test_help_lists_all_commands_by_group() -> None:
    text = run("--help").text
    places = [text.index(f"\n  {row.name} ") for row in table.COMMANDS if row.group == "Meta"]
    assert places == sorted(places)
    assert text.index("\nLook:") < text.index("\nMeta:")
    assert "(also old-sample)" in text
    used = {row.group for row in table.COMMANDS}
    assert {name for name in table.GROUPS if f"\n{name}:" in text} == used, "groups without commands are not shown"


def test_no_command_is_a_usage_error() -> None:
    for words in ((), ("--json",), ("nest",)):
        result = run(*words)
        assert result.code == 2
        assert result.out == b""
        assert "Missing command" in result.err


def test_version_names_log_versions() -> None:
    text = run("--version").text
    assert f"{VERSION} ({'native build' if is_native() else 'pure Python'})" in text
    assert f"{OLDEST_VERSION} to {NEWEST_VERSION}" in text
    assert f"writes log version {WRITTEN_VERSION}" in text


def test_unknown_command_suggests_near_ones() -> None:
    result = run("sampel", "/data")
    assert result.code == 2
    assert "did you mean" in result.err
    assert "sample" in result.err
    assert "did you mean" not in run("xyzzy").err


def test_alias_runs_the_command() -> None:
    assert run("old-sample", "/data").out == run("sample", "/data").out


# -h is JE's option for the environment, so help has no short form: "verify -h /data" must not print help and exit 0.
@pytest.mark.parametrize(
    "words",
    [
        ("rows", "/data", "1"),
        ("rows", "-h", "/data", "1"),
        ("rows", "1", "-h", "/data"),
        ("rows", "--home=/data", "1"),
        ("-h", "/data", "rows", "1"),
        ("-v", "--home", "/data", "rows", "1"),
    ],
)
def test_environment_by_argument_or_option(words: tuple[str, ...]) -> None:
    result = run(*words, "-v")
    assert result.code == 0
    assert "env=/data number=1" in result.err


def test_environment_by_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JETOOL_HOME", "/from/variable")
    assert "env=/from/variable number=1" in run("rows", "1", "-v").err
    assert "env=/data number=1" in run("rows", "/data", "1", "-v").err
    assert "env=/data number=1" in run("rows", "1", "-v", "-h", "/data").err
    assert "env=/from/variable words=()" in run("sample", "-v").err


def test_environment_missing_or_given_twice() -> None:
    for words in (("sample",), ("control",), ("rows",)):
        result = run(*words)
        assert result.code == 2
        assert "JETOOL_HOME" in result.err
    assert "given twice" in run("rows", "-h", "/data", "/data", "1").err
    assert "given twice" in run("control", "-h", "/data", "/data").err
    assert run("rows", "/data").code == 2
    assert run("control", "-h").code == 2


@pytest.mark.parametrize("words", [["-h"], ["control", "-h"], ["nest", "inner", "-h"]])
def test_h_is_not_help(words: list[str]) -> None:
    result = run(*words)
    assert result.code == 2
    assert result.out == b""
    assert "help is --help" in result.err
    assert f"next: jetool {' '.join(words[:-1])}".rstrip() in result.err


def test_home_that_looks_like_an_option() -> None:
    assert "env=./-odd number=1" in run("rows", "--home=-odd", "1", "-v").err


def test_environment_leaves_further_arguments_alone() -> None:
    assert "env=/data words=('a', 'b')" in run("sample", "a", "b", "-h", "/data", "-v").err


def test_help_wins_over_a_missing_environment() -> None:
    result = run("control", "--help")
    assert result.code == 0
    assert result.text.startswith("Usage: jetool control")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["--json"], []),
        (["--format", "json"], []),
        ([], ["--format=json"]),
        (["--format=csv"], ["--format", "json"]),
        (["--json", "--fields", "lsn"], ["--fields", "lsn,type,key,vlsn"]),
    ],
)
def test_options_may_stand_in_front_of_the_command(before: list[str], after: list[str]) -> None:
    assert run(*before, "rows", "/data", "2", *after).json() == run("rows", "/data", "2", "--json").json()


def test_options_in_front_of_a_command_of_a_group() -> None:
    assert run("--json", "nest", "inner", "/data").text == "inner /data json\n"
    assert run("nest", "--json", "inner", "/data").text == "inner /data json\n"
    assert run("nest", "inner", "-h", "/data", "--json").text == "inner /data json\n"
    assert run("nest", "iner", "/data").code == 2


@pytest.mark.parametrize("option", ["--jobs=2", "--fields=a", "--lock-timeout=1"])
def test_options_without_effect_are_refused(option: str) -> None:
    for words in ((option, "nest", "inner", "/data"), ("nest", "inner", "/data", option)):
        result = run(*words)
        assert result.code == 2
        assert result.out == b""
        assert f"{option.partition('=')[0]} has no effect on jetool nest inner" in result.err


@pytest.mark.parametrize(
    "option", ["--tz=UTC", "--progress=never", "--key-format=hex", "--data-format=hex", "-q", "-v"]
)
def test_options_about_looks_are_taken_everywhere_but_listed_where_they_matter(option: str) -> None:
    for words in ((option, "nest", "inner", "/data"), ("nest", "inner", "/data", option)):
        assert run(*words).text == "inner /data text\n"
    assert ("--tz" in run("sample", "--help").text, "--tz" in run("nest", "inner", "--help").text) == (True, False)
    assert run("nest", "inner", "/data", "--tz", "Mars").code == 2


def test_unknown_option_is_refused() -> None:
    result = run("control", "/data", "--nonsense")
    assert result.code == 2
    assert "--nonsense" in result.err
    assert "next: jetool control --help" in result.err


def test_unsupported_format_names_those_that_are() -> None:
    result = run("control", "/data", "--format", "sarif")
    assert result.code == 2
    assert "it has text, json, ndjson, csv" in result.err
    assert run("--format", "sarif", "check", "/data").code == 1


def test_json_and_another_format_exclude_each_other() -> None:
    assert run("control", "/data", "--json", "--format", "json").code == 0
    result = run("control", "/data", "--json", "--format", "csv")
    assert result.code == 2
    assert "exclude each other" in result.err


def test_jobs_lock_and_writer_options_reach_the_command(tmp_path: Path) -> None:
    assert "jobs=3" in run("sample", "/data", "--jobs", "3", "-v").err
    assert run("sample", "/data", "--jobs", "0").code == 2
    words = ("-n", "--yes", "--backup-dir", tmp_path, "--lock-timeout", "1.5")
    assert f"/data True True {tmp_path} 1.5" in run("fail", "/data", "--how", "0", *words).text
    assert "/data False False None 0.0" in run("fail", "/data", "--how", "0").text
    assert run("-n", "fail", "/data", "--how", "0").code == 2


def test_keys_and_times_are_read_by_the_options_that_say_how() -> None:
    assert "key=b'user1'" in run("sample", "/data", "--key", "user1", "-v").err
    assert "key=b'\\x00\\x01'" in run("sample", "/data", "--key", "0001", "-v", "--key-format", "hex").err
    assert "since=0 " in run("sample", "/data", "--since", "1970-01-01", "-v").err
    assert "since=3600000 " in run("sample", "/data", "--since", "1970-01-01", "-v", "--tz", "-01:00").err


def test_quiet_and_verbose() -> None:
    assert run("sample", "/data").err == ""
    assert run("sample", "/data", "-v").err != ""
    assert run("-v", "sample", "/data").err != ""
    assert run("sample", "/data", "-q", "-v").err == ""
