"""Rows that several commands print: records of databases, streams of nodes. A command's own rows stand beside it.

Modules:

* ``record_rows``: records of databases: ``scan``, ``get`` and ``dump`` print the same class
* ``stream_rows``: two nodes of a group side by side
"""
