"""Signals that are held: what has begun is whole, what waits is interrupted."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jetool.commands.load.held_signals import HeldSignals


class EndedError(Exception):
    """What a handler raises."""


@contextmanager
def raising(number: signal.Signals) -> Iterator[None]:
    def handler(*_: object) -> None:
        raise EndedError

    before = signal.signal(number, handler)
    try:
        yield
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_comes_when_it_is_released(number: signal.Signals) -> None:
    steps: list[str] = []

    def work() -> None:
        with HeldSignals() as held:
            held.hold()
            signal.raise_signal(number)
            steps.append("whole")
            held.release()
            steps.append("never")

    with raising(number), pytest.raises(EndedError):
        work()
    assert steps == ["whole"]


def test_it_comes_at_once_when_nothing_is_held() -> None:
    steps: list[str] = []

    def work() -> None:
        with HeldSignals() as held:
            held.hold()
            held.release()
            signal.raise_signal(signal.SIGINT)
            steps.append("never")

    with raising(signal.SIGINT), pytest.raises(EndedError):
        work()
    assert steps == []


def test_what_ends_the_run_anyway_is_not_hidden() -> None:
    def work() -> None:
        with HeldSignals() as held:
            held.hold()
            signal.raise_signal(signal.SIGINT)
            raise KeyError("first")

    with raising(signal.SIGINT), pytest.raises(KeyError):
        work()


def test_what_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with HeldSignals() as held:
            held.hold()
            signal.raise_signal(signal.SIGINT)
            held.release()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
