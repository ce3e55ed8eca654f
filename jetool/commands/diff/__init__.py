"""``jetool diff``: streams of two nodes, or records of two environments, or of two points of one."""
