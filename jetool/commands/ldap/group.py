"""The group ``jetool ldap``."""

from __future__ import annotations

from typing import Final

from engine.errors import UsageError
from jetool.frame.groups import group
from jetool.frame.options import Run

# The name of the format; the field of its rows has it, too.
LDIF: Final = "ldif"

ldap = group(
    "ldap",
    help="LDAP servers of the OpenDJ family: entries of a backend as LDIF, whether its indexes agree with them, and "
    "the replication changelog.",
    examples=(
        ("All entries as LDIF", "jetool ldap export /opendj/db/userRoot --output all.ldif"),
        ("Do entries, DNs and counters agree", "jetool ldap check /opendj/db/userRoot"),
        ("What the replication changelog holds, and whether it is intact", "jetool ldap changelog /opendj/changelogDb"),
    ),
)


def check_ldif(run: Run, **_: object) -> None:
    """Refuse ``--fields`` with LDIF, whose records are whole."""
    if run.out.format == LDIF and run.out.selected is not None:
        raise UsageError("--fields is not for --format ldif", hint="use --format ndjson or csv")
