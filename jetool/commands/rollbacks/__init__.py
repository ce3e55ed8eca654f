"""``jetool rollbacks``: rollback periods, nested and as a timeline."""
