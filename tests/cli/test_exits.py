"""Exit codes: the table, the mapping of exceptions, and what really happens to a process."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import JetoolError, UsageError
from jetool.frame import exits
from tests.cli.conftest import shell, started
from tests.support.harness import assert_valid_error, environment, run, spawn
from tests.support.waiting import PATIENCE_S, eventually

# The contract (design/cli.md), spelled out a second time on purpose.
CODES = {0, 1, 2, 3, 4, 5, 6, 7, 8, 70, 130, 141, 143}

MATRIX = {
    "usage": 2,
    "refused": 3,
    "not_found": 4,
    "unsupported": 5,
    "damage": 7,
    "storage": 7,
    "format": 7,
    "base": 70,
    "click_usage": 2,
    "click_parameter": 2,
    "click_other": 2,
    "click_file": 2,
    "abort": 130,
    "interrupt": 130,
    "terminate": 143,
    "exit": 6,
    "system_exit": 3,
    "system_exit_text": 70,
    "bug": 70,
    "index": 70,
    "memory": 70,
    "recursion": 70,
    "os": 70,
    "pipe_elsewhere": 70,
    "output_closed": 141,
    "interrupt_then_bug": 130,
    "closed_then_bug": 141,
    "bug_then_bug": 70,
}


# These say nothing more: the code was chosen on purpose, or nobody listens.
SILENT = ("exit", "system_exit", "output_closed", "closed_then_bug")


def test_table_is_the_contract() -> None:
    assert set(exits.TABLE) == CODES


@pytest.mark.parametrize(("how", "code"), MATRIX.items())
@pytest.mark.usefixtures("samples")
def test_every_exception_has_its_code(how: str, code: int) -> None:
    result = run("fail", "/data", "--how", how)
    assert result.code == code
    assert result.text.startswith("before /data")
    assert "Traceback" not in result.err
    if how in SILENT:
        assert result.err == ""
    else:
        assert result.err.startswith("jetool: error: ")


@pytest.mark.parametrize("code", sorted(CODES))
@pytest.mark.usefixtures("samples")
def test_a_returned_code_is_the_exit_code(code: int) -> None:
    result = run("fail", "/data", "--how", str(code))
    assert result.code == code
    assert result.err == ""


@pytest.mark.usefixtures("samples")
def test_every_exception_of_the_samples_is_in_the_matrix() -> None:
    from tests.cli.sample import ERRORS

    assert set(ERRORS) == set(MATRIX)


@pytest.mark.parametrize("form", ["--json", "--format=json", "--format=ndjson"])
@pytest.mark.usefixtures("samples")
def test_errors_are_json_too(form: str) -> None:
    for how, code in MATRIX.items():
        if how not in SILENT:
            result = run("fail", "/data", "--how", how, form)
            assert result.code == code
            assert_valid_error(result)


@pytest.mark.usefixtures("samples")
def test_usage_errors_are_json_too_when_the_line_does_not_parse() -> None:
    for words in (["nope", "--json"], ["--json", "control"], ["control", "--format", "ndjson", "--nope"]):
        result = run(*words)
        assert result.code == 2
        assert_valid_error(result)
        assert result.error()["kind"] == "usage"
    assert "{" not in run("sample", "--format", "csv", "--nope").err
    assert "{" not in run("nope", "--", "--json").err


@pytest.mark.usefixtures("samples")
def test_message_says_what_where_consequence_and_next() -> None:
    assert run("fail", "/data", "--how", "refused").err == (
        "jetool: error: lock held in je.lck: pid 17\n  next: stop the writer\n"
    )
    assert run("fail", "/data", "--how", "unsupported").err == (
        "jetool: error: log version in 0.jdb: expected 1 to 26, found 27\n"
        "  next: jetool --version says which log versions are read and written\n"
    )
    assert run("fail", "/data", "--how", "damage").err == (
        "jetool: error: bad entry in 0.jdb at 0x0/0x1\n"
        "  next: copy the environment first; jetool verify says what is damaged\n"
    )


@pytest.mark.parametrize("kind", JetoolError.__subclasses__(), ids=lambda kind: kind.kind)
def test_an_error_that_names_no_next_command_gets_one(
    kind: type[JetoolError], capfd: pytest.CaptureFixture[str]
) -> None:
    """By its kind; an error that names one keeps it."""
    assert exits.report(kind("it is wrong", file="env"), ["verify", "env"]) == kind.exit_code
    said = capfd.readouterr().err
    assert re.fullmatch(r"jetool: error: it is wrong in env\n  next: \S.*\n", said), said
    exits.report(kind("it is wrong", hint="jetool info"), ["verify", "env"])
    assert capfd.readouterr().err.endswith("  next: jetool info\n")


def test_the_next_command_is_that_of_the_command_that_ran(capfd: pytest.CaptureFixture[str]) -> None:
    for words, next_command in ((["--quiet", "dump-log", "env"], "jetool dump-log --help"), ([], "jetool --help")):
        exits.report(UsageError("no such field"), words)
        assert f"next: {next_command}\n" in capfd.readouterr().err


@pytest.mark.usefixtures("samples")
def test_internal_error_is_one_line_and_a_report(tmp_path: Path) -> None:
    result = run("fail", "/data", "--how", "bug")
    assert result.code == 70
    assert result.err.count("\n") == 1
    (report,) = tmp_path.glob("jetool-report-*.txt")
    assert str(report) in result.err
    text = report.read_text()
    assert "Traceback" in text
    assert "ZeroDivisionError: division by zero" in text
    assert "['fail', '/data', '--how', 'bug']" in text
    assert report.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("samples")
def test_internal_error_without_a_place_for_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    result = run("fail", "/data", "--how", "bug")
    assert result.code == 70
    assert result.err.count("\n") == 1
    assert "sample.py:" in result.err
    assert "no report file" in result.err


@pytest.mark.usefixtures("samples")
def test_error_while_reporting_an_error(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("second")

    monkeypatch.setattr("jetool.output.messages.print_error", broken)
    assert run("fail", "/data", "--how", "refused").code == 70
    err = capfd.readouterr().err
    assert "second" in err
    assert "Traceback" not in err


def test_worst_follows_the_precedence() -> None:
    order = [70, 7, 1, 6, 8, 0]
    for size in range(1, len(order) + 1):
        for some in itertools.permutations(order, size):
            assert exits.worst(some) == next(code for code in order if code in some)
    assert exits.worst([]) == 0


@pytest.mark.parametrize("code", sorted(CODES - {70, 7, 1, 6, 8, 0}))
def test_worst_refuses_codes_without_rank(code: int) -> None:
    with pytest.raises(ValueError):
        exits.worst([0, code])


# From here on with real processes.


SIGNALS = [(signal.SIGINT, 130, b"interrupted"), (signal.SIGTERM, 143, b"terminated")]


@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_a_signal_ends_with_its_code(number: int, code: int, word: bytes) -> None:
    with started("endless", "/data", "--pause", "0.01") as child:
        assert child.stdout is not None
        child.stdout.read(1)  # it runs
        child.send_signal(number)
        _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == code
    assert err == b"jetool: error: " + word + b"\n"


@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_a_signal_leaves_no_output_file(number: int, code: int, word: bytes, tmp_path: Path) -> None:
    target = tmp_path / "result"
    target.write_text("old")
    words = ("endless", "/data", "--pause", "0.01", "--output", str(target))
    with started(*words) as child:
        eventually(lambda: len(list(tmp_path.iterdir())) > 1)
        child.send_signal(number)
        _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == code
    assert word in err
    assert [path.name for path in tmp_path.iterdir()] == ["result"]
    assert target.read_text() == "old"


@pytest.mark.parametrize(
    "line",
    [
        "$SAMPLE endless /data | head -1 >/dev/null",
        "$SAMPLE endless /data | true",
        "$SAMPLE sample /data | true",
        "$SAMPLE --help | true",
        "$SAMPLE sample --help | true",
    ],
)
def test_closed_pipe_ends_with_141_and_no_word(line: str, tmp_path: Path) -> None:
    # "| true" may be slower than the child, which then ends as it would otherwise.
    done = shell(f"{line}; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert done.stderr == b""
    expected = {141} if "head" in line or "endless" in line else {141, 0}
    assert done.returncode in expected
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", ["sample /data", "control /data", "--help", "--version", "sample --help", "sample /data --bad"]
)
def test_full_disk_ends_with_7(words: str, tmp_path: Path) -> None:
    done = shell(f"$SAMPLE {words} >/dev/full", tmp_path)
    assert done.returncode == 7
    assert done.stderr.decode().startswith("jetool: error: cannot write the results to standard output: No space left")
    assert done.stderr.decode().splitlines()[1:] == [
        "  next: check permissions, free space and the disk, then run it again"
    ]


def test_closed_standard_streams(tmp_path: Path) -> None:
    done = shell("$SAMPLE sample /data >&-", tmp_path)
    assert done.returncode == 7
    assert b"it is closed" in done.stderr
    assert shell("$SAMPLE sample /data 2>&-", tmp_path).returncode == 0
    assert shell("$SAMPLE fail /data --how refused 2>&-", tmp_path).returncode == 3
    assert shell("$SAMPLE fail /data --how refused 2>/dev/full", tmp_path).returncode == 3
    target = tmp_path / "result"
    assert shell(f"$SAMPLE sample /data --output {target} >&-", tmp_path).returncode == 0
    assert target.stat().st_size > 0


def test_module_can_be_run() -> None:
    done = spawn("schema", "nope")
    assert done.returncode == 4
    assert done.stderr.startswith(b"jetool: error: no schema")


def test_interrupt_while_loading_ends_with_130() -> None:
    code = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from jetool.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (130, b"jetool: error: interrupted\n")


def test_the_end_waits_for_threads_and_for_what_others_have_registered() -> None:
    """The process ends without freeing its objects, but not before everything that has to run at its end has run."""
    code = (
        "import atexit, sys, threading, time, weakref\n"
        "from jetool.__main__ import main\n"
        "from jetool.frame import cli\n"
        "def late():\n"
        "    time.sleep(0.2)\n"
        "    print('thread')\n"
        "def command():\n"
        "    atexit.register(print, 'registered')\n"
        "    weakref.finalize(sys, print, 'finalized')\n"
        "    threading.Thread(target=late).start()\n"
        "    return 5\n"
        "cli.main = command\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (5, b"")
    assert sorted(done.stdout.split()) == [b"finalized", b"registered", b"thread"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_the_end_after_output_that_cannot_be_written() -> None:
    """What is printed at the very end, as by a function that was registered, has Python's own exit code."""
    code = (
        "import atexit\n"
        "from jetool.__main__ import main\n"
        "from jetool.frame import cli\n"
        "cli.main = lambda: atexit.register(print, 'late') and 0\n"
        "main()"
    )
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-c", code], env=environment(), stdout=full, timeout=PATIENCE_S)
    assert done.returncode == 120
