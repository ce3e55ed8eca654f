"""Exceptions of Java and bare stack traces, known by their frames alone."""

from __future__ import annotations

from typing import Final

from engine.rescue.messages.record import CHECK, INFO, KnownMessage

ILLEGAL_STATE: Final = KnownMessage(
    word="IllegalStateException of JE",
    cause="the application uses a handle of JE that is closed or in another state; look for what closed it first",
    risk=CHECK,
    next=INFO,
)
JAVA_IN_JE: Final = KnownMessage(
    word="exception of Java in JE",
    cause="an exception of Java in the code of JE; lines before it may say more",
    risk=CHECK,
    next=INFO,
)
JAVA_IN_DERBY: Final = KnownMessage(
    word="exception of Java in Derby",
    cause="an exception of Java in the code of Derby; lines before it may say more",
    risk=CHECK,
    next=INFO,
)
TRACE: Final = KnownMessage(
    word="stack trace",
    cause="frames without the line of their exception: they show where a thread was, not why; paste the lines before",
    risk=CHECK,
    next=INFO,
)
# Places of the uppermost frame of JE, most precise first.
FRAMES: Final = (
    ("com.sleepycat.je.rep.InsufficientLogException.", "restore initialization"),
    ("com.sleepycat.je.latch.LatchSupport.", "latch timeout"),
)
BARE: Final = (ILLEGAL_STATE, JAVA_IN_JE, JAVA_IN_DERBY, TRACE)
