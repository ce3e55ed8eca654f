"""Pure codecs of Derby's files: bytes to frozen records and back. Standard library only, no I/O.

Start with ``operations.registry`` (what is in a log), then ``record`` (envelope and body), then ``row`` and ``page``.
All fixed-width integers are big-endian two's complement. Layouts hold for releases 10.1 to 10.16; they were checked
against databases of 10.14.
"""
