"""What the targets for JE's replication protocol share: one call that may only end in FormatError, and seeds."""

from __future__ import annotations

from pathlib import Path

from engine.errors import FormatError
from engine.rep.changes.assembly import Assembler
from engine.rep.changes.database_names import DatabaseNames
from engine.rep.changes.position import Torn
from engine.rep.changes.transactions import CommittedTransaction, name_records
from engine.rep.peers import PeerError
from engine.rep.wire.election_lines import ACCEPTOR, LEARNER
from engine.rep.wire.entries import WireEntry, meaning
from engine.rep.wire.feeder import FEEDER, AlternateMatchpoint, Commit, Entry
from engine.rep.wire.group_lines import GROUP, MONITOR, STATE
from engine.rep.wire.inbox import Inbox
from engine.rep.wire.lines import TextMessage
from engine.rep.wire.log_file_feeder import LOG_FILES
from engine.rep.wire.messages import Message, encode_frame
from engine.rep.wire.node_state import NODE_STATE

BINARY = (FEEDER, LOG_FILES, NODE_STATE)
TEXT = (ACCEPTOR, LEARNER, GROUP, STATE, MONITOR)


def try_stream(data: bytes) -> list[Message]:
    """Decode a stream of binary messages: service, side and version are in the first two bytes."""
    table, client, version = BINARY[data[0] % len(BINARY)], data[0] >= 0x80, data[1] % 15
    inbox = Inbox(from_client=client)
    found: list[Message] = []
    try:
        for at in range(2, len(data), 97):
            inbox.feed(data[at : at + 97])
            while (one := inbox.message(table, version)) is not None:
                found.append(one)
                if isinstance(one, Entry | Commit | AlternateMatchpoint):
                    meaning(one.entry.record())
    except FormatError:
        pass
    for message in found:
        try:
            frame = encode_frame(message, version)
        except FormatError:
            # JE's texts may be in any charset; ours are ASCII.
            continue
        again = Inbox(from_client=client)
        again.feed(frame)
        assert again.message(table, version) == message
    return found


def try_changes(data: bytes) -> int:
    """Assemble a stream of a feeder, and read all changes; the log version of the stream is in the first byte.

    Returns:
        How many changes there were.
    """
    inbox, assembler = Inbox(from_client=False), Assembler(Torn(1 + data[0] % 3), 0, data[0] % 20, 700)
    names, count, started = DatabaseNames({}), 0, False
    try:
        for at in range(1, len(data), 251):
            inbox.feed(data[at : at + 251])
            entries = [one for one in inbox.stream(9) if isinstance(one, WireEntry)]
            if entries and not started:
                started = True
                assembler.start(entries[0].vlsn)
            for gathered in assembler.take(entries):
                records = name_records(gathered)
                done, _ = names.apply([record for _, record in records])
                changes = {vlsn: change for (vlsn, _), change in zip(records, done, strict=True)}
                transaction = CommittedTransaction(gathered.point, 0, gathered, names, changes, torn=gathered.torn)
                count += sum(1 for _ in transaction.changes(internal=True))
                assembler.release(gathered)
    except (FormatError, PeerError):
        pass
    finally:
        assembler.close()
    return count


def try_lines(data: bytes) -> list[TextMessage]:
    """Decode how a connection begins, then its lines: service and side are in the first byte."""
    table, client = TEXT[data[0] % len(TEXT)], data[0] >= 0x80
    beginning = Inbox(from_client=client)
    beginning.feed(data[1:])
    for take in (beginning.service, beginning.mechanisms, beginning.mechanism, beginning.status):
        try:
            take()
        except FormatError:
            continue
    inbox = Inbox(from_client=client)
    inbox.feed(data[1:])
    found: list[TextMessage] = []
    try:
        while (one := inbox.line(table)) is not None:
            found.append(one[1])
    except FormatError:
        pass
    return found


def write_streams(directory: Path) -> None:
    """Seeds: what each side sent in small recordings, after the service."""
    from tests.support.groups.recordings import files, read

    for index, path in enumerate(files()):
        recording = read(path)
        service = recording.meta["service"] or ""
        which = next((n for n, table in enumerate(BINARY) if service.startswith(table.service)), None)
        if which is not None and path.stat().st_size < 6_000:
            version = 9 if which == 0 else 2
            for client, taken in ((True, 9 + len(service)), (False, 1)):
                rest = recording.sent(client=client)[taken:]
                head = bytes((which + (129 - 129 % 3) * client, version))
                (directory / f"stream-{index:03}-{client}").write_bytes(head + rest)


def write_lines(directory: Path) -> None:
    """Seeds: the lines of recordings."""
    from tests.support.groups.recordings import files, read

    seen: set[bytes] = set()
    for index, path in enumerate(files()):
        recording = read(path)
        which = next((n for n, table in enumerate(TEXT) if table.service == recording.meta["service"]), None)
        if which is not None:
            for client, taken in ((True, 9 + len(recording.meta["service"])), (False, 1)):
                rest = recording.sent(client=client)[taken:]
                # One of each kind is enough.
                kind = bytes((which, client)) + b"|".join(rest.split(b"|")[3:5])[:12]
                if rest and kind not in seen:
                    seen.add(kind)
                    head = bytes((which + 130 * client,))
                    (directory / f"line-{index:03}-{client}").write_bytes(head + rest)


def write_changes(directory: Path) -> None:
    """Seeds: what feeders streamed in small recordings, from the first entry on."""
    from tests.support.groups.recordings import Player, files, read

    for index, path in enumerate(files()):
        recording = read(path)
        if recording.meta["service"] == FEEDER.service and path.stat().st_size < 30_000:
            played = [one for one in Player(recording).play() if isinstance(one.what, Entry | Commit)]
            if played:
                (directory / f"changes-{index:03}").write_bytes(b"\x10" + b"".join(one.raw for one in played[1:]))
