"""Renderers. Nothing else in the project prints.

Modules:

* ``base``: what commands print through, and nothing else: the ``Output`` protocol
* ``columns``: rows that come as columns, many at once
* ``csv``: CSV (RFC 4180, newline as line end): a line of column names, then one line per row
* ``findings``: findings: what a check has to say, in all formats
* ``findings_formats``: findings for other programs
* ``je_dump``: the dump format of DbDump, byte for byte: a header, then key and data on lines of their own
* ``jsonl``: JSON and NDJSON
* ``ldif``: LDIF: the entries of an LDAP backend as text that directory servers load
* ``messages``: messages and progress on standard error: what, where, consequence, next command; a bar or JSON lines
* ``render``: the ``Output`` that commands get: a format, a style, a selection of fields, and a sink
* ``shape``: shapes: the fields of an output record, declared once, and how values of each kind look
* ``sink``: where rendered bytes go: standard output, or a file that appears only when it is complete
* ``text``: text for operators
"""
