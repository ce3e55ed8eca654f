"""What voters say to each other.

=========  ==================================================  ==================================================
message    content                                             meaning
=========  ==================================================  ==================================================
JOIN       i32 voters, name                                    first message in both directions
STANDING   i64 term, u8 flags, rank                            how new the log is, and whether there is a master
REQUEST    i64 term, u8 summoned, rank                         vote for me
VOTE       i64 term                                            I do
BEAT       i64 term                                            I am the master
HEARD      i64 term                                            I have heard the beat
SUMMONS    i64 term                                            I am the master: stand, and take my place
=========  ==================================================  ==================================================

A rank is i64 term, i64 VLSN, i32 priority. All have a fixed size but for the name: nothing is allocated for what a peer
announces, and nothing but numbers comes in.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from engine.errors import FormatError, plural
from engine.format.bytecursor import ByteReader, ByteWriter
from engine.rep.election.rank import Rank, VoterState
from engine.rep.frames import Frame

LONGEST: Final = 1024
MOST_VOTERS: Final = 50
_MOST_TERMS: Final = 1 << 48
_LED, _RANKED = 1, 2


class FrameKind(IntEnum):
    """Frame types."""

    JOIN = 60
    STANDING = 61
    REQUEST = 62
    VOTE = 63
    BEAT = 64
    HEARD = 65
    SUMMONS = 66


class VoterJoin(NamedTuple):
    """Who speaks, and how many voters it knows, itself included."""

    voters: int
    name: str


class VoteRequest(NamedTuple):
    """A candidate asks for a vote; ``summoned`` when the master has told it to."""

    term: int
    summoned: bool
    rank: Rank


class Vote(NamedTuple):
    """The answer to a request; there is none to withhold it."""

    term: int


class LeaderBeat(NamedTuple):
    """The master is there."""

    term: int


class VoterAlive(NamedTuple):
    """A voter is there."""

    term: int


class Summons(NamedTuple):
    """The master gives its place away."""

    term: int


Said = VoterState | VoteRequest | Vote | LeaderBeat | VoterAlive | Summons
_PLAIN: Final[dict[int, type[Vote | LeaderBeat | VoterAlive | Summons]]] = {
    FrameKind.VOTE: Vote,
    FrameKind.BEAT: LeaderBeat,
    FrameKind.HEARD: VoterAlive,
    FrameKind.SUMMONS: Summons,
}
_KINDS: Final = {made: kind for kind, made in _PLAIN.items()}


def encode_join(join: VoterJoin) -> bytes:
    """The first message."""
    return ByteWriter().i32(join.voters).string(join.name).getvalue()


def decode_join(payload: bytes) -> VoterJoin:
    """The first message. Raises FormatError."""
    reader = ByteReader(payload)
    join = VoterJoin(reader.i32(), reader.string())
    reader.finish()
    # The name is shown to operators and looked up among the voters.
    if not 0 < join.voters <= MOST_VOTERS or not join.name.isprintable():
        raise FormatError(f"{plural(join.voters, 'voter')}, or the name {join.name!r}, are not possible")
    return join


def encode(said: Said) -> Frame:
    """A message."""
    writer = ByteWriter().i64(said.term)
    if isinstance(said, VoterState):
        flags = (_LED if said.led else 0) | (_RANKED if said.rank is not None else 0)
        return Frame(FrameKind.STANDING, _rank(writer.u8(flags), said.rank or Rank(0, 0, 0)))
    if isinstance(said, VoteRequest):
        return Frame(FrameKind.REQUEST, _rank(writer.u8(said.summoned), said.rank))
    return Frame(_KINDS[type(said)], writer.getvalue())


def decode(frame: Frame) -> Said:
    """A message after the first one.

    Raises:
        FormatError: it is none, or says what cannot be.
    """
    reader = ByteReader(frame.payload)
    term = reader.i64()
    if not 0 <= term < _MOST_TERMS:
        raise FormatError(f"term {term} is not possible")
    said: Said
    if frame.type == FrameKind.STANDING:
        flags, rank = reader.u8(), _read_rank(reader)
        said = VoterState(term, bool(flags & _LED), rank if flags & _RANKED else None)
    elif frame.type == FrameKind.REQUEST:
        said = VoteRequest(term, bool(reader.u8()), _read_rank(reader))
    elif frame.type in _PLAIN:
        said = _PLAIN[frame.type](term)
    else:
        raise FormatError(f"message {frame.type} has no place here")
    reader.finish()
    return said


def _rank(writer: ByteWriter, rank: Rank) -> bytes:
    return writer.i64(rank.term).i64(rank.vlsn).i32(rank.priority).getvalue()


def _read_rank(reader: ByteReader) -> Rank:
    rank = Rank(reader.i64(), reader.i64(), reader.i32())
    if min(rank) < 0:
        raise FormatError(f"rank {tuple(rank)} is not possible")
    return rank
