"""Pure codecs of JE's log format: bytes to frozen records and back. Standard library only, no I/O.

Start with ``entry_types`` (what is in a log), then ``scan`` (walking the entries of a buffer), then one codec of
``entry``. Scanning and decoding are separate: a pass over a log touches bodies only where it needs them.
"""
