"""The group ``jetool ldap``."""

from __future__ import annotations

from jetool.frame.groups import group

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
