"""Messages by the thousand give what one at a time gives, whatever the bytes are and however they come."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import FormatError
from engine.format.entry_types import COMMIT
from engine.rep.wire.batches import join_stream
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.feeder import FEEDER, NO_SYNC, Commit, Entry
from engine.rep.wire.inbox import Inbox
from engine.rep.wire.messages import Message, encode_frame
from tests.rep.wire.strategies import messages
from tests.support.groups.recordings import Player, files, read

SENT: tuple[type[Message], ...] = (
    Entry,
    Commit,
    *(kind for kind, client in FEEDER.classes() if not client and kind.SINCE <= 9),
)


def one_by_one(pieces: list[bytes], version: int) -> tuple[list[object], bool]:
    """The messages, and whether something made no sense."""
    inbox = Inbox(from_client=False)
    found: list[object] = []
    try:
        for piece in pieces:
            inbox.feed(piece)
            while (message := inbox.message(FEEDER, version)) is not None:
                waits = isinstance(message, Commit) and message.needs_ack
                found.append(message.entry if isinstance(message, Entry | Commit) and not waits else message)
    except FormatError:
        return found, True
    return found, False


def by_the_thousand(pieces: list[bytes], version: int) -> tuple[list[object], bool]:
    inbox = Inbox(from_client=False)
    found: list[object] = []
    try:
        for piece in pieces:
            inbox.feed(piece)
            found += inbox.stream(version)
    except FormatError:
        return found, True
    return found, False


def test_recordings() -> None:
    count = 0
    for path in files():
        recording = read(path)
        if recording.meta["service"] != FEEDER.service or recording.sent(client=False)[:1] != b"\0":
            continue
        version = next((one.version for one in Player(recording).play() if one.version), 0)
        data = recording.sent(client=False)[1:]
        wanted = one_by_one([data], version)
        assert by_the_thousand([data], version) == wanted
        assert by_the_thousand([data[at : at + 37] for at in range(0, len(data), 37)], version) == wanted
        count += len(wanted[0])
    assert count > 2500


def test_what_feeders_sent_is_joined_to_the_same_bytes() -> None:
    """Runs of entries, of 18.3 and where 25.3 speaks its protocol."""
    count = 0
    for path in files():
        run: list[WireEntry | Commit] = []
        raw = b""
        for played in Player(read(path)).play():
            what = played.what
            if not isinstance(what, Entry | Commit):
                continue
            # An answer of the syncup may be a Commit in an Entry. 25.3 says WRITE_NO_SYNC in null transactions, and
            # sends Aborts as Commits.
            is_commit = what.entry.type_number == COMMIT
            waits = isinstance(what, Commit) and what.needs_ack
            ours = waits or not isinstance(what, Commit) or what.sync_policy == NO_SYNC
            if ours and is_commit == isinstance(what, Commit):
                run.append(what if isinstance(what, Commit) and waits else what.entry)
                raw += played.raw
        if run:
            assert join_stream(run, 9) == raw, path
            count += len(run)
    assert count > 1500
    with pytest.raises(FormatError):
        join_stream([WireEntry(0, COMMIT, 16, b"x")], 9)


@settings(max_examples=150)
@given(st.data())
def test_any_bytes(data: st.DataObject) -> None:
    version = data.draw(st.integers(6, 9))
    kinds = [kind for kind in SENT if version >= kind.SINCE]
    sent = data.draw(st.lists(st.sampled_from(kinds).flatmap(lambda kind: messages(kind, version)), max_size=5))
    stream = bytearray(b"".join(encode_frame(one, version) for one in sent))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, max(len(stream) - 1, 0)))
        stream[at : at + 1] = data.draw(st.binary(max_size=2))
    step = data.draw(st.integers(1, len(stream) + 1))
    pieces = [bytes(stream[at : at + step]) for at in range(0, len(stream), step)]
    found, wrong = by_the_thousand(pieces, version)
    wanted, wanted_wrong = one_by_one(pieces, version)
    assert wrong == wanted_wrong
    # What came with the bytes that make no sense is not handed out.
    assert found == wanted if not wrong else found == wanted[: len(found)]


def test_a_long_message_in_small_pieces_is_not_looked_at_again_and_again() -> None:
    inbox = Inbox(from_client=False)
    head = (101).to_bytes(2, "little") + (50 << 20).to_bytes(4, "little")
    inbox.feed(head)
    for _ in range(800):
        inbox.feed(bytes(1 << 16))
        if len(inbox) < (50 << 20):
            assert inbox.stream(9) == []
    assert len(inbox) > 50 << 20
