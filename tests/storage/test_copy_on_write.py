"""A cover: changes are files of another directory, and what it shows of the one below is of one moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import NotFoundError
from engine.storage.base import Storage
from engine.storage.copy_on_write import CoverStorage
from engine.storage.disk import DiskStorage
from tests.storage.test_storage_contract import content


@pytest.fixture
def below(tmp_path: Path) -> Path:
    found = tmp_path / "below"
    (found / "data001").mkdir(parents=True)
    (found / "data001" / "1.jdb").write_bytes(b"one")
    (found / "2.jdb").write_bytes(b"twotwo")
    (found / "3.jdb").write_bytes(b"three")
    (found / "je.properties").write_bytes(b"settings")
    return found


@pytest.fixture
def cover(tmp_path: Path) -> Storage:
    (tmp_path / "cover").mkdir()
    return DiskStorage(tmp_path / "cover")


SHOWN = {"data001/1.jdb": 3, "2.jdb": 3, "3.jdb": 5}


def test_changes_are_seen_by_readers_elsewhere_and_not_below(below: Path, cover: Storage) -> None:
    before = {path: path.read_bytes() for path in below.rglob("*") if path.is_file()}
    storage = CoverStorage(DiskStorage(below), cover, SHOWN)
    file = storage.open_rw("data001/1.jdb")
    file.write(3, b"more")
    file.close()
    storage.open_rw("4.jdb", create=True).close()
    storage.rename("2.jdb", "2.bad")
    storage.remove("3.jdb")
    storage.open_rw("je.lck", create=True).close()
    storage.lock("je.lck", 0, exclusive=True).release()
    with pytest.raises(NotFoundError):
        CoverStorage(DiskStorage(below), cover)
    storage.finish()
    for view in (storage, CoverStorage(DiskStorage(below), cover)):
        assert view.names() == ["2.bad", "4.jdb", "data001", "je.lck", "je.properties"]
        assert view.names("data001") == ["1.jdb"]
        assert (content(view, "data001/1.jdb"), content(view, "2.bad")) == (b"onemore", b"two")
        assert content(view, "je.properties") == b"settings"
        for gone in ("2.jdb", "3.jdb"):
            assert view.stat(gone) is None
            with pytest.raises(NotFoundError):
                view.open(gone)
            with pytest.raises(NotFoundError):
                view.remove(gone)
    assert {path: path.read_bytes() for path in below.rglob("*") if path.is_file()} == before


def test_what_comes_below_later_is_not_seen(below: Path, cover: Storage) -> None:
    storage = CoverStorage(DiskStorage(below), cover, SHOWN)
    storage.finish()
    with (below / "3.jdb").open("ab") as file:
        file.write(b" and more")
    (below / "4.jdb").write_bytes(b"four")
    view = CoverStorage(DiskStorage(below), cover)
    assert view.names() == ["2.jdb", "3.jdb", "data001", "je.properties"]
    assert (content(view, "2.jdb"), content(view, "3.jdb")) == (b"two", b"three")
    with pytest.raises(NotFoundError):
        view.open("4.jdb")
