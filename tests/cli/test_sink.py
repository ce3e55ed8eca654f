"""``--output``: the file is the old one or a complete new one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.errors import StorageError
from jetool.output.sink import FileOutput
from tests.support.harness import run

pytestmark = pytest.mark.usefixtures("samples")


def test_file_holds_what_would_have_been_printed(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    result = run("sample", "/data", "--json", "--output", target)
    assert result == (0, b"", "")
    assert target.read_bytes() == run("sample", "/data", "--json").out
    assert os.listdir(tmp_path) == ["result.json"]


def test_findings_are_a_result(tmp_path: Path) -> None:
    target = tmp_path / "result"
    assert run("check", "/data", "--output", target).code == 1
    assert target.read_text().startswith("ERROR")


def test_failure_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "result"
    target.write_text("old")
    for how, code in (("refused", 3), ("interrupt", 130)):
        assert run("fail", "/data", "--how", how, "--output", target).code == code
        assert target.read_text() == "old"
        assert os.listdir(tmp_path) == ["result"]


def test_nothing_has_the_name_until_commit(tmp_path: Path) -> None:
    target = tmp_path / "result"
    sink = FileOutput(str(target))
    sink.open()
    sink.write(b"data")
    sink.flush()
    assert not target.exists()
    sink.commit()
    assert target.read_bytes() == b"data"


def test_order_of_sync_and_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(number: int) -> None:
        done.append("sync directory" if os.path.isdir(f"/proc/self/fd/{number}") else "sync file")
        real_sync(number)

    def replace(old: str, new: str) -> None:
        done.append("rename")
        real_replace(old, new)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    sink = FileOutput(str(tmp_path / "result"))
    sink.open()
    sink.write(b"data")
    sink.commit()
    assert done == ["sync file", "rename", "sync directory"]


def test_permissions(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("old")
    old.chmod(0o640)
    before = os.umask(0o027)
    try:
        for path in (new, old):
            assert run("control", "/data", "--output", path).code == 0
    finally:
        os.umask(before)
    assert new.stat().st_mode & 0o777 == 0o640
    assert old.stat().st_mode & 0o777 == 0o640


def test_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to("real")
    assert run("control", "/data", "--output", link).code == 0
    assert link.is_symlink()
    assert real.read_text() != "old"


def test_targets_that_are_no_files(tmp_path: Path) -> None:
    assert run("control", "/data", "--output", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()
    assert run("control", "/data", "--output", "-").out == run("control", "/data").out
    full = run("control", "/data", "--output", "/dev/full")
    assert full.code == 7
    assert "No space left" in full.err


@pytest.mark.parametrize("name", ["absent/result", "."])
def test_target_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    result = run("control", "/data", "--output", tmp_path / name)
    assert result.code == 7
    assert "nothing was done" in result.err
    assert os.listdir(tmp_path) == []


def test_failure_while_committing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(number: int) -> None:
        raise OSError(5, "Input/output error")

    sink = FileOutput(str(tmp_path / "result"))
    sink.open()
    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StorageError):
        sink.commit()
    sink.abandon()
    assert os.listdir(tmp_path) == []


def test_interrupt_while_the_file_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fdopen

    def interrupted(number: int, mode: str) -> object:
        real(number, mode).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fdopen", interrupted)
    assert run("control", "/data", "--output", tmp_path / "result").code == 130
    assert os.listdir(tmp_path) == []


def test_abandon_before_open_is_harmless(tmp_path: Path) -> None:
    FileOutput(str(tmp_path / "result")).abandon()
    assert os.listdir(tmp_path) == []
