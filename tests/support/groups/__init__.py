"""Nodes, masters and copies of a group: real, played from recordings, and hostile."""
