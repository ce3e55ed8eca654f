"""Renderers. Nothing else in the project prints.

Modules:

* ``base``: the ``Output`` protocol, through which commands print everything
* ``columns``: fast rendering of many rows from columns
* ``csv``: CSV (RFC 4180, newline as line end): a line of column names, then one line per row
* ``exporter``: a page of metrics over HTTP
* ``findings``: findings of checks, in all formats
* ``findings_formats``: findings in formats of other programs
* ``je_dump``: the dump format of DbDump, byte for byte: a header, then key and data on lines of their own
* ``jsonl``: JSON and NDJSON
* ``ldif``: LDIF: the entries of an LDAP backend as text that directory servers load
* ``messages``: messages and progress on standard error: what, where, consequence, next command; a bar or JSON lines
* ``metrics``: metrics in the text format of Prometheus
* ``node_metrics``: the metrics of nodes
* ``node_table``: samples of nodes as a table that fits the width of a terminal
* ``plain_table``: tables of printable ASCII, laid out as ``tabulate`` does
* ``render``: the implementation of ``Output``: a format, a style, a selection of fields, and a sink
* ``screen``: a table of nodes that refreshes, and keys
* ``shape``: shapes: the fields of an output record, and the format of values of each kind
* ``short_numbers``: numbers, sizes and durations in a few characters
* ``sink``: targets of rendered bytes: standard output, or a file that appears only when it is complete
* ``sparkline``: a row of values as a line of characters
* ``text``: text for operators
* ``ticker``: the interval timer of the main thread, which redraws a progress bar
* ``verdicts``: the fields of a verdict, and its line of text
"""
