"""The record of a known message, and the commands that many of them name.

=============  ==================================================================
risk           meaning
=============  ==================================================================
``none``       nothing is lost; try again, or fix the application
``check``      no sign of lost data; check it
``node``       this process or node stops; its data is safe
``data``       data may be lost or wrong: make a copy before anything else
=============  ==================================================================

=============  ==================================================================
environment    meaning
=============  ==================================================================
``goes-on``    the operation failed; the environment or database is usable
``invalid``    it has to be closed and opened again
``not-open``   it was not opened
=============  ==================================================================
"""

from __future__ import annotations

from typing import Final, NamedTuple

NONE: Final = "none"
CHECK: Final = "check"
NODE: Final = "node"
DATA: Final = "data"
RISKS: Final = (NONE, CHECK, NODE, DATA)

GOES_ON: Final = "goes-on"
INVALID: Final = "invalid"
NOT_OPEN: Final = "not-open"
ENVIRONMENTS: Final = (GOES_ON, INVALID, NOT_OPEN)


class KnownMessage(NamedTuple):
    """A message of the table; ``{env}`` in ``next`` stands for the environment.

    Attributes:
        word: an EnvironmentFailureReason, the class of an exception, a code of Derby, or a name for a text.
        cause: what causes it.
        risk: one of ``RISKS``.
        next: the next command.
        environment: one of ``ENVIRONMENTS``; None if the message does not decide it.
        wrapper: the message only reports another message, which decides if the text contains it.
        signs: pieces of text, in this order, that identify a message without a word.
        refines: words of the messages that this message refines; it counts only together with such a message. Empty:
            always.
    """

    word: str
    cause: str
    risk: str
    next: str
    environment: str | None = None
    wrapper: bool = False
    signs: tuple[str, ...] = ()
    refines: tuple[str, ...] = ()


VERIFY: Final = "jetool verify --full {env}"
INFO: Final = "jetool info {env}"
MISSING: Final = "jetool missing {env}"
GROUP: Final = "jetool group show {env}"
RETRY: Final = "retry the transaction"
TRANSACTIONS: Final = "retry the transaction; jetool txns {env}"
ROOM: Final = "make room; then jetool recover {env} -n"
REDO: Final = "jetool recover {env} -n --explain"
SCAN: Final = "jetool scan {env} --db NAME"
APPLICATION: Final = "it is for the application"
