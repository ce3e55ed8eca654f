"""JE's texts inside of a reason: syncups, and nodes that change their role."""

from __future__ import annotations

from typing import Final

from engine.rescue.messages.record import (
    GROUP,
    INVALID,
    NODE,
    NOT_OPEN,
    VERIFY,
    KnownMessage,
)

SYNCUP_TEXTS: Final = (
    KnownMessage(
        word="feeder repositioned wrongly",
        cause="the VLSN index of the master leads its reader to a wrong place of the log",
        risk=NODE,
        next="jetool vlsn check {env}",
        environment=INVALID,
        signs=("repositionLsn =",),
    ),
    KnownMessage(
        word="feeder scan backward",
        cause="a replica asked for a VLSN that the master's reader has passed",
        risk=NODE,
        next="jetool vlsn check {env}",
        environment=INVALID,
        signs=("FeederReader.scanForwards cannot scan backwards",),
    ),
    KnownMessage(
        word="unexpected answer in the syncup",
        cause="master and replica broke the protocol of the syncup: their releases may not fit",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=(
            "Sent EntryRequest,",
            "unexpected response",
        ),
    ),
    KnownMessage(
        word="unexpected question in the syncup",
        cause="master and replica broke the protocol of the syncup: their releases may not fit",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=("Expected StartStream or EntryRequest",),
    ),
    KnownMessage(
        word="matchpoint asked twice",
        cause="master and replica broke the protocol of the syncup: their releases may not fit",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=("RequestMatchpoint=",),
    ),
    KnownMessage(
        word="no sync VLSN",
        cause="the node's VLSN range has no sync point although transactions ended: index and log do not agree",
        risk=NODE,
        next="jetool vlsn check {env}",
        environment=INVALID,
        signs=("null sync VLSN when the",),
    ),
    KnownMessage(
        word="two feeders of a replica",
        cause="the master serves one replica twice: it connected again before its old connection ended",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=("nascent and",),
    ),
    KnownMessage(
        word="cleaned VLSN of the node",
        cause="the VLSN up to which the node lets the cleaner go went back",
        risk=NODE,
        next="jetool vlsn range {env}",
        environment=INVALID,
        signs=("attempted update local CBVLSN",),
    ),
    KnownMessage(
        word="master while it becomes a replica",
        cause="a transition from master to replica met the node as master again",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=(
            "MASTER state",
            "from master",
        ),
    ),
    KnownMessage(
        word="transaction not frozen",
        cause="a transaction of the old master was still active as the node became a replica",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=(
            "should be",
            "to replay",
        ),
    ),
    KnownMessage(
        word="lock of the old master",
        cause="a transaction of the old master could not hand its locks to the replay",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=("was unable to transfer lock",),
    ),
    KnownMessage(
        word="before image",
        cause="a before image is there already",
        risk=NODE,
        next=VERIFY,
        environment=INVALID,
        signs=("write before image with lsn",),
    ),
    KnownMessage(
        word="arbiter not joined",
        cause="an arbiter could not join its group; the exceptions after this one say why",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        wrapper=True,
        signs=("Problem attempting to join on",),
    ),
    KnownMessage(
        word="restore marker delete",
        cause="a network restore was done, but its marker file could not be deleted (permissions)",
        risk=NODE,
        next="check permissions; jetool info {env}",
        environment=NOT_OPEN,
        signs=(
            "marker file",
            "be deleted",
        ),
    ),
)
