"""Rows that several commands print: records of databases, streams of nodes. A command's own rows stand beside it."""
