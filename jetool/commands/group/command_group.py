"""The group of commands that the other modules of this package add theirs to."""

from __future__ import annotations

from jetool.frame.groups import group as command_group

group = command_group(
    "group",
    help="The replication group of an environment, or a running group.",
    examples=(
        ("Its members", "jetool group show /data/env"),
        ("Of one that runs", "jetool group fe1:9010"),
        ("A member that is gone for good", "jetool group remove fe1:9010 --node fe3 --yes"),
    ),
    place_default="show",
)
