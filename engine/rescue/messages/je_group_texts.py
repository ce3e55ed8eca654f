"""JE's texts inside of a reason: handshakes, and the nodes of a group."""

from __future__ import annotations

from typing import Final

from engine.rescue.messages.record import (
    APPLICATION,
    CHECK,
    GOES_ON,
    GROUP,
    INFO,
    INVALID,
    NODE,
    NONE,
    NOT_OPEN,
    KnownMessage,
)

GROUP_TEXTS: Final = (
    KnownMessage(
        word="clock delta",
        cause="the clocks of the replica and its master differ by more than je.rep.maxClockDelta (Doris and "
        "StarRocks: max_bdbje_clock_delta_ms)",
        risk=NODE,
        next="synchronize the clocks (NTP); then jetool group show HOST:PORT --clock",
        environment=INVALID,
        signs=(
            "Clock delta:",
            "max permissible delta",
        ),
    ),
    KnownMessage(
        word="node name already active",
        cause="another process with this node's name is connected to the master: the node runs twice, or its old "
        "connection has not timed out yet",
        risk=NODE,
        next="stop the other process; then jetool group show HOST:PORT",
        environment=INVALID,
        signs=(
            "replica with the name:",
            "already active with the Feeder",
        ),
    ),
    KnownMessage(
        word="node id already active",
        cause="another process with this node's id is connected to the master: a copied environment, or an old "
        "connection",
        risk=NODE,
        next="stop the other process; then jetool group show HOST:PORT",
        environment=INVALID,
        signs=(
            "replica with the id:",
            "already active",
            "this feeder",
        ),
    ),
    KnownMessage(
        word="node id clash",
        cause="two nodes of the group have the same id and different names: one was started first as a group of "
        "its own (a frontend without its helper), was renamed, or has a copied environment",
        risk=NODE,
        next="jetool group show {env}; remove the environment of the wrong node and join again",
        environment=INVALID,
        signs=(
            "Ids:",
            "were equal",
            "But names:",
        ),
    ),
    KnownMessage(
        word="node name clash",
        cause="a node has another name than the group knows for its id: it was renamed, or its environment was copied",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=("Pair name mismatch",),
    ),
    KnownMessage(
        word="host name conflict",
        cause="the group knows the node by another host name than it is configured with",
        risk=NODE,
        next="jetool group show {env}; update the address of the node",
        environment=INVALID,
        signs=(
            "Conflicting hostnames",
            "replica id",
        ),
    ),
    KnownMessage(
        word="port conflict",
        cause="the group knows the node by another port than it is configured with",
        risk=NODE,
        next="jetool group show {env}; update the address of the node",
        environment=INVALID,
        signs=(
            "Conflicting ports",
            "replica id",
        ),
    ),
    KnownMessage(
        word="node type conflict",
        cause="the group knows the node as another type (electable, secondary, arbiter)",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=("Conflicting node types for",),
    ),
    KnownMessage(
        word="primary conflict",
        cause="two nodes are both configured as designated primary",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=("Conflicting Primary designations",),
    ),
    KnownMessage(
        word="different group",
        cause="the node belongs to another group than its master",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=(
            "feeder belongs to the group:",
            "but replica id",
        ),
    ),
    KnownMessage(
        word="different environment",
        cause="the node's environment belongs to another group of the same name: the UUIDs differ, so it was made "
        "anew or comes from another cluster",
        risk=NODE,
        next="jetool info {env}; compare the UUIDs of both nodes",
        environment=INVALID,
        signs=(
            "same name:",
            "represent different environment instances",
        ),
    ),
    KnownMessage(
        word="removed node",
        cause="the node was removed from the group; it cannot come back under this name",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=(
            "no longer",
            "the group",
            "explicitly removed",
        ),
    ),
    KnownMessage(
        word="node deleted before",
        cause="the node was removed from the group; it cannot come back under this name",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=("was previously deleted",),
    ),
    KnownMessage(
        word="node removed before",
        cause="the node was removed from the group; it cannot come back under this name",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=("was previously removed",),
    ),
    KnownMessage(
        word="address taken",
        cause="a new or moved node has the address of another member of the group",
        risk=NODE,
        next=GROUP,
        environment=NOT_OPEN,
        signs=(
            "configured with",
            "socket address",
            "conflicts with",
            "socket already",
        ),
    ),
    KnownMessage(
        word="log version of the master",
        cause="the master writes a later log version than the replica can read: upgrade the replicas first",
        risk=NODE,
        next="upgrade the replica; jetool info {env}",
        environment=INVALID,
        signs=(
            "Feeder log version",
            "not known to the replica",
        ),
    ),
    KnownMessage(
        word="no protocol in common",
        cause="two nodes run releases of JE without a protocol in common",
        risk=NODE,
        next="upgrade the earlier node; jetool info {env}",
        environment=INVALID,
        signs=("Incompatible protocol versions",),
    ),
    KnownMessage(
        word="group name mismatch",
        cause="a message came from a node of another group: a helper address leads to a stranger",
        risk=CHECK,
        next=GROUP,
        environment=GOES_ON,
        signs=(
            "Group name",
            "group name",
        ),
    ),
    KnownMessage(
        word="group database missing",
        cause="the database of the group (_jeRepGroupDB) is missing: the environment was never replicated, its "
        "group was not made to the end, or it was restored without it; the records are not affected",
        risk=NODE,
        next="jetool info {env}; jetool group reset {env} --group NAME --node NAME --address HOST:PORT",
        environment=NOT_OPEN,
        signs=("_jeRepGroupDB",),
        refines=(
            "DatabaseNotFoundException",
            "UNEXPECTED_STATE",
            "UNEXPECTED_STATE_FATAL",
            "UNEXPECTED_EXCEPTION",
            "UNEXPECTED_EXCEPTION_FATAL",
            "UNCAUGHT_EXCEPTION",
            "EnvironmentFailureException",
            "IllegalStateException of JE",
            "exception of Java in JE",
        ),
    ),
    KnownMessage(
        word="group key missing",
        cause="the database of the group lacks the record that describes the group",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=(
            "Group key:",
            "is missing",
        ),
    ),
    KnownMessage(
        word="group entry missing",
        cause="the database of the group lacks the record that describes the group",
        risk=NODE,
        next=GROUP,
        environment=INVALID,
        signs=(
            "Group entry key:",
            "missing from group database",
        ),
    ),
    KnownMessage(
        word="group database version",
        cause="the membership database was written by a later release of JE",
        risk=NODE,
        next=INFO,
        environment=NOT_OPEN,
        signs=("membership database format version",),
    ),
    KnownMessage(
        word="node version too low",
        cause="the node runs an earlier release of JE than the group demands",
        risk=NODE,
        next="upgrade the node; jetool group show {env}",
        environment=INVALID,
        signs=(
            "does not",
            "required version",
        ),
    ),
    KnownMessage(
        word="no helper answers",
        cause="none of the helper hosts named a master: they are not running, not reachable, or have no majority",
        risk=NODE,
        next="jetool group show HOST:PORT",
        environment=NOT_OPEN,
        signs=(
            "Could not",
            "helpers at",
        ),
    ),
    KnownMessage(
        word="no longer master",
        cause="the master became a replica while a transaction was open: the transaction was taken back",
        risk=NONE,
        next="retry the transaction on the new master; jetool group show {env}",
        environment=GOES_ON,
        signs=("no longer a master",),
    ),
    KnownMessage(
        word="earlier handle joined",
        cause="another handle of the same process has joined the group already",
        risk=NONE,
        next=APPLICATION,
        environment=GOES_ON,
        signs=(
            "earlier handle",
            "the node",
            "joining the group",
        ),
    ),
    KnownMessage(
        word="replicated read-only",
        cause="the application opened a replicated environment read-only, which JE does not allow",
        risk=NONE,
        next=APPLICATION,
        environment=NOT_OPEN,
        signs=(
            "replicated environment",
            "read only",
        ),
    ),
)
