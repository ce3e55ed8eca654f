"""Pure codecs of Derby's files: bytes to frozen records and back. Standard library only, no I/O.

Start with ``operations.registry`` (what is in a log), then ``record`` (envelope and body), then ``row`` and ``page``.
All fixed-width integers are big-endian two's complement. Layouts hold for releases 10.0 to 10.17:
see ``derby-log-format.md`` 20.

Also here:

* ``allocation``: allocation pages (format 118): which pages of a container are in use
* ``btree``: b-tree pages as far as logical undo and checks need them
* ``codec``: scalars of Derby's files: bounded reading from a buffer, writing to a byte array
* ``column``: column values of the page store's own tables, in the bytes that Derby's types have
* ``container``: containers: their keys and file names, and the 80-byte header inside page 0
* ``control``: the control file ``log.ctrl`` and its mirror: 48 bytes that name the last checkpoint
* ``describe``: records as ordered fields, once, for every renderer
* ``index_descriptor``: the descriptor of an index in the catalogue: which columns of the table it is on
* ``instant``: log instants, Derby's LSN
* ``log_file``: a log file: its name, its 24-byte header and the envelope of its records
* ``sql_type``: SQL types of columns, and column values, in the bytes that Derby gives them
"""
