"""The overlay against a plain storage that gets the same changes, and the counting of faults."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import NotFoundError, StorageError
from engine.storage.memory import MemoryStorage
from engine.storage.overlay import OverlayStorage
from tests.support.damage.stopping_storage import StoppingStorage

CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 9000), st.binary(min_size=1, max_size=5000)),
        st.tuples(st.just("truncate"), st.integers(0, 12_000), st.just(b"")),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=9000), CHANGES, st.integers(0, 10_000), st.integers(0, 6000))
def test_overlay_reads_as_a_plain_file(
    start: bytes, changes: list[tuple[str, int, bytes]], offset: int, length: int
) -> None:
    base, plain = MemoryStorage({"d/f": start}), MemoryStorage({"d/f": start})
    overlay = OverlayStorage(base)
    over, real = overlay.open_rw("d/f"), plain.open_rw("d/f")
    for kind, at, data in changes:
        for file in (over, real):
            if kind == "write":
                file.write(at, data)
            else:
                file.truncate(at)
    assert over.size() == real.size()
    assert over.read(0, 30_000) == real.read(0, 30_000)
    assert overlay.open("d/f").read(offset, length) == real.read(offset, length)
    assert base.contents() == {"d/f": start}


def test_names_follow_creation_removal_and_renaming() -> None:
    base = MemoryStorage({"d/a": b"a", "d/b": b"b"})
    overlay = OverlayStorage(base)
    overlay.open_rw("d/c", create=True).write(0, b"c")
    overlay.remove("d/a")
    overlay.rename("d/b", "d/e")
    overlay.make_directory("x")
    assert overlay.names("d") == ["c", "e"]
    assert overlay.names() == ["d", "x"]
    assert overlay.stat("d/a") is None
    assert overlay.open("d/e").read(0, 9) == b"b"
    with pytest.raises(NotFoundError):
        overlay.open("d/a")
    with pytest.raises(NotFoundError):
        overlay.open_rw("d/b")
    with pytest.raises(NotFoundError):
        overlay.remove("d/a")
    with pytest.raises(NotFoundError):
        overlay.names("nowhere")
    overlay.open_rw("d/a", create=True)
    assert overlay.open("d/a").size() == 0
    assert base.contents() == {"d/a": b"a", "d/b": b"b"}
    assert overlay.changed() == {"d/c": 4096}


def test_faults_are_counted_and_last() -> None:
    base = MemoryStorage({"f": b"123456"})
    faulty = StoppingStorage(base, fail_at=1, torn_bytes=2)
    file = faulty.open_rw("f")
    file.write(0, b"ab")
    with pytest.raises(StorageError, match="change 1"):
        file.write(2, b"wxyz")
    assert base.contents() == {"f": b"abwx56"}
    for change in (
        lambda: file.truncate(0),
        lambda: faulty.remove("f"),
        lambda: faulty.rename("f", "g"),
        lambda: faulty.open_rw("new", create=True),
        lambda: faulty.make_directory("d"),
    ):
        with pytest.raises(StorageError):
            change()
    assert file.read(0, 6) == b"abwx56"
    assert base.contents() == {"f": b"abwx56"}
