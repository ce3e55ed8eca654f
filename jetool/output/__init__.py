"""Renderers. Nothing else in the project prints.

Modules:

* ``base``: what commands print through, and nothing else: the ``Output`` protocol
* ``csv``: CSV (RFC 4180, newline as line end): a line of column names, then one line per row
* ``findings``: findings: what a check has to say, in all formats
* ``findings_formats``: findings for other programs
* ``je_dump``: the dump format of DbDump, byte for byte: a header, then key and data on lines of their own
* ``jsonl``: JSON and NDJSON
* ``messages``: messages on standard error: what, where, consequence, next command
* ``progress``: progress on standard error: a bar for people, JSON lines for machines, or nothing
* ``render``: the ``Output`` that commands get: a format, a style, a selection of fields, and a sink
* ``select``: ``--fields``: which fields, in which order
* ``shape``: shapes: the fields of an output record, declared once
* ``sink``: where rendered bytes go: standard output, or a file that appears only when it is complete
* ``text``: text for operators
* ``values``: typed values as text and as JSON: the one place that knows how an LSN, a time or a key looks
"""
