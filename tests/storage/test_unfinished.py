"""What killed runs leave of their output: the next run removes it, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from engine.storage.unfinished import hold, remove_abandoned, unfinished_name


def test_what_has_no_owner_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "out[1]"
    directory, file = unfinished_name(target), unfinished_name(target)
    (directory / "env").mkdir(parents=True)
    (directory / "env" / "00000000.jdb").write_bytes(b"x")
    file.write_bytes(b"x")
    remove_abandoned(target)
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_use_or_of_another_name_stays(tmp_path: Path) -> None:
    target, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    used, link = unfinished_name(target), unfinished_name(target)
    used.mkdir()
    link.symlink_to(elsewhere)
    others = [unfinished_name(tmp_path / "out.more"), tmp_path / ".out.notes.tmp", tmp_path / "out.0123456789ab.tmp"]
    for other in others:
        other.write_bytes(b"x")
    handle = os.open(used, os.O_RDONLY)
    hold(handle)
    remove_abandoned(target)
    assert set(tmp_path.iterdir()) == {elsewhere, used, link, *others}
    os.close(handle)
    remove_abandoned(target)
    assert not used.exists()
