"""Every recording of real nodes replays: the decoders give each message, the encoders the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import FormatError
from engine.rep.wire.messages import Message
from engine.rep.wire.services import encode_service_request
from tests.rep.wire.short_forms import short
from tests.support.groups.recordings import HOME, Player, encoded, files, read

SCENARIOS = sorted(path.parent.name for path in HOME.glob("*/manifest.json"))


def manifest(scenario: str) -> dict[str, list[str]]:
    said = json.loads((HOME / scenario / "manifest.json").read_text())
    return {one["file"]: one["messages"] for one in said["connections"]}


def comparable(forms: list[str]) -> list[str]:
    """Without what the manifests leave open: how both sides end, and the bytes of what nobody can read.

    A version or an id that is no number is malformed here; the decoder that made the manifests did not look at them.
    """
    kept = []
    for form in forms:
        words = form.split(" ")
        if words[1] == "malformed" or {"version=x", "sender=abc"} & {*words}:
            kept.append(f"{words[0]} malformed")
        elif words[1] not in ("end", "cut"):
            kept.append(form)
    return kept


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_messages_are_those_of_the_manifest(scenario: str) -> None:
    expected = manifest(scenario)
    for name, messages in expected.items():
        found = short(list(Player(read(HOME / scenario / name)).play()))
        assert comparable(found) == comparable(messages), name


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_messages_encode_to_the_same_bytes(scenario: str) -> None:
    for path in (one for one in files() if one.parent.name == scenario):
        recording = read(path)
        player = Player(recording)
        taken = {True: b"", False: b""}
        for played in player.play():
            taken[played.client] += played.raw
            if isinstance(played.what, FormatError):
                # Nothing after it is read.
                taken[played.client] = recording.sent(client=played.client)
            elif isinstance(played.what, str) and played.raw:
                assert encode_service_request(played.what) == played.raw
            elif isinstance(played.what, Message | tuple):
                assert encoded(player, played) == played.raw, (path.name, played)
        assert taken == {side: recording.sent(client=side) for side in taken}, path.name


@pytest.mark.parametrize("path", [one for one in files() if one.stat().st_size < 12_000], ids=lambda path: path.stem)
def test_pieces_do_not_matter(path: Path) -> None:
    """Byte by byte the same messages come out, each when its last byte is there."""
    recording = read(path)
    assert _whole(Player(recording, 1)) == _whole(Player(recording))


def _whole(player: Player) -> dict[bool, list[tuple[str, bytes]]]:
    found: dict[bool, list[tuple[str, bytes]]] = {True: [], False: []}
    for played in player.play():
        kind = "bytes" if isinstance(played.what, bytes) else repr(played.what)
        if kind == "bytes" and found[played.client][-1:] and found[played.client][-1][0] == "bytes":
            last = found[played.client].pop()
            found[played.client].append((kind, last[1] + played.raw))
        else:
            found[played.client].append((kind, played.raw))
    return found


def test_what_the_recordings_hold() -> None:
    """So that an empty corpus does not pass."""
    seen: dict[str, int] = {}
    for path in files():
        for played in Player(read(path)).play():
            message: object = played.what[1] if isinstance(played.what, tuple) else played.what
            seen[type(message).__name__] = seen.get(type(message).__name__, 0) + 1
    assert sum(seen.values()) > 6_000
    assert len(seen) > 60
    assert seen["FormatError"] == 12
