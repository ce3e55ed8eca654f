"""``jetool diff``: comparing the streams of two nodes, or the records of two environments or of two points of one."""
