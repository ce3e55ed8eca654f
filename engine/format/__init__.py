"""Pure codecs of JE's log format: bytes to frozen records and back. Standard library only, no I/O.

Start with ``entry_types`` (what is in a log), then ``header`` and ``scan`` (what the entry at a position is), then one
codec of ``entry``. ``fast`` has the layouts of headers, LNs, BINs and ends of transactions once more, for passes that
meet millions. Walking and decoding are separate: a pass over a log touches bodies only where it needs them.
"""
