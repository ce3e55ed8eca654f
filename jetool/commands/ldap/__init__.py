"""``jetool ldap``: LDAP servers of the OpenDJ family, without their server."""
