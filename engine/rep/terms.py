"""Terms of masters, and where in the stream each began.

A term is a number that elections give out once. Its master's first entry, a Matchpoint, begins it in the stream. Which
of two logs is newer is decided by the term of its last entry first, and only then by VLSN: an old master that went on
alone has high VLSNs that nobody acknowledged.

* A node keeps the list of its master, and takes it over before it acknowledges anything to that master: from then on
  its log is the beginning of the master's.
* Commits of two branches can be equal by chance: their numbers start from the same. Matchpoints are not: they have the
  time. So two logs are the same at a VLSN only if they are so where its term began.
* The term of an entry is the latest one that began at or before it; 0 where masters were named by hand.

Example: ``5@41 6@50``. A log that ends at VLSN 49 is of term 5, one that ends at 50 of term 6. The old master of term 5
ends at 60 with the list ``5@41``: it ranks behind 6@50 all the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import ByteReader, ByteWriter

MOST_STARTS: Final = 1000
_START_BYTES: Final = 16


class TermStart(NamedTuple):
    """A term, and the VLSN of the Matchpoint that begins it."""

    term: int
    vlsn: int


class Terms(NamedTuple):
    """What a node knows of the terms of its stream.

    Attributes:
        term: of the master that says so; 0 when it was named by hand.
        starts: ascending in both; the latest thousand.
    """

    term: int = 0
    starts: tuple[TermStart, ...] = ()

    def at(self, vlsn: int) -> int:
        """The term of the entry at a VLSN; 0 when none is known to have begun by then."""
        return next((start.term for start in reversed(self.starts) if start.vlsn <= vlsn), 0)

    def start_of(self, vlsn: int) -> int:
        """Where the term of the entry at a VLSN began; 0 when that is not known."""
        return next((start.vlsn for start in reversed(self.starts) if start.vlsn <= vlsn), 0)

    def begun(self, term: int, vlsn: int) -> Terms:
        """The list of a master whose term begins at a VLSN, the end of its log: what began there or after is gone.

        A term that had begun already goes on: its master was interrupted, and nobody else was elected.
        """
        starts = tuple(start for start in self.starts if start.vlsn < vlsn)
        if not starts or starts[-1].term < term:
            starts = (*starts, TermStart(term, vlsn))
        return Terms(term, starts[-MOST_STARTS:])


NO_TERMS: Final = Terms()


def encode_terms(terms: Terms) -> bytes:
    """The bytes of a message."""
    writer = ByteWriter().i64(terms.term)
    writer.packed(len(terms.starts))
    for start in terms.starts:
        writer.i64(start.term).i64(start.vlsn)
    return writer.getvalue()


def decode_terms(payload: bytes) -> Terms:
    """The terms in a message.

    Raises:
        FormatError: malformed, too long, or not ascending.
    """
    reader = ByteReader(payload)
    term = reader.i64()
    starts = tuple(TermStart(reader.i64(), reader.i64()) for _ in range(reader.count(_START_BYTES)))
    reader.finish()
    return check_terms(Terms(term, starts))


def check_terms(terms: Terms) -> Terms:
    """Terms that came from elsewhere.

    Raises:
        FormatError: they are not ascending, or one of them is later than the master's own.
    """
    least = TermStart(1, 1)
    for start in terms.starts:
        if start.term < least.term or start.vlsn < least.vlsn:
            raise FormatError(f"term {start.term} at VLSN {start.vlsn} is out of order")
        least = TermStart(start.term + 1, start.vlsn + 1)
    if terms.term < 0 or len(terms.starts) > MOST_STARTS or (terms.starts and terms.starts[-1].term > terms.term):
        raise FormatError(f"terms up to {terms.term} are not possible", found=str(len(terms.starts)))
    return terms
