"""Terms of a stream, and what they tell apart that looks the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.db.environment import Environment
from engine.errors import FormatError
from engine.format.entry.rollback import Matchpoint, encode_matchpoint
from engine.format.entry_types import MATCHPOINT
from engine.format.versions import WRITTEN_VERSION
from engine.format.vlsn import NEXT_VLSN
from engine.rep.stream import entry_at
from engine.rep.syncup import Action, Feeder, find_plan
from engine.rep.terms import MOST_STARTS, NO_TERMS, Terms, TermStart, decode_terms, encode_terms
from engine.storage.memory import MemoryStorage
from tests.rep.streams import open_alone


def test_terms_of_a_stream() -> None:
    terms = Terms().begun(5, 41).begun(6, 50)
    assert [terms.at(vlsn) for vlsn in (0, 40, 41, 49, 50, 99)] == [0, 0, 5, 5, 6, 6]
    assert [terms.start_of(vlsn) for vlsn in (40, 41, 49, 50, 99)] == [0, 41, 41, 50, 50]
    assert terms.begun(8, 45).starts == ((5, 41), (8, 45))
    assert terms.begun(6, 60) == terms
    assert terms.begun(6, 50) == terms
    assert decode_terms(encode_terms(terms)) == terms
    for term in range(7, 1200):
        terms = terms.begun(term, 50 + term)
    assert len(terms.starts) == MOST_STARTS
    assert decode_terms(encode_terms(terms)) == terms


@pytest.mark.parametrize(
    "terms",
    [
        Terms(-1), Terms(5, (TermStart(6, 1),)), Terms(5, (TermStart(0, 9),)),
        Terms(5, (TermStart(4, 9), TermStart(5, 9))),
        Terms(5, (TermStart(5, 9), TermStart(4, 12))), Terms(9, (TermStart(5, -1),)),
        Terms(9999, tuple(TermStart(n, n) for n in range(1, MOST_STARTS + 2))),
    ],
)  # fmt: skip
def test_impossible_terms(terms: Terms) -> None:
    with pytest.raises(FormatError):
        decode_terms(encode_terms(terms))


@given(st.binary(max_size=80))
def test_hostile_terms(payload: bytes) -> None:
    try:
        terms = decode_terms(payload)
    except FormatError:
        return
    assert decode_terms(encode_terms(terms)) == terms


def branch(files: dict[str, bytes], time_ms: int, key: bytes) -> tuple[Environment, int]:
    """A log that goes on as a new master's: its Matchpoint, then a transaction; with the VLSN of the Matchpoint."""
    env = open_alone(MemoryStorage(files))
    assert env.engine.vlsn_index is not None
    assert env.engine.writer is not None
    env.engine.writer.log_in_stream(MATCHPOINT, encode_matchpoint(Matchpoint(time_ms, 1), WRITTEN_VERSION), NEXT_VLSN)
    begin = env.engine.vlsn_index.range.last
    with env.open_database("t") as db:
        db.put(key, b"x")
    return env, begin


def test_equal_commits_of_two_branches_are_told_apart_where_their_terms_begin() -> None:
    base = MemoryStorage()
    with open_alone(base) as env:
        env.create_database("t").close()
    master, begin = branch(base.contents(), 1000, b"master")
    replica, _ = branch(base.contents(), 2000, b"lost")
    assert master.engine.vlsn_index is not None
    assert replica.engine.vlsn_index is not None
    last = master.engine.vlsn_index.range.last
    assert replica.engine.vlsn_index.range.last == last
    assert entry_at(master.engine, last)[1].agrees(entry_at(replica.engine, last)[1])
    assert not entry_at(master.engine, last - 1)[1].agrees(entry_at(replica.engine, last - 1)[1])

    def plan(terms: Terms) -> tuple[Action, int]:
        found = find_plan(
            replica.engine, Feeder(master.engine, lambda vlsn: entry_at(master.engine, vlsn)[1]).answer, terms
        )
        assert found.matchpoint is not None
        return found.action, found.matchpoint.vlsn

    assert plan(NO_TERMS) == (Action.START, last)
    assert plan(Terms().begun(7, begin)) == (Action.HARD_RECOVERY, begin - 1)
    assert plan(Terms().begun(7, 2)) == (Action.START, last)
    for env in (master, replica):
        env.engine.crash()
